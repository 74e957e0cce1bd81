"""Throttles of a live run: changed, killed, lost and lifted."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.cluster.ports import ConfigOp
from ktui.cluster.settings import FOLLOWER_REPLICAS, LEADER_RATE
from ktui.execution.journal.commands import Command, LeaveThrottles, Pause, SetThrottle
from ktui.execution.run.events import Configure, Planned, SettingsGivenUp, StepOver, ThrottleChanged
from ktui.execution.run.options import OnStall
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.execution.throttle.desired import NearlyInSync
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from ktui.progress.timeline import Lane, Phase, Role, Slots, Timeline
from ktui.simulated import layout
from ktui.simulated.clock import FIRST_MOMENT
from support.runs.engine_runs import OWNER
from support.runs.throttled import (
    IN_5_S,
    ONE,
    TWO,
    ThrottledStory,
    broker,
    change_list,
    set_rate,
    settings_in,
)
from support.simulated.moving_clusters import tp

INSTANTS = {
    "before the intent of a step is written": "before writing StepBegun",
    "once the intent of a step is written": "after writing StepBegun",
    "before what was found is written": "before writing SettingsFound",
    "once what was found is written": "after writing SettingsFound",
    "before the intent to set a rate is written": "before writing Configure.*SET",
    "once the intent to set a rate is written": "after writing Configure.*SET",
    "before a rate is sent": "before sending settings to set",
    "with a rate on its way": "with settings to set on their way",
    "with a rate set and not answered": "with settings to set done",
    "before the answer to a rate is written": "before writing Configured.*'4'",
    "once the answer to a rate is written": "after writing Configured.*'4'",
    "before the intent to list a replica is written": "before writing Configure.*APPEND",
    "once the intent to list a replica is written": "after writing Configure.*APPEND",
    "before a replica is listed": "before sending settings to append",
    "with a replica on its way to the list": "with settings to append on their way",
    "with a replica listed and not answered": "with settings to append done",
    "before the answer to a list is written": "before writing Configured.*'orders'",
    "once the answer to a list is written": "after writing Configured.*'orders'",
    "before the alter is sent": "before sending [12] alters",
    "with the alter on its way": "with [12] alters on their way",
    "with the alter taken and not answered": "with [12] alters done",
    "before the answer to the alter is written": "before writing Answered",
    "once the answer to the alter is written": "after writing Answered",
    "once the end of the copy is written": "after writing StepOver",
    "before the intent to unlist it is written": "before writing Configure.*SUBTRACT",
    "once the intent to unlist it is written": "after writing Configure.*SUBTRACT",
    "with a replica on its way off the list": "with settings to subtract on their way",
    "with a replica off the list and not answered": "with settings to subtract done",
    "before the intent to put back is written": "before writing Configure.*DELETE",
    "once the intent to put back is written": "after writing Configure.*DELETE",
    "before it is put back": "before sending settings to delete",
    "with what is put back on its way": "with settings to delete on their way",
    "with all put back and not answered": "with settings to delete done",
    "before the end of the run is written": "before writing Ended",
}


@pytest.mark.parametrize("instant", INSTANTS)
def test_what_others_had_set_is_there_again_after_a_kill_and_nothing_else(
    instant: str, tmp_path: Path
) -> None:
    limits = Limits(replicas=1, partitions=2)
    story = ThrottledStory(tmp_path, TWO, limits=limits, cluster=IN_5_S)
    story.killed(INSTANTS[instant].replace("DELETE", "puts_back=True").replace("delete", "set"))
    story.cluster.configure([set_rate(4, 3_000_000), set_rate(1, 7)])  # on broker 5 there is none
    story.cluster.configure([change_list(ConfigOp.SET, "0:9, 1:9,7:1")])

    story.to_the_end()

    story.assert_left_as_found()
    assert story.reaper.where
    assert story.at_target(*TWO)
    assert story.rates == {4: "3000000", 1: "7"}
    assert story.lists == {"follower.replication.throttled.replicas": "0:9, 1:9,7:1"}


@pytest.mark.parametrize("instant", ["before", "after"])
def test_a_run_killed_while_its_rate_changes_leaves_no_throttle_behind(
    instant: str, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, TWO)
    story.asked(5.0, SetThrottle(parse_throttle_rates("700kB")))
    story.killed(f"{instant} writing ThrottleChanged")

    story.to_the_end()

    story.assert_left_as_found()
    assert story.reaper.where


def test_an_entry_that_arrives_when_its_replica_is_in_sync_is_removed_again(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, rate="none")
    story.asked(2.0, SetThrottle(parse_throttle_rates("5MB")))
    story.killed("with settings to append on their way")

    story.to_the_end()

    story.assert_left_as_found()
    assert story.reaper.where
    copied_s = story.seconds(lambda event: isinstance(event, StepOver))[0]
    taken_off_s = story.seconds(lambda event: "SUBTRACT" in str(event))
    assert taken_off_s[0] - copied_s < 1.0
    assert len(taken_off_s) == 2


def rate(text: str) -> Command:
    return SetThrottle(parse_throttle_rates(text))


CHANGES: dict[str, list[tuple[float, str]]] = {
    "once": [(5.0, "1MB")],
    "ten times": [(2.0 + n, f"{400 + 50 * n}kB") for n in range(10)],
    "ten times in a second": [(5.0 + 0.1 * n, f"{400 + 50 * n}kB") for n in range(10)],
    "far down": [(5.0, "100kB"), (60.0, "900kB")],
    "lifted": [(5.0, "none")],
    "lifted and set again": [(5.0, "none"), (8.0, "400kB")],
    "lifted while it waits for its cut": [(20.1, "none")],
    "lifted for one broker": [(5.0, "500kB,4=none")],
    "lifted for all others": [(5.0, "4=500kB")],
    "another rate for one broker": [(5.0, "500kB,4=700kB")],
    "to what it is": [(5.0, "500kB")],
}


@pytest.mark.parametrize(
    ("limits", "before"),
    [
        pytest.param(1, 3_000_000, id="one by one, a rate before"),
        pytest.param(2, None, id="both at once, none before"),
        pytest.param(1, None, id="one by one, none before", marks=pytest.mark.soak),
        pytest.param(2, 3_000_000, id="both at once, a rate before", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("change", CHANGES)
def test_no_throttle_stays_after_the_rate_is_changed(
    change: str, limits: int, before: int | None, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, TWO, limits=Limits(replicas=1, partitions=limits))
    if before is not None:
        story.cluster.configure([set_rate(4, before), set_rate(5, before)])
    for at_s, text in CHANGES[change]:
        story.asked(at_s, rate(text))

    story.to_the_end()

    story.assert_left_as_found()
    assert story.at_target(*TWO)
    assert all(asked.answer and asked.answer.accepted for asked in story.answers)


def test_a_rate_for_a_broker_that_is_not_in_the_cluster_is_refused(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO, limits=Limits(replicas=1, partitions=2))
    story.asked(5.0, rate("200kB,99=300kB"))

    story.to_the_end()

    (asked,) = story.answers
    assert asked.answer is not None
    assert not asked.answer.accepted
    assert "there is no broker 99 in the cluster" in asked.answer.words
    assert not any(isinstance(event, ThrottleChanged) for event in story.events)


def test_a_changed_rate_is_in_force_at_once_on_all_brokers_concerned(tmp_path: Path) -> None:
    ways = {**TWO, "orders-2": ((1, 2, 3), (6, 2, 3))}
    story = ThrottledStory(tmp_path, ways, limits=Limits(replicas=1, partitions=2))
    story.asked(5.0, rate("200kB,5=300kB"))

    story.played(until_s=6.5)

    assert story.rates == {4: "200000", 5: "300000"}
    assert story.lists == {FOLLOWER_REPLICAS: "0:4,1:5"}
    story.resumed()
    story.assert_left_as_found()


def test_lifting_a_throttle_puts_the_settings_back_at_once_and_the_copy_continues(
    tmp_path: Path,
) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.cluster.configure([set_rate(4, 900_000)])
    story.asked(5.0, rate("none"))

    story.played(until_s=7.5)

    assert story.rates == {4: "900000"}
    assert not story.lists
    assert story.run.throttled.clean
    assert story.resumed().ended


def test_a_throttle_set_midway_binds_the_steps_that_begin_after_it(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO, rate="none")
    story.asked(5.0, rate("500kB"))

    story.to_the_end()

    story.assert_left_as_found()
    assert {broker for _, broker in story.rules.bound} == {5}
    assert story.at_target(*TWO)


def test_a_run_without_a_throttle_touches_no_setting(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO, rate="none")
    story.cluster.configure([set_rate(4, 9_000_000)])

    story.to_the_end()

    story.assert_left_as_found()
    assert not any(isinstance(event, Configure) for event in story.events)


def test_a_rate_changed_while_paused_is_put_back_when_nothing_is_in_flight(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO)
    story.asked(5.0, Pause())
    story.asked(8.0, rate("700kB"))

    story.played(until_s=10.0)
    assert story.rates == {4: "700000"}
    story.resumed(until_s=100.0)

    assert not story.rates
    assert not story.lists


def test_a_rate_changed_while_the_run_has_no_engine_is_in_force_with_the_next_one(
    tmp_path: Path,
) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.played(until_s=5.0)
    story.asked(5.0, rate("300kB"))

    story.resumed(until_s=8.5)

    assert story.rates == {4: "300000"}
    story.resumed()
    story.assert_left_as_found()


MB = 1_000_000
ORDERS = tp("orders-0")
NEW = Replica(ORDERS, 4)
AT = datetime(2026, 1, 1, tzinfo=UTC)


def a_timeline(**lane: Any) -> dict[TopicPartition, Timeline]:
    return {
        ORDERS: Timeline(
            state=PartitionState(ORDERS, None, (1, 2, 3, 4), (1, 2, 3), 1),
            phase=Phase.MOVING,
            began_at=AT,
            began_s=0.0,
            ended_at=None,
            original=(1, 2, 3),
            original_ordered=True,
            target=(1, 2, 3, 4),
            lanes={4: Lane(**{"broker": 4, "role": Role.ADDING, **lane})},
            recent=Slots(5.0, 0.0, b"\x00"),
        )
    }


@pytest.fixture
def run() -> Run:
    """Return a run that copies orders-0 onto broker 4, under 10 MB/s."""
    planned = Planned(
        topic="orders", partition=0, topic_id=None, target=(4, 2, 3), original=(1, 2, 3), leader=1
    )
    run = Run("drain")
    run.throttled.set_rates(parse_throttle_rates("10MB"))
    run.tracks_in_flight[ORDERS] = Track(planned, 0, (1, 2, 3), (1, 2, 3))
    return run


@pytest.fixture
def near(run: Run) -> NearlyInSync:
    return NearlyInSync(run)


@pytest.mark.parametrize(
    ("lane", "is_near"),
    [
        ({"lag_bytes": 5 * MB, "share": 0.96}, True),
        ({"lag_bytes": 6 * MB, "share": 0.96}, False),
        ({"lag_bytes": 1 * MB, "share": 0.5}, False),
        ({"lag_bytes": None, "share": 0.99}, False),
        ({"lag_bytes": 1 * MB, "share": 0.99, "role": Role.IN_SYNC}, False),
    ],
)
def test_a_replica_is_near_if_its_lag_is_small_by_rate_and_by_share(
    near: NearlyInSync, lane: dict[str, Any], *, is_near: bool
) -> None:
    near.update(a_timeline(**lane))
    assert near.replicas == ({NEW} if is_near else set())


def test_a_near_replica_stays_near_until_it_has_fallen_far_back(near: NearlyInSync) -> None:
    near.update(a_timeline(lag_bytes=4 * MB, share=0.99))
    near.update(a_timeline(lag_bytes=19 * MB, share=0.9))
    assert near.replicas == {NEW}

    near.update(a_timeline(lag_bytes=21 * MB, share=0.9))
    assert near.replicas == set()


def test_no_replica_is_near_when_nothing_is_throttled(run: Run, near: NearlyInSync) -> None:
    run.throttled.set_rates(parse_throttle_rates("none"))
    near.update(a_timeline(lag_bytes=0, share=1.0))
    assert near.replicas == set()


def test_a_replica_comes_off_its_list_before_it_joins_the_isr(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path)
    joined: list[bool] = []

    def look(entries: Any) -> None:
        for entry in entries:
            event = entry.event
            if isinstance(event, Configure) and event.changes[0].op is ConfigOp.SUBTRACT:
                known = story.cluster.controller.get(ORDERS)
                assert known is not None
                joined.append(4 in known.isr)

    story.checks.append(look)
    story.to_the_end()

    assert joined == [False]
    story.assert_left_as_found()


def test_a_copy_that_its_throttle_does_not_let_end_in_time_is_not_begun(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, ONE)
    until = FIRST_MOMENT + timedelta(seconds=15)

    run = story.played_by(msgspec.structs.replace(OWNER, until=until))

    assert story.witness.alters == []
    assert run.left == "none of the 1 left is expected to end by the time given with --until"


def test_a_partition_held_as_too_late_begins_once_the_throttle_is_lifted(tmp_path: Path) -> None:
    limits = Limits(replicas=1, partitions=2)
    story = ThrottledStory(tmp_path, TWO, rate="500kB,4=none", limits=limits)
    until = FIRST_MOMENT + timedelta(seconds=25)  # a copy takes 10 s, by those so far
    story.asked(5.0, SetThrottle(NO_THROTTLE))

    story.played_by(msgspec.structs.replace(OWNER, until=until))

    assert story.begun_at("orders-0")[0] < 1.0
    assert 5.0 <= story.begun_at("orders-1")[0] < 8.0
    story.assert_left_as_found()


Timed = Sequence[tuple[float, layout.OutsideEvent]]
OUTAGES: dict[str, Timed] = {
    "the target dies while it copies": [(5.0, layout.Kill(4)), (60.0, layout.Start(4))],
    "the target dies, and is back at once": [(5.0, layout.Kill(4)), (6.0, layout.Start(4))],
    "the target hangs, and goes on": [(5.0, layout.Hang(4)), (12.0, layout.Resume(4))],
    "the target hangs for long": [(5.0, layout.Hang(4)), (50.0, layout.Resume(4))],
    "the target shuts down, and is back": [(5.0, layout.Shutdown(4)), (40.0, layout.Start(4))],
    "the target dies when it is in sync": [(20.05, layout.Kill(4)), (60.0, layout.Start(4))],
    "the target hangs when it is in sync": [(20.05, layout.Hang(4)), (60.0, layout.Resume(4))],
    "the target dies at the very end": [(42.0, layout.Kill(5)), (42.0, layout.Kill(4)),
                                        (90.0, layout.Start(4)), (90.0, layout.Start(5))],
    "the source dies, and is back": [(5.0, layout.Kill(1)), (50.0, layout.Start(1))],
    "the source dies for good": [(5.0, layout.Kill(1))],
    "the source hangs": [(5.0, layout.Hang(1)), (60.0, layout.Resume(1))],
    "a kept replica dies": [(5.0, layout.Kill(2)), (50.0, layout.Start(2))],
    "target and source die": [(5.0, layout.Kill(1)), (6.0, layout.Kill(4)),
                              (50.0, layout.Start(4)), (60.0, layout.Start(1))],
    "one broker after the other is restarted": [
        (5.0 + 25.0 * n + late, act)
        for n, b in enumerate((1, 2, 3, 4, 5))
        for late, act in ((0.0, layout.Shutdown(b)), (4.0, layout.Start(b)))
    ],
    "a broker dies as the controller changes": [
        (5.0, layout.Kill(4)), (5.0, layout.ChangeController()), (60.0, layout.Start(4)),
    ],
}  # fmt: skip


_STALLED = {"on_stall": OnStall.CANCEL, "stall_timeout_s": 20.0}
OPTIONS: dict[str, Mapping[str, Any]] = {
    "both at once": {"limits": Limits(replicas=1, partitions=2)},
    "one by one": {"limits": Limits(replicas=1, partitions=1)},
    "stalled steps are cancelled": _STALLED,
    "with the leaders throttled too": {**_STALLED, "throttle_leaders": True},
}
_EACH_TIME = ("both at once", "with the leaders throttled too")


def _outages() -> Iterator[Any]:
    for outage, how in product(OUTAGES, OPTIONS):
        if outage != "the source dies for good" or "on_stall" not in OPTIONS[how]:
            yield pytest.param(outage, how, marks=() if how in _EACH_TIME else pytest.mark.soak)


@pytest.mark.parametrize(("outage", "how"), _outages())
def test_no_throttle_stays_after_brokers_are_lost_for_a_while(
    outage: str, how: str, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, TWO, **OPTIONS[how])
    story.cluster.configure([set_rate(5, 3_000_000)])
    for at_s, act in OUTAGES[outage]:
        story.schedule(at_s, act)

    story.to_the_end()

    story.assert_left_as_found()
    _moved(story)


def _moved(story: ThrottledStory) -> None:
    assert {each: story.replicas(each) for each in story.targets} == story.targets
    assert {track.state for track in story.run.tracks.values()} == {State.DONE}


def _with_a_dead_source(folder: Path) -> ThrottledStory:
    """Build a run that throttles leaders, one of which dies and is moved off all the same."""
    story = ThrottledStory(folder, TWO, throttle_leaders=True)
    story.cluster.configure([set_rate(1, 9_000_000, LEADER_RATE)])
    story.schedule(5.0, layout.Kill(1))
    return story


def test_a_run_does_not_end_before_its_throttle_is_off_a_broker_that_is_down(
    tmp_path: Path,
) -> None:
    story = _with_a_dead_source(tmp_path)
    story.schedule(130.0, layout.Start(1))

    story.played(until_s=110.0)
    _moved(story)
    assert not story.run.ended
    assert story.run.throttled.brokers == [1]

    story.resumed()
    story.assert_left_as_found()


def test_a_throttle_on_a_source_that_never_comes_back_can_be_left_behind(tmp_path: Path) -> None:
    story = _with_a_dead_source(tmp_path)
    story.asked(100.0, LeaveThrottles())

    run = story.played()

    assert run.ended
    assert run.throttled.clean
    (answer,) = [asked.answer for asked in story.answers if asked.answer]
    assert "(before: 9000000)" in answer.words
    changed = settings_in(story.cluster)
    assert changed.pop(broker(1)) == {LEADER_RATE: "500000"}
    assert not changed


def _over_but_for_broker_4(folder: Path) -> ThrottledStory:
    """Build a run that ends while the only broker with a rate of ours is down."""
    story = ThrottledStory(folder, {"orders-0": ((1, 2, 3), (4, 2, 3))})
    story.asked(10.0, SetThrottle(parse_throttle_rates("none")))
    story.schedule(9.9, layout.Hang(4))
    story.schedule(150.0, layout.Resume(4))
    return story


def test_a_rate_is_put_back_as_soon_as_its_broker_is_back(tmp_path: Path) -> None:
    story = _over_but_for_broker_4(tmp_path)

    story.played(until_s=100.0)
    assert story.rates == {4: "500000"}

    story.resumed(until_s=1_900.0)
    story.assert_left_as_found()


def test_a_throttle_on_a_broker_that_never_comes_back_can_be_left_behind_and_is_named(
    tmp_path: Path,
) -> None:
    story = ThrottledStory(tmp_path, TWO, on_stall=OnStall.CANCEL, stall_timeout_s=20.0)
    story.schedule(5.0, layout.Kill(4), layout.DeleteTopic("orders"))
    story.played(until_s=100.0)
    assert story.rates == {4: "500000"}
    assert not story.run.ended
    story.asked(101.0, LeaveThrottles())

    run = story.resumed()

    assert run.ended
    assert run.throttled.clean
    assert story.rates == {4: "500000"}
    (answer,) = [asked.answer for asked in story.answers if asked.answer]
    assert "broker 4 follower.replication.throttled.rate=500000" in answer.words
    assert any(isinstance(event, SettingsGivenUp) for event in story.events)
