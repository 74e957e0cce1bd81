"""What the line of a run drops first when it is too long for its terminal."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from ktui.execution.host.catalog import RunState
from ktui.execution.run.events import HeldBroker, RateChosen, RateHeld
from ktui.execution.run.options import Schedule
from ktui.execution.run.states import State
from ktui.execution.run.throttle_status import ThrottleStatus
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.speed.answer import Basis, Bottleneck, Bound, HowLong, Source, Span
from ktui.tui.run_view.attached import RunStatus
from ktui.tui.screens.watch.run_banner import ShownAbove, first_line, second_line
from support.views.screens import BEGAN

STATUS = RunStatus(
    name="drain-b3",
    state=RunState.RUNNING,
    batch=3,
    batches=12,
    partitions=880,
    counts={State.DONE: 214, State.STOPPED: 1, State.ROLLED_BACK: 1},
    bytes_done=47 * 10**9,
    bytes=10**11,
    time_left=HowLong(
        time_s=Span(3_000.0, 3_600.0, 4_200.0),
        basis=Basis(Source.THIS_RUN),
        pacesetter=Bound(
            time_s=Span(3_000.0, 3_500.0, 4_000.0), bottleneck=Bottleneck.RECEIVER, broker=5
        ),
    ),
)
MIDDLE, HIGH = (f"{(BEGAN + timedelta(minutes=n)).astimezone():%H:%M}" for n in (60, 70))
ETA, LEFT, RANGE = f"ETA {MIDDLE}", "about 60 min left", "(50 to 70), by this run"
PACE = "; broker 5 receives the most"


def banner_line(width: int) -> str:
    return "".join(piece.text for piece in first_line(STATUS, BEGAN, width))


def test_a_wide_banner_shows_how_long_on_what_grounds_and_what_sets_the_pace() -> None:
    assert f"47%  {LEFT} {RANGE}{PACE}  {ETA}" in banner_line(230)


def test_a_banner_of_80_columns_keeps_how_long_and_drops_the_range() -> None:
    line = banner_line(80)
    assert f"47%  {LEFT}" in line
    assert "(" not in line


@pytest.mark.parametrize("width", range(70, 200))
def test_the_banner_drops_less_important_facts_first(width: int) -> None:
    line = banner_line(width)
    facts = ("▕", PACE, "batch", ETA, "GiB of", RANGE, "1 stopped", "47%", LEFT)
    kept = [words in line for words in facts]
    assert kept == sorted(kept)
    assert len(line) == width


@pytest.mark.parametrize("width", [80, 120, 160])
def test_a_long_name_is_cut_before_the_figures_of_its_run(width: int) -> None:
    status = msgspec.structs.replace(STATUS, name="drain-broker-3-of-the-second-rack-" + "9" * 40)
    line = "".join(piece.text for piece in first_line(status, BEGAN, width))
    assert "run drain-broker-3-of-t…" in line
    assert f"47%  {LEFT}" in line


def test_nothing_known_of_the_end_is_said_before_the_sizes() -> None:
    counts = {State.DONE: 214, State.BLOCKED: 4}
    status = msgspec.structs.replace(STATUS, counts=counts, time_left=None)
    line = "".join(piece.text for piece in first_line(status, BEGAN, 80))
    assert "4 blocked" in line
    assert "47%  time left unknown" in line


ROLLING_BACK = msgspec.structs.replace(
    STATUS, partitions=5, rolling_back=3, counts={State.ROLLED_BACK: 2, State.STOPPING: 3}
)


def rollback_line(**changes: Any) -> str:
    status = msgspec.structs.replace(ROLLING_BACK, **changes)
    return "".join(piece.text for piece in first_line(status, BEGAN, 200))


def test_a_rollback_counts_what_is_still_being_stopped_and_has_an_eta() -> None:
    line = rollback_line()
    assert "drain-b3  ROLLING BACK 2/5" in line
    assert LEFT in line
    assert "RUNNING" not in line


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (RunState.GATED, "GATE SHUT"),
        (RunState.PAUSED, "PAUSED"),
        (RunState.WAITING, "WAITING"),
    ],
)
def test_a_rollback_goes_on_at_a_shut_gate_and_in_a_pause(state: RunState, words: str) -> None:
    line = rollback_line(state=state)
    assert f"{words}  ROLLING BACK 2/5" in line
    assert LEFT in line


def test_a_rollback_needs_no_words_for_a_cancel_gate_that_the_header_shows() -> None:
    status = msgspec.structs.replace(ROLLING_BACK, state=RunState.GATED)
    above = ShownAbove(cancel_gate=True)
    line = "".join(piece.text for piece in first_line(status, BEGAN, 200, above))
    assert "drain-b3  ROLLING BACK 2/5" in line
    assert "GATE SHUT" not in line


@pytest.mark.parametrize(("above", "shown"), [(2, False), (1, True)])
def test_stalls_that_the_line_of_troubles_counts_are_not_counted_again(
    above: int,
    shown: bool,  # noqa: FBT001 - a parameter
) -> None:
    status = msgspec.structs.replace(STATUS, counts={State.STALLED: 2})
    line = "".join(piece.text for piece in first_line(status, BEGAN, 200, ShownAbove(above)))
    assert ("2 STALLED" in line) is shown


def test_nothing_is_forecast_while_other_partitions_are_held_beside_a_rollback() -> None:
    line = rollback_line(state=RunState.GATED, partitions=880)
    assert "ROLLING BACK 2/5" in line
    assert "left" not in line


def test_no_rollback_goes_on_without_an_engine() -> None:
    assert "ROLLING BACK" not in rollback_line(state=RunState.RESUMABLE)


def test_what_was_stopped_before_it_began_is_not_called_stopped() -> None:
    counts = {State.DONE: 2, State.STOPPED: 3}
    status = msgspec.structs.replace(STATUS, counts=counts, not_started=2)
    line = "".join(piece.text for piece in first_line(status, BEGAN, 200))
    assert "1 stopped  2 not started" in line


def test_no_failure_takes_no_room() -> None:
    assert "failed" not in banner_line(200)
    failed = msgspec.structs.replace(STATUS, counts={State.DONE: 2, State.FAILED: 1})
    assert "failed 1" in "".join(piece.text for piece in first_line(failed, BEGAN, 80))


@pytest.mark.parametrize(
    ("late", "words"),
    [
        (False, f"done by {MIDDLE}"),
        (True, f"CANNOT BE DONE BY {MIDDLE}: {HIGH} AT THE SOONEST"),
    ],
)
def test_the_banner_shows_by_when_a_run_is_to_be_done_and_whether_it_can_be(
    late: bool,  # noqa: FBT001 - a parameter of the cases
    words: str,
) -> None:
    chosen = RateChosen(ends_at=BEGAN + timedelta(minutes=70), late=late)
    schedule, throttle = Schedule(by=BEGAN + timedelta(hours=1)), ThrottleStatus(chosen=chosen)
    status = msgspec.structs.replace(STATUS, schedule=schedule, throttle=throttle)

    line = "".join(piece.text for piece in first_line(status, BEGAN, 120))

    assert words in line


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (None, "p99<150ms no figure"),
        (RateHeld(rate=1_000_000, windows=2), "p99<150ms no figure 0% kept"),
        (RateHeld(rate=9_000_000, figure=143.5, windows=20, kept=19), "p99<150ms 143.5ms 95% kept"),
    ],
)
def test_the_banner_shows_the_figure_beside_its_objective(
    held: RateHeld | None, words: str
) -> None:
    rates = parse_throttle_rates("slo=p99<150ms")
    throttle = ThrottleStatus(rates=rates, held=held)
    status = msgspec.structs.replace(STATUS, throttle=throttle)

    assert words in "".join(piece.text for piece in second_line(status, 160))


def test_the_banner_shows_rates_by_broker_by_the_lowest_and_the_highest_in_80_cells() -> None:
    brokers = tuple(HeldBroker(broker, broker * 1_000_000) for broker in range(4, 14))
    held = RateHeld(rate=4_000_000, figure=212.0, windows=20, kept=19, brokers=brokers)
    rates = parse_throttle_rates("9MB,slo=p99<150ms")
    bounded = rates.at_most(held.rate, held.rates)
    throttle = ThrottleStatus(rates=rates, held=held, bounded=bounded)
    status = msgspec.structs.replace(STATUS, throttle=throttle)

    line = "".join(piece.text for piece in second_line(status, 80))

    assert "throttle 4.0 MB/s to 9.0 MB/s" in line
    assert "p99<150ms 212ms 95% kept" in line
