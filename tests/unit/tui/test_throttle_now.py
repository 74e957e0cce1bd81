"""What the lines of a run show of a throttle that outlives its steps, and its rows of brokers."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ktui.cluster.partition import TopicPartition
from ktui.execution.host.catalog import RunState
from ktui.execution.host.ownership import this_process
from ktui.execution.run.throttle_status import throttle_status
from ktui.progress.summary import Inflow
from ktui.progress.timeline import Progress
from ktui.tui.draw.cells import Piece
from ktui.tui.run_view.attached import RunStatus
from ktui.tui.run_view.throttle import lists_in_words, rates_now, throttle_now
from ktui.tui.screens.watch.run_banner import first_line, second_line
from support.journals.throttled_journals import a_run, all_over, run_of, throttled
from support.views.screens import BEGAN


@pytest.mark.parametrize(
    ("state", "owned", "words"),
    [
        (RunState.RUNNING, True, "all over but its throttle on broker 4"),
        (RunState.RESUMABLE, False, "its throttle stays on broker 4"),
    ],
)
def test_the_banner_shows_where_the_left_over_throttle_of_a_run_is(
    tmp_path: Path,
    state: RunState,
    owned: bool,  # noqa: FBT001 - a parameter
    words: str,
) -> None:
    run = run_of(a_run(tmp_path, *throttled(), *all_over()))
    owner = this_process() if owned else None
    throttle = throttle_status(run, owned=owned)
    status = RunStatus(name="drain-b3", state=state, throttle=throttle, owner=owner)

    assert words in _text(first_line(status, BEGAN)) + _text(second_line(status))


def test_the_banner_of_a_moving_run_does_not_show_where_its_throttle_is(tmp_path: Path) -> None:
    run = run_of(a_run(tmp_path, *throttled()))
    throttle, owner = throttle_status(run, owned=True), this_process()
    status = RunStatus(name="drain-b3", state=RunState.RUNNING, throttle=throttle, owner=owner)

    assert "its throttle" not in _text(first_line(status, BEGAN)) + _text(second_line(status))


def test_the_fastest_partition_is_named_only_while_something_is_written(tmp_path: Path) -> None:
    run = run_of(a_run(tmp_path, *throttled()))
    orders = TopicPartition("orders", 0)
    quiet = Inflow(4, 1, bytes_s=9.0, fastest=orders, fastest_bytes_s=0.0)
    busy = msgspec.structs.replace(quiet, fastest_bytes_s=1.0)

    assert throttle_now(run, Progress(), {4: quiet}).fastest is None
    assert throttle_now(run, Progress(), {4: busy}).fastest == busy


def test_each_broker_has_its_wanted_set_and_original_rate(tmp_path: Path) -> None:
    run = run_of(a_run(tmp_path, *throttled()))

    (row, *_) = (row for row in rates_now(run, {}) if row.broker == 4)

    assert (row.wanted, row.set_to, row.found) == (50_000_000, "50 MB/s", "1.0 kB/s")
    assert lists_in_words(run) == "1 replica listed for it, of topic orders."


def _text(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces)
