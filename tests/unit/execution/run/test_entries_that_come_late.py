"""What the fold of a run makes of its events."""

from collections import Counter
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.errors import Unreachable
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.cluster.ports import ConfigOp, Verdict, WriteResult
from ktui.cluster.settings import FOLLOWER_REPLICAS
from ktui.execution.engine.between_steps import as_journaled
from ktui.execution.journal.commands import SetThrottle
from ktui.execution.run.events import (
    Answered,
    AnyRunEvent,
    Cancel,
    Configure,
    Configured,
    FoundSetting,
    JournalEntry,
    PlannedPart,
    Request,
    SettingsFound,
)
from ktui.execution.run.plans import planned_partitions
from ktui.execution.run.run import Run
from ktui.execution.run.states import STAGES, Stage, State, count_stages
from ktui.execution.run.track import queue_rank
from ktui.execution.run.unanswered import left_open
from ktui.execution.throttle.desired import ThrottleChanges
from ktui.pacing.limits import Limits, Order
from ktui.pacing.roster import Roster
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.throttle_rates import NO_THROTTLE
from ktui.simulated import layout as acts
from ktui.simulated.clock import FIRST_MOMENT
from support.journals.journals import a_start, step
from support.runs.pacing import tp as pacing_tp
from support.runs.stories import Story
from support.runs.throttled import ONE, ThrottledStory, change_list, topic
from support.simulated.moving_clusters import cancel, tp

TAKEN_OFF = r"after writing Configured.*TOPIC.*ACCEPTED"
"""An entry whose request is still in flight."""


def over(story: ThrottledStory) -> None:
    """Run to the end, until nothing is in flight any more."""
    story.to_the_end()
    story.clock.pass_time(100.0)
    story.cluster.catch_up()


def last_removal(story: ThrottledStory, answer: Verdict, times: int = 1) -> None:
    """Answer some removals, from the second on, without carrying them out."""
    sending, count = story.sending.alter_configs, [0]

    async def send(changes: Any, **how: Any) -> Any:
        count[0] += any(change.op is ConfigOp.SUBTRACT for change in changes)
        if any(change.op is ConfigOp.SUBTRACT for change in changes) and 1 < count[0] <= 1 + times:
            return {change.resource: WriteResult(answer, message="no") for change in changes}
        return await sending(changes, **how)

    story.sending.alter_configs = send  # type: ignore[method-assign]


