"""What a cancel would do to a partition is said before it is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from ktui.cluster.broker import TopicConfig
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState
from ktui.execution.cancel.preview import CancelPreview, preview_cancel
from ktui.execution.engine.observed import Observed
from ktui.execution.engine.request_check import LAST_IN_SYNC
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.cancel_scope import CancelEffect
from ktui.execution.run.events import (
    AnyRunEvent,
    CancelAsked,
    JournalEntry,
    Planned,
    PlannedPart,
    StateEntered,
    StepBegun,
    StepOver,
)
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.pacing.limits import Limits
from support.journals.journals import started
from support.runs.engine_runs import Replicas
from support.simulated.observations import START, T0, a_move, a_partition, an_observation

ORIGINAL, TARGET = (1, 2, 3), (4, 5, 6)
ADDED = (1, 2, 3, 4)
LIMITS = Limits(replicas=1, partitions=2)


def a_step(to: Replicas = ADDED, before: Replicas = ORIGINAL, leader: int = 1) -> StepBegun:
    return StepBegun(
        topic=T0.topic,
        partition=T0.partition,
        batch=1,
        replicas=to,
        adding=tuple(b for b in to if b not in before),
        removing=tuple(b for b in before if b not in to),
        elect=None,
        before=before,
        leader=leader,
    )


def over(replicas: Replicas = ADDED) -> StepOver:
    return StepOver(topic=T0.topic, partition=T0.partition, replicas=replicas, leader=1)


def now_in(state: State) -> StateEntered:
    return StateEntered(topic=T0.topic, partition=T0.partition, state=state)


def a_track(*events: AnyRunEvent, target: Replicas = TARGET) -> Track:
    planned = Planned(T0.topic, T0.partition, f"id-of-{T0.topic}", target, ORIGINAL, 1)
    first: list[AnyRunEvent] = [started(1), PlannedPart(partitions=(planned,)), *events]
    entries = (JournalEntry(seq, START, event) for seq, event in enumerate(first, start=1))
    return Run("run").fold(entries).tracks[T0]


def a_look(*states: PartitionState, least: int = 1, **more: Any) -> Observation:
    configs = {T0.topic: TopicConfig(min_insync_replicas=least)}
    return an_observation(states, topic_configs=configs, fresh=True, **more)


def flying(**more: Any) -> PartitionState:
    return a_move(T0, ORIGINAL, ADDED, **more)


def told(track: Track, kind: CancelKind, seen: Observation) -> CancelPreview:
    return preview_cancel(track, kind, LIMITS, Observed(seen))


def test_a_first_step_that_is_stopped_leaves_what_there_was() -> None:
    told_ = told(a_track(a_step()), CancelKind.STOP, a_look(flying()))

    assert (told_.act, told_.cancels, told_.steps) == (CancelEffect.CANCEL, True, ())
    assert (told_.replicas, told_.leader, told_.extra) == (ORIGINAL, 1, 0)
    assert (told_.refused, told_.danger) == (None, None)


def test_a_stop_between_steps_sends_nothing_and_leaves_more_replicas_than_planned() -> None:
    seen = a_look(a_partition(T0, ADDED))

    told_ = told(a_track(a_step(), over()), CancelKind.STOP, seen)

    assert (told_.act, told_.cancels, told_.steps) == (CancelEffect.DEQUEUE, False, ())
    assert (told_.replicas, told_.planned, told_.extra) == (ADDED, 3, 1)


def test_a_partition_that_was_never_begun_only_leaves_the_queue() -> None:
    told_ = told(a_track(), CancelKind.ROLLBACK, a_look(a_partition(T0)))

    assert (told_.act, told_.cancels, told_.steps) == (CancelEffect.DEQUEUE, False, ())
    assert (told_.replicas, told_.leader) == (ORIGINAL, 1)


def test_a_rollback_tells_the_cancel_and_then_every_step_back() -> None:
    track = a_track(a_step(), over(), a_step((*ADDED, 5), ADDED))
    seen = a_look(a_move(T0, ADDED, (*ADDED, 5), leader=1))

    told_ = told(track, CancelKind.ROLLBACK, seen)

    assert told_.cancels
    assert [step.target for step in told_.steps] == [ORIGINAL]
    assert (told_.replicas, told_.leader) == (ORIGINAL, 1)


def test_a_rollback_of_what_is_done_ends_with_the_leader_from_before() -> None:
    track = a_track(a_step(leader=2), over(), now_in(State.DONE))
    seen = a_look(a_partition(T0, TARGET))

    told_ = told(track, CancelKind.ROLLBACK, seen)

    assert told_.act is CancelEffect.GO_BACK
    assert (told_.replicas, told_.leader) == (ORIGINAL, 2)
    assert told_.steps[-1].target == ORIGINAL


def test_a_trim_keeps_the_leader_and_the_original_number() -> None:
    seen = a_look(a_partition(T0, ADDED, leader=4))

    told_ = told(a_track(a_step(), over()), CancelKind.TRIM, seen)

    assert (told_.replicas, told_.leader, told_.extra) == ((4, 1, 2), 4, 0)
    assert [step.target for step in told_.steps] == [(4, 1, 2)]


def test_the_leader_that_goes_with_a_cancel_is_followed_by_the_first_in_sync() -> None:
    seen = a_look(flying(leader=4, isr=(4, 3, 2)))

    told_ = told(a_track(a_step()), CancelKind.STOP, seen)

    assert (told_.replicas, told_.leader) == (ORIGINAL, 2)


@pytest.mark.parametrize("kind", list(CancelKind))
def test_a_cancel_after_which_none_would_be_in_sync_is_refused(kind: CancelKind) -> None:
    seen = a_look(flying(leader=4, isr=(4,)), down=(1, 2, 3))

    told_ = told(a_track(a_step()), kind, seen)

    assert told_.refused == LAST_IN_SYNC
    assert told_.way_out is not None
    assert "as soon as another replica is in sync" in told_.way_out
    assert not told_.cancels


def test_too_few_in_sync_after_a_cancel_is_a_danger() -> None:
    seen = a_look(flying(isr=(1, 4)), least=2, down=(2, 3))

    told_ = told(a_track(a_step()), CancelKind.STOP, seen)

    assert told_.cancels
    assert told_.danger is not None
    assert told_.danger.startswith("1 would stay in sync, fewer than min.insync.replicas (2)")


def test_a_way_back_that_is_blocked_says_by_what_and_that_it_goes_on_by_itself() -> None:
    seen = a_look(a_partition(T0, TARGET), down=(1, 2, 3))
    track = a_track(a_step(), over(TARGET), now_in(State.DONE))

    told_ = told(track, CancelKind.ROLLBACK, seen)

    assert told_.refused == "brokers 1, 2, 3 of its original replicas are offline"
    assert told_.way_out == "It is done by itself as soon as that has passed"


def test_what_someone_else_is_reassigning_is_left_to_them() -> None:
    theirs = a_look(a_move(T0, ORIGINAL, (7, 2, 3)))

    in_flight = told(a_track(a_step()), CancelKind.STOP, theirs)
    between = told(a_track(a_step(), over()), CancelKind.ROLLBACK, theirs)

    for each in (in_flight, between):
        assert (each.refused, each.cancels) == ("someone else is reassigning it", False)
        assert each.way_out is not None
        assert "ktui cancel --cluster --partition orders:0" in each.way_out


def test_a_topic_that_is_gone_is_said_to_be_so() -> None:
    deleted = told(a_track(a_step()), CancelKind.STOP, a_look(absent=frozenset({T0})))
    made_anew = told(
        a_track(a_step()), CancelKind.STOP, a_look(a_partition(T0, topic_id="another"))
    )

    assert deleted.refused == "its topic was deleted"
    assert made_anew.refused is not None
    assert "created again" in made_anew.refused
    assert not deleted.cancels
    assert not made_anew.cancels


def test_a_partition_that_may_not_be_seen_is_said_to_be_so() -> None:
    hidden = Failure(Operation.METADATA, "TOPIC_AUTHORIZATION_FAILED", topic=T0.topic)

    told_ = told(a_track(a_step()), CancelKind.STOP, a_look(failures=(hidden,)))

    assert told_.refused == "the cluster does not report its state: TOPIC_AUTHORIZATION_FAILED"


def test_what_is_over_or_on_its_way_already_is_left_alone() -> None:
    back = CancelAsked(kind=CancelKind.ROLLBACK, partitions=(T0,))
    seen = a_look(a_partition(T0, ADDED))

    again = told(a_track(a_step(), over(), back), CancelKind.ROLLBACK, seen)
    gone = told(a_track(now_in(State.TOPIC_GONE)), CancelKind.ROLLBACK, seen)

    assert (again.act, gone.act) == (CancelEffect.ALREADY, CancelEffect.NOTHING)
    assert (again.cancels, again.steps, again.replicas) == (False, (), ORIGINAL)
