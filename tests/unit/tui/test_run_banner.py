"""A run's banner and its throttles."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from ktui.cluster.broker import BrokerConfig, TopicConfig
from ktui.cluster.observation import Census, Observation
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigResource, ConfigScope
from ktui.cluster.settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    unneeded_throttles,
)
from ktui.execution.host.catalog import RunState
from ktui.execution.host.ownership import this_process
from ktui.execution.run.events import HeldBroker, RateChosen, RateHeld
from ktui.execution.run.options import Schedule
from ktui.execution.run.states import Stage, State, count_stages
from ktui.execution.run.throttle_status import ThrottleStatus, throttle_status
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.progress.summary import Inflow
from ktui.progress.timeline import Progress
from ktui.speed.answer import Basis, Bottleneck, Bound, HowLong, Source, Span
from ktui.tui.poll import STALE_S, StaleThrottles
from ktui.tui.run_view.attached import RunStatus
from ktui.tui.run_view.throttle import lists_in_words, rates_now, throttle_now
from ktui.tui.screens.watch.run_banner import ShownAbove, first_line, second_line, stage_bar
from support.cli.throttle_sandbox import a_run, all_over, run_of, throttled
from support.simulated.observations import T0, a_move, a_partition, an_observation
from support.views.screens import BEGAN, plain

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
ETA, LEFT, RANGE = f"ETA {MIDDLE}", "about 60 min left", "(50 to 70), as measured"
PACE = "; broker 5 receives the most"


class Banner(NamedTuple):
    """What the first line of a banner shows, and what it does not."""

    shows: tuple[str, ...]
    hides: tuple[str, ...] = ()
    width: int = 200
    above: ShownAbove = ShownAbove()
    changes: Mapping[str, Any] = {}

    @property
    def line(self) -> str:
        status = msgspec.structs.replace(STATUS, **self.changes)
        return plain(first_line(status, BEGAN, self.width, self.above))


COUNTS = {State.DONE: 214, State.BLOCKED: 4}
BACK = {
    "partitions": 5,
    "rolling_back": 3,
    "counts": {State.ROLLED_BACK: 2, State.STOPPING: 3},
}
TWO_BACK = "ROLLING BACK, 2 of 5 back"
STALLED = {"stages": {Stage.STALLED: 2}}


def _promise(*, late: bool) -> dict[str, Any]:
    chosen = RateChosen(ends_at=BEGAN + timedelta(minutes=70), late=late)
    by = Schedule(by=BEGAN + timedelta(hours=1))
    return {"schedule": by, "throttle": ThrottleStatus(chosen=chosen)}


BANNERS = {
    "a wide one has how long it takes, on what grounds, and what sets the pace": Banner(
        (f"47% of bytes  {LEFT} {RANGE}{PACE}  {ETA}",), width=240
    ),
    "80 columns have how long it takes, and not its range": Banner((f"47%  {LEFT}",), ("(",), 80),
    "nothing known of the end is said before the sizes": Banner(
        ("4 blocked", "47%  time left unknown"), width=80,
        changes={"counts": COUNTS, "stages": count_stages(COUNTS, 0), "time_left": None},
    ),
    "a rollback counts what is still being stopped, and has an ETA": Banner(
        (f"drain-b3  {TWO_BACK}", LEFT), ("RUNNING",), changes=BACK
    ),
    **{
        f"a rollback goes on where the run is {state.value}": Banner(
            (f"{words}  {TWO_BACK}", LEFT), changes={**BACK, "state": state}
        )
        for state, words in (
            (RunState.GATED, "GATE SHUT"), (RunState.PAUSED, "PAUSED"),
            (RunState.WAITING, "WAITING"),
        )
    },
    "a rollback needs no words for a cancel gate that the header shows": Banner(
        (f"drain-b3  {TWO_BACK}",), ("GATE SHUT",), above=ShownAbove(cancel_gate=True),
        changes={**BACK, "state": RunState.GATED},
    ),
    "stalls that the line of troubles counts give way": Banner(
        (), ("2 STALLED",), 80, above=ShownAbove({Stage.STALLED: 2}), changes=STALLED
    ),
    "where there is room they are counted again, so that the counts add up": Banner(
        ("2 STALLED",), above=ShownAbove({Stage.STALLED: 2}), changes=STALLED
    ),
    "where it counts fewer stalls, all are": Banner(
        ("2 STALLED",), above=ShownAbove({Stage.STALLED: 1}), changes=STALLED
    ),
    "nothing is forecast while others are held beside a rollback": Banner(
        (TWO_BACK,), ("left",), changes={**BACK, "state": RunState.GATED, "partitions": 880}
    ),
    "a share of what was to be copied says nothing of what goes back": Banner(
        (TWO_BACK,), ("of bytes",), changes=BACK
    ),
    "no rollback goes on without an engine": Banner(
        (), ("ROLLING BACK",), changes={**BACK, "state": RunState.RESUMABLE}
    ),
    "what was stopped before it began is not called stopped": Banner(
        ("1 stopped  2 not started",),
        changes={"counts": {State.DONE: 2, State.STOPPED: 3}, "not_started": 2},
    ),
    "no failure takes no room": Banner((), ("failed",)),
    "a failure has room": Banner(
        ("1 failed",), width=80, changes={"stages": {Stage.DONE: 2, Stage.FAILED: 1}}
    ),
    "a promise says by when the run is to be done": Banner(
        (f"done by {MIDDLE}",), width=120, changes=_promise(late=False)
    ),
    "a promise says that it cannot be kept": Banner(
        (f"CANNOT BE DONE BY {MIDDLE}: {HIGH} AT THE SOONEST",), width=120,
        changes=_promise(late=True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("banner", BANNERS.values(), ids=BANNERS)
def test_a_banner_shows_what_matters_and_nothing_twice(banner: Banner) -> None:
    assert [words for words in banner.shows if words not in banner.line] == []
    assert [words for words in banner.hides if words in banner.line] == []


@pytest.mark.parametrize("width", range(70, 200))
def test_the_banner_drops_less_important_facts_first(width: int) -> None:
    line = Banner((), width=width).line
    facts = ("▕", PACE, "batch", ETA, "GiB of", RANGE, "1 stopped", "47%", LEFT)
    kept = [words in line for words in facts]
    assert kept == sorted(kept)
    assert len(line) == width


@pytest.mark.parametrize("width", [80, 120, 160])
def test_a_long_name_is_cut_before_the_figures_of_its_run(width: int) -> None:
    name = "drain-broker-3-of-the-second-rack-" + "9" * 40
    line = Banner((), width=width, changes={"name": name}).line
    assert "run drain-broker-3-of-t…" in line
    assert f"47%  {LEFT}" in line.replace("47% of bytes", "47%")


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

    assert words in plain(second_line(status, 160))


def test_the_banner_shows_rates_by_broker_by_the_lowest_and_the_highest_in_80_cells() -> None:
    brokers = tuple(HeldBroker(broker, broker * 1_000_000) for broker in range(4, 14))
    held = RateHeld(rate=4_000_000, figure=212.0, windows=20, kept=19, brokers=brokers)
    rates = parse_throttle_rates("9MB,slo=p99<150ms")
    bounded = rates.at_most(held.rate, held.rates)
    throttle = ThrottleStatus(rates=rates, held=held, bounded=bounded)
    status = msgspec.structs.replace(STATUS, throttle=throttle)

    line = plain(second_line(status, 80))

    assert "throttle 4.0 MB/s to 9.0 MB/s" in line
    assert "p99<150ms 212ms 95% kept" in line


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

    assert words in plain(first_line(status, BEGAN)) + plain(second_line(status))


def test_the_banner_of_a_moving_run_does_not_show_where_its_throttle_is(tmp_path: Path) -> None:
    run = run_of(a_run(tmp_path, *throttled()))
    throttle, owner = throttle_status(run, owned=True), this_process()
    status = RunStatus(name="drain-b3", state=RunState.RUNNING, throttle=throttle, owner=owner)

    assert "its throttle" not in plain(first_line(status, BEGAN)) + plain(second_line(status))


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


RATE = ConfigResource(ConfigScope.BROKER, "4"), FOLLOWER_RATE
LIST = ConfigResource(ConfigScope.TOPIC, T0.topic), FOLLOWER_REPLICAS


def seen(
    listed: str = "", *, at_s: float = 0.0, rate: int | None = None, moves: bool = False
) -> Observation:
    state = a_move(T0) if moves else a_partition(T0)
    found = an_observation([state], at_s)
    return msgspec.structs.replace(
        found,
        topic_configs={T0.topic: TopicConfig(follower_throttled_replicas=listed)},
        broker_configs={4: BrokerConfig(follower_throttle_rate=rate)},
    )


def test_a_rate_that_is_set_while_nothing_moves_is_left_behind() -> None:
    assert unneeded_throttles(seen(rate=1_000), {}) == {RATE}
    assert unneeded_throttles(seen(rate=1_000, moves=True), {}) == set()


@pytest.mark.parametrize("listed", ["*", "0:9", "7:4", "x"])
def test_throttled_replicas_of_a_topic_at_rest_are_left_behind(listed: str) -> None:
    assert unneeded_throttles(seen(listed), {}) == {LIST}


def test_only_replicas_being_added_may_be_listed() -> None:
    adding = a_move(T0).adding[0]

    assert unneeded_throttles(seen(f"{T0.partition}:{adding}", moves=True), {}) == set()
    assert unneeded_throttles(seen(f"{T0.partition}:99", moves=True), {}) == {LIST}
    assert unneeded_throttles(seen("*", moves=True), {}) == set()


def test_throttles_that_the_run_has_set_are_not_left_behind() -> None:
    ours = {RATE: frozenset({"1000"}), LIST: frozenset({"0:9"})}

    assert unneeded_throttles(seen("0:9", rate=1_000), ours) == set()
    assert unneeded_throttles(seen("0:9,1:9"), ours) == {LIST}


def test_a_throttle_needed_a_moment_ago_is_reported_only_after_another_read() -> None:
    leftovers = StaleThrottles()

    leftovers.note(seen("0:9", rate=1_000, moves=True), {})
    leftovers.note(seen("0:9", rate=1_000, at_s=STALE_S - 1), {})
    assert leftovers.count == 0

    leftovers.note(seen("0:9", rate=1_000, at_s=STALE_S + 1), {})
    assert leftovers.count == 2


def test_a_throttle_from_before_the_view_opened_is_reported_at_once() -> None:
    leftovers = StaleThrottles()

    leftovers.note(seen("0:9", rate=1_000), {})

    assert leftovers.count == 2


def test_lists_of_one_topic_are_not_left_behind_while_its_owner_moves_another() -> None:
    elsewhere = an_observation([a_partition(T0), a_move(TopicPartition("other", 0))], 0.0)
    settings = {T0.topic: TopicConfig(follower_throttled_replicas="0:9")}
    leftovers = StaleThrottles()

    leftovers.note(msgspec.structs.replace(elsewhere, topic_configs=settings), {})
    assert leftovers.count == 0

    leftovers.note(seen("0:9", at_s=STALE_S + 1), {})
    assert leftovers.count == 1


def recovering(
    followers: str, leaders: str = "", *, isr: tuple[int, ...] = (1, 2), at_s: float = 0.0
) -> Observation:
    """Partition 0 is on brokers 1 to 3, led by 1; each broker has both rates."""
    return msgspec.structs.replace(
        an_observation([a_partition(T0, isr=isr)], at_s),
        topic_configs={
            T0.topic: TopicConfig(
                follower_throttled_replicas=followers, leader_throttled_replicas=leaders
            )
        },
        broker_configs={
            broker: BrokerConfig(follower_throttle_rate=1_000, leader_throttle_rate=1_000)
            for broker in (1, 2, 3)
        },
    )


def rates(key: str, *brokers: int) -> set[tuple[ConfigResource, str]]:
    return {(ConfigResource(ConfigScope.BROKER, str(broker)), key) for broker in brokers}


LEADERS = ConfigResource(ConfigScope.TOPIC, T0.topic), LEADER_REPLICAS


def test_an_entry_and_the_rate_of_a_replica_out_of_sync_are_in_use_on_the_followers_side() -> None:
    assert unneeded_throttles(recovering("0:3"), {}) == {
        *rates(FOLLOWER_RATE, 1, 2),
        *rates(LEADER_RATE, 1, 2, 3),
    }


def test_entries_and_rates_of_those_that_may_lead_are_in_use_on_the_leaders_side() -> None:
    assert unneeded_throttles(recovering("", "0:1,0:2"), {}) == {
        *rates(FOLLOWER_RATE, 1, 2, 3),
        *rates(LEADER_RATE, 3),
    }
    assert LEADERS in unneeded_throttles(recovering("", "0:3"), {})


def test_every_throttle_of_a_topic_listed_as_a_whole_is_in_use_while_a_replica_catches_up() -> None:
    assert unneeded_throttles(recovering("*", "*"), {}) == set()
    assert len(unneeded_throttles(recovering("*", "*", isr=(1, 2, 3)), {})) == 8


def test_entries_of_replicas_in_sync_are_left_behind_beside_one_that_catches_up() -> None:
    assert LIST in unneeded_throttles(recovering("0:2,0:3"), {})
    assert LIST not in unneeded_throttles(recovering("0:3"), {})


def test_a_throttle_is_not_left_behind_where_the_view_has_not_read_who_is_out_of_sync() -> None:
    unseen = TopicPartition(T0.topic, 7)
    seen = recovering("*", isr=(1, 2, 3))
    census = Census(seen.at, 0.0, 0.1, 1, 8, {}, {}, unhealthy=(unseen,), in_sync=(2,))

    assert unneeded_throttles(msgspec.structs.replace(seen, census=census), {}) == set()


def test_a_throttle_is_reported_only_a_while_after_a_broker_has_caught_up_under_it() -> None:
    leftovers = StaleThrottles()

    leftovers.note(recovering("*", "*"), {})
    leftovers.note(recovering("*", "*", isr=(1, 2, 3), at_s=STALE_S - 1), {})
    assert leftovers.count == 0

    leftovers.note(recovering("*", "*", isr=(1, 2, 3), at_s=STALE_S + 1), {})
    assert leftovers.count == 8


@pytest.mark.parametrize(
    ("counts", "bar"),
    [
        ({State.QUEUED: 40}, "·" * 20),
        ({State.DONE: 20, State.ADDING: 4, State.QUEUED: 16}, "█" * 10 + "▒" * 2 + "·" * 8),
        ({State.DONE: 9_990, State.STALLED: 1, State.QUEUED: 9}, "█" * 18 + "·!"),
        (
            {State.ROLLED_BACK: 10, State.ROLLING_BACK: 20, State.QUEUED: 10},
            "·" * 5 + "↩" * 5 + "<" * 10,
        ),
    ],
)
def test_the_bar_has_the_share_of_each_state_and_a_cell_for_the_least_trouble(
    counts: dict[State, int], bar: str
) -> None:
    status = msgspec.structs.replace(
        STATUS, partitions=sum(counts.values()), counts=counts, stages=count_stages(counts, 0)
    )
    assert plain(stage_bar(status, 20)) == bar