@pytest.mark.parametrize("answer", [Verdict.UNKNOWN, Verdict.REFUSED])
@pytest.mark.parametrize("times", [1, 3])
def test_a_late_entry_is_removed_even_if_the_request_for_that_fails(
    times: int, answer: Verdict, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.sending.settings_late_by_s[ConfigOp.APPEND] = 40.0
    story.asked(10.0, SetThrottle(NO_THROTTLE))
    last_removal(story, answer, times)

    over(story)

    story.assert_left_as_found()


@pytest.mark.parametrize("dead_s", [2.0, 30.0])
@pytest.mark.parametrize("by_s", [20.0, 50.0])
def test_an_entry_arriving_after_its_removal_and_a_kill_is_removed_again(
    by_s: float, dead_s: float, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.sending.settings_late_by_s[ConfigOp.APPEND] = by_s
    story.killed(TAKEN_OFF)

    story.to_the_end(dead_s)
    story.clock.pass_time(100.0)
    story.cluster.catch_up()

    story.assert_left_as_found()
    assert story.reaper.where


def test_an_entry_arriving_after_the_run_was_left_and_resumed_is_removed(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.sending.settings_late_by_s[ConfigOp.APPEND] = 50.0

    story.played(until_s=8.0)
    story.resumed()
    story.clock.pass_time(100.0)
    story.cluster.catch_up()

    story.assert_left_as_found()


def test_a_request_changes_each_list_only_once() -> None:
    """Kafka refuses a request that names a setting of a topic twice."""
    run, orders = Run("run"), topic("orders")
    found = FoundSetting(orders, FOLLOWER_REPLICAS, None)
    put_in = Configure(changes=(change_list(ConfigOp.APPEND, "1:5"),))
    done = Configured(resource=orders, verdict=Verdict.ACCEPTED)
    for event in (SettingsFound(found=(found,)), put_in, done):
        run.throttled.apply(event)

    removals = ThrottleChanges(run, {}, set()).removals(
        {(orders, FOLLOWER_REPLICAS): frozenset({"0:4"})}
    )

    assert list(removals) == [change_list(ConfigOp.SUBTRACT, "0:4,1:5")]


RF3 = (1, 2, 3)
ACCEPTED = Answered(topic="orders", partition=0, request=Request.ALTER, verdict=Verdict.ACCEPTED)


def test_an_unsent_cancel_does_not_claim_the_cancel_of_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = {"orders-0": (RF3, (4, 2, 3))}
    story = Story(tmp_path, ways, on_stall="cancel", stall_timeout_s=60.0)
    story.schedule(5.0, acts.Kill(4))
    story.schedule(100.0, cancel("orders-0"))
    sending = story.sending.alter_reassignments

    async def but_no_cancel(targets: Any, **how: Any) -> Any:
        if None in targets.values():
            raise Unreachable("altering reassignments")
        return await sending(targets, **how)

    monkeypatch.setattr(story.sending, "alter_reassignments", but_no_cancel)

    assert story.played().ended

    assert len(story.seconds(lambda e: isinstance(e, Cancel))) > 1
    assert story.state("orders-0") is State.CHANGED_ELSEWHERE
    assert story.reason("orders-0") == "someone else cancelled its step"


def test_a_cancel_counts_as_the_runs_own_unless_it_was_refused() -> None:
    def answer(verdict: Verdict) -> Answered:
        return Answered(topic="orders", partition=0, request=Request.CANCEL, verdict=verdict)

    def cancelled(*events: AnyRunEvent) -> bool:
        numbered = enumerate([*a_start(), step(0), *events], start=1)
        run = Run("run").fold(JournalEntry(n, FIRST_MOMENT, event) for n, event in numbered)
        flying = run.tracks_in_flight[tp("orders-0")].step
        return flying is not None and flying.cancelled

    asked = Cancel(topic="orders", partition=0, reason="broker 4 offline for 60 s")
    refused, unknown = answer(Verdict.REFUSED), answer(Verdict.UNKNOWN)
    assert not cancelled()
    assert cancelled(asked)  # its process died before there was an answer
    assert cancelled(asked, answer(Verdict.ACCEPTED))
    assert cancelled(asked, unknown)
    assert not cancelled(asked, refused)
    assert cancelled(asked, unknown, asked, refused)
    assert not cancelled(asked, refused, asked, refused)


def test_a_process_that_takes_over_knows_a_lost_cancel_though_a_later_one_was_answered() -> None:
    asked = Cancel(topic="orders", partition=0, reason="broker 4 offline for 60 s")
    what = partial(Answered, topic="orders", partition=0, request=Request.CANCEL)
    lost, answered = what(verdict=Verdict.UNKNOWN, node=6), what(verdict=Verdict.ACCEPTED)

    def known(*events: AnyRunEvent) -> dict[Any, Any]:
        numbered = enumerate([*a_start(), step(0), ACCEPTED, *events], start=1)
        return left_open(
            Run("run").fold(JournalEntry(n, FIRST_MOMENT, event) for n, event in numbered)
        )

    assert known(asked, answered) == {}
    assert known(asked, lost, asked, answered) == {tp("orders-0"): (6,)}
    assert known(asked, lost, asked, answered, step(0), ACCEPTED) == {}


@given(st.dictionaries(st.sampled_from(State), st.integers(0, 100_000)), st.data())
def test_every_partition_is_counted_once(counts: dict[State, int], data: st.DataObject) -> None:
    between = data.draw(st.integers(0, counts.get(State.QUEUED, 0)))
    held_up = data.draw(st.integers(0, counts.get(State.ADDING, 0)))
    stages = count_stages(counts, between, Counter({Stage.HELD_UP: held_up}))
    assert sum(stages.values()) == sum(counts.values())
    assert all(stages.values())
    assert stages.get(Stage.WAITING, 0) == between
    assert stages.get(Stage.HELD_UP, 0) == held_up


def test_what_is_ready_is_not_done_and_what_has_ended_is_not_under_way() -> None:
    assert STAGES[State.READY] is Stage.READY
    over = {Stage.DONE, Stage.CALLED_OFF, Stage.FAILED, Stage.LEFT_OUT}
    assert {STAGES[state] for state in State if state.ended} == over


SIZES = {pacing_tp(0): 60, pacing_tp(1): 1_024, pacing_tp(2): 500, pacing_tp(3): 10_240}


def a_run() -> Run:
    plan = Plan(tuple(PartitionTarget(each.topic, each.partition, (1, 2)) for each in SIZES))
    cluster = ClusterSnapshot(
        partitions={each: PartitionState(each, "id", (1,), (1,), 1) for each in SIZES},
        brokers={},
        configs={},
        sizes={Replica(each, 1): size for each, size in SIZES.items()},
    )
    planned = PlannedPart(partitions=tuple(planned_partitions(plan, cluster)))
    return Run("run").fold([JournalEntry(1, datetime(2026, 11, 26, tzinfo=UTC), planned)])


@pytest.mark.parametrize("order", Order)
def test_the_list_and_the_engine_sort_alike(order: Order) -> None:
    limits, run = Limits(order=order), a_run()
    roster = Roster(limits)
    roster.add(map(as_journaled, run.tracks.values()))

    listed = sorted(SIZES, key=lambda each: queue_rank(run.tracks[each], limits))

    assert listed == sorted(SIZES, key=roster.rank)
    if order is Order.LONG_FIRST:
        assert listed == [pacing_tp(3), pacing_tp(1), pacing_tp(0), pacing_tp(2)]


def test_what_goes_ahead_is_in_the_journal_so_that_a_resumed_run_keeps_its_order() -> None:
    ahead = {each: track.planned.ahead for each, track in a_run().tracks.items()}

    assert ahead == {TopicPartition("orders", n): b for n, b in enumerate((0, 1_024, 0, 10_240))}
