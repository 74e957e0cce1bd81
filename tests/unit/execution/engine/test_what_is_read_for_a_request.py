"""What is read for a request decides whether it leaves: settings, log dirs, restarts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ktui.cluster.asking import FreshRead
from ktui.cluster.broker import Broker, TopicConfig
from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, Reassignment, TopicPartition
from ktui.execution import JournalProblem, RunProblem
from ktui.execution.engine.observed import RESTARTS_S, AbsentBrokers, Observed
from ktui.execution.engine.requests import why_not_sent
from ktui.execution.journal.commands import Continue
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import Answered, Ended, Outage, Planned, Request, StepBegun
from ktui.execution.run.states import State
from ktui.execution.run.track import OpenStep, new_track
from ktui.execution.run.unanswered import MAY_COME_S, Unanswered
from ktui.pacing.limits import Limits, Shape
from ktui.pacing.situation import Situation, Step
from ktui.pacing.steps import next_step
from ktui.simulated import layout as acts
from ktui.simulated.clock import FIRST_MOMENT
from ktui.simulated.reader import SimulatedReader
from support.chaos.faults import Call, Interposed
from support.runs.stories import Story
from support.runs.throttled import RF3, ThrottledStory
from support.runs.witnessed import WitnessedJournal
from support.simulated.moving_clusters import a_cluster, tp

ORDERS = tp("orders-0")


def an_observation(state: PartitionState, min_insync_replicas: int = 1) -> Observation:
    """Return a poll of one partition on five healthy brokers."""
    return Observation(
        cluster_id="c",
        controller=1,
        brokers={b: Broker(b) for b in range(1, 6)},
        partitions={ORDERS: state},
        waits_for_kept=False,
        topic_configs={"orders": TopicConfig(min_insync_replicas=min_insync_replicas)},
        at=FIRST_MOMENT,
        monotonic_s=0.0,
        took_s=0.0,
    )


@pytest.mark.parametrize(("to_cancel", "moves"), [(False, True), (True, False)])
async def test_what_has_just_ended_is_neither_altered_nor_cancelled(
    *, to_cancel: bool, moves: bool
) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    moving = Reassignment((4, 1, 2, 3), (4,), (3,))
    lists = [{ORDERS: moving}, {}]  # it ends between the two lists of the read

    class Ending(SimulatedReader):
        async def list_reassignments(self) -> Mapping[TopicPartition, Reassignment]:
            return lists.pop(0)

    reader = Ending(cluster)

    seen = await FreshRead(reader, cluster.clock).read([ORDERS], to_cancel=to_cancel)

    assert seen.partitions[ORDERS].reassigning is moves


@pytest.mark.parametrize(("least", "leaves"), [(1, True), (2, False)])
def test_min_insync_replicas_is_read_for_a_step_that_drops(least: int, *, leaves: bool) -> None:
    state = PartitionState(ORDERS, "a", (1, 2, 4), (1, 4), 1)
    track = new_track(Planned("orders", 0, "a", (1, 2), (1, 2, 4), 1), 0, FIRST_MOMENT)
    begun = StepBegun(
        topic="orders", partition=0, batch=1, replicas=(1, 2), adding=(), removing=(4,),
        elect=None, before=(1, 2, 4), leader=1,
    )  # fmt: skip
    track.step = OpenStep(begun, FIRST_MOMENT)
    limits = Limits(replicas=1, shape=Shape.KIP_435)

    why = why_not_sent(Request.ALTER, track, Observed(an_observation(state, least)), limits)

    assert (why is None) is leaves


def test_a_replica_whose_log_dir_has_failed_counts_as_offline() -> None:
    state = PartitionState(ORDERS, "a", (1, 2, 3), (1, 2), 1, offline=(3,))
    track = new_track(Planned("orders", 0, "a", (1, 2, 4), (1, 2, 3), 1), 0, FIRST_MOMENT)

    situation = Observed(an_observation(state)).situation(track, state)

    assert situation is not None
    assert situation.online == {1, 2, 4, 5}


def test_a_leaderless_partition_knows_that_its_eligible_leader_was_removed() -> None:
    state = PartitionState(ORDERS, "a", (1, 2), (), None, elr=(3,))
    track = new_track(Planned("orders", 0, "a", (1, 4), (1, 2), 1), 0, FIRST_MOMENT)

    situation = Observed(an_observation(state)).situation(track, state)

    assert situation is not None
    assert situation.eligible_gone == (3,)


def test_a_restarting_broker_is_not_taken_for_dead() -> None:
    absent = AbsentBrokers()
    absent.update({1, 2, 3}, 0.0)
    absent.update({1, 2}, 10.0)
    assert absent.restarting == {3}

    absent.update({1, 2}, 10.0 + RESTARTS_S)
    assert absent.restarting == frozenset()


def test_a_broker_that_is_down_when_a_run_begins_counts_as_dead() -> None:
    absent = AbsentBrokers()
    absent.update({1, 2}, 0.0)

    assert absent.restarting == frozenset()


@pytest.mark.parametrize(("restarting", "kept"), [({3}, True), (set(), False)])
def test_a_replica_is_dropped_unreplaced_only_when_its_broker_is_dead(
    restarting: set[int], *, kept: bool
) -> None:
    now = Situation(
        replicas=(1, 2, 3),
        isr=(1, 2),
        leader=1,
        target=(1, 2, 4),
        online=frozenset({1, 2, 4}),
        restarting=frozenset(restarting),
    )

    step = next_step(now, Limits(replicas=1, shape=Shape.GENTLE))

    assert isinstance(step, Step)
    assert (3 in step.target) is kept


def test_a_lost_request_is_waited_out_once_its_broker_answers() -> None:
    heard = {4: -1.0}
    unanswered: Unanswered[str] = Unanswered({}, lambda broker: heard[broker])
    unanswered.add("orders-0", 4)

    unanswered.note_poll(100.0)
    unanswered.note_poll(500.0)
    assert "orders-0" in unanswered
    assert unanswered.silent == {4}
    heard[4] = 510.0
    unanswered.note_poll(511.0)
    assert unanswered.silent == set()
    unanswered.note_poll(511.0 + MAY_COME_S - 1.0)
    assert "orders-0" in unanswered
    unanswered.note_poll(511.0 + MAY_COME_S)
    assert "orders-0" not in unanswered


def test_both_of_two_lost_requests_are_waited_out() -> None:
    heard = {4: -1.0, 5: 200.0}
    unanswered: Unanswered[str] = Unanswered({}, lambda broker: heard[broker])
    unanswered.add("orders-0", 4)
    unanswered.add("orders-0", 5)

    unanswered.note_poll(100.0)
    unanswered.note_poll(300.0)

    assert unanswered.node("orders-0") == 4
    assert unanswered.silent_for("orders-0", 300.0) == 200.0
    assert unanswered.silent_for("orders-1", 300.0) == 0.0


def test_an_unreadable_answer_does_not_end_the_run(tmp_path: Path) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 2, 3))})
    broken = {"describe_topics": 2, "list_reassignments": 3, "topic_configs": 2}

    def breaks(name: str) -> Any:
        async def hook(call: Call) -> Any:
            answer = await call()
            broken[name] -= 1
            if broken[name] == 0:
                raise KeyError("no such field")
            return answer

        return hook

    reader: Any = Interposed(story.reader, **{name: breaks(name) for name in broken})
    story.reader = reader

    assert story.played().ended

    assert story.at_target("orders-0")
    assert any(isinstance(event, Outage) for event in story.events)


class _BreakingJournal(WitnessedJournal):
    """A journal whose disk reports an error from a moment on."""

    broken_s = 10.0

    def append(self, events: Any) -> Any:
        if events and self._clock.monotonic() >= self.broken_s:
            raise JournalProblem(f"{self.path}: cannot be written: the disk reports an error")
        return super().append(events)


class _OnABreakingDisk(ThrottledStory):
    whole = False

    def opened(self) -> Journal:
        kind = WitnessedJournal if self.whole else _BreakingJournal
        self.rules.journaled = True
        if not self.whole:
            self.cluster.at(_BreakingJournal.broken_s, self._breaks)
        return kind.watched(self.path, self.clock, self.written)

    def _breaks(self) -> None:
        self.rules.journaled = False


def test_an_engine_that_loses_its_journal_names_the_throttle_that_stays(tmp_path: Path) -> None:
    story = _OnABreakingDisk(tmp_path)
    story.schedule(11.0, acts.Deny("alter_configs"))

    with pytest.raises(JournalProblem, match="Its throttle stays on broker 4 and topic orders"):
        story.played()

    story.cluster.do(acts.Allow("alter_configs"))
    story.whole = True
    story.resumed()
    story.assert_left_as_found()


def test_an_engine_that_loses_its_journal_removes_throttles_nothing_in_flight_needs(
    tmp_path: Path,
) -> None:
    story = _OnABreakingDisk(tmp_path, {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (1, 2, 5))})
    story.schedule(9.9, acts.Alter({ORDERS: None}))

    with pytest.raises(JournalProblem):
        story.played()

    assert story.lists.get("follower.replication.throttled.replicas", "") in {"", "0:4"}
    story.whole = True
    story.resumed(until_s=100.0)  # the cancel of others pauses it
    story.reopened(Continue())
    story.assert_left_as_found()


def test_an_engine_that_loses_its_journal_and_its_run_sends_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = _OnABreakingDisk(tmp_path, {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (1, 2, 5))})
    broken: list[str] = []
    story.lost = lambda: "taken by another" if broken else None
    append = _BreakingJournal.append

    def breaks(journal: _BreakingJournal, events: Any) -> Any:
        try:
            return append(journal, events)
        except JournalProblem as problem:
            broken.append(str(problem))
            raise

    story.witness.arrivals.insert(0, lambda _arrival: broken.append("sent") if broken else None)
    monkeypatch.setattr(_BreakingJournal, "append", breaks)
    with pytest.raises(RunProblem, match="taken by another"):
        story.played()

    assert broken
    assert "sent" not in broken


def test_a_run_that_ends_with_an_open_request_names_it(tmp_path: Path) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (2, 1, 3))})
    story.schedule(0.0, acts.LoseAnswer())

    assert story.played().ended

    (ended,) = [event for event in story.events if isinstance(event, Ended)]
    answers = [event for event in story.events if isinstance(event, Answered)]
    assert answers[0].verdict.value == "unknown"
    assert [(each.topic, each.partition) for each in ended.open] == [("orders", 0)]
    assert story.state("orders-0") is State.DONE
