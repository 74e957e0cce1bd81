"""A preview shows what a cancel would do to a partition, before anything is sent."""

from typing import Any

import pytest

from ktui.cluster.broker import LogDir, TopicConfig
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState
from ktui.execution.cancel_preview import PartitionPreview, preview_partition
from ktui.execution.engine.observed import Observed
from ktui.execution.engine.requests import LAST_IN_SYNC
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
from ktui.execution.run.scope import CancelEffect
from ktui.execution.run.states import CancelKind, State
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


def a_poll(*states: PartitionState, least: int = 1, **more: Any) -> Observation:
    configs = {T0.topic: TopicConfig(min_insync_replicas=least)}
    return an_observation(states, topic_configs=configs, fresh=True, **more)


def a_step_in_flight(**more: Any) -> PartitionState:
    return a_move(T0, ORIGINAL, ADDED, **more)


def preview_of(track: Track, kind: CancelKind, seen: Observation) -> PartitionPreview:
    return preview_partition(track, kind, LIMITS, Observed(seen))


def test_stopping_the_first_step_leaves_the_original_replicas() -> None:
    preview = preview_of(a_track(a_step()), CancelKind.STOP, a_poll(a_step_in_flight()))

    assert (preview.effect, preview.cancels, preview.steps) == (CancelEffect.CANCEL, True, ())
    assert (preview.replicas, preview.leader, preview.extra) == (ORIGINAL, 1, 0)
    assert (preview.refused, preview.danger) == (None, None)


def test_a_stop_between_steps_sends_nothing_and_leaves_more_replicas_than_planned() -> None:
    seen = a_poll(a_partition(T0, ADDED))

    preview = preview_of(a_track(a_step(), over()), CancelKind.STOP, seen)

    assert (preview.effect, preview.cancels, preview.steps) == (CancelEffect.DEQUEUE, False, ())
    assert (preview.replicas, preview.planned, preview.extra) == (ADDED, 3, 1)


def test_a_partition_that_was_never_begun_only_leaves_the_queue() -> None:
    preview = preview_of(a_track(), CancelKind.ROLLBACK, a_poll(a_partition(T0)))

    assert (preview.effect, preview.cancels, preview.steps) == (CancelEffect.DEQUEUE, False, ())
    assert (preview.replicas, preview.leader) == (ORIGINAL, 1)


def test_a_rollback_shows_the_cancel_and_then_every_rollback_step() -> None:
    track = a_track(a_step(), over(), a_step((*ADDED, 5), ADDED))
    seen = a_poll(a_move(T0, ADDED, (*ADDED, 5), leader=1))

    preview = preview_of(track, CancelKind.ROLLBACK, seen)

    assert preview.cancels
    assert [step.target for step in preview.steps] == [ORIGINAL]
    assert (preview.replicas, preview.leader) == (ORIGINAL, 1)


def test_a_rollback_of_a_done_partition_ends_with_its_previous_leader() -> None:
    track = a_track(a_step(leader=2), over(), now_in(State.DONE))
    seen = a_poll(a_partition(T0, TARGET))

    preview = preview_of(track, CancelKind.ROLLBACK, seen)

    assert preview.effect is CancelEffect.GO_BACK
    assert (preview.replicas, preview.leader) == (ORIGINAL, 2)
    assert preview.steps[-1].target == ORIGINAL


def test_a_trim_keeps_the_leader_and_the_original_number() -> None:
    seen = a_poll(a_partition(T0, ADDED, leader=4))

    preview = preview_of(a_track(a_step(), over()), CancelKind.TRIM, seen)

    assert (preview.replicas, preview.leader, preview.extra) == ((4, 1, 2), 4, 0)
    assert [step.target for step in preview.steps] == [(4, 1, 2)]


def test_a_leader_dropped_by_a_cancel_is_followed_by_the_first_in_sync_replica() -> None:
    seen = a_poll(a_step_in_flight(leader=4, isr=(4, 3, 2)))

    preview = preview_of(a_track(a_step()), CancelKind.STOP, seen)

    assert (preview.replicas, preview.leader) == (ORIGINAL, 2)


@pytest.mark.parametrize("kind", list(CancelKind))
def test_a_cancel_that_would_leave_no_replica_in_sync_is_refused(kind: CancelKind) -> None:
    seen = a_poll(a_step_in_flight(leader=4, isr=(4,)), down=(1, 2, 3))

    preview = preview_of(a_track(a_step()), kind, seen)

    assert preview.refused == LAST_IN_SYNC
    assert preview.way_out is not None
    assert "as soon as another replica is in sync" in preview.way_out
    assert not preview.cancels


def test_a_cancel_that_would_leave_too_few_in_sync_is_a_danger() -> None:
    seen = a_poll(a_step_in_flight(isr=(1, 4)), least=2, down=(2, 3))

    preview = preview_of(a_track(a_step()), CancelKind.STOP, seen)

    assert preview.cancels
    assert preview.danger is not None
    assert preview.danger.startswith("1 would stay in sync, fewer than min.insync.replicas (2)")


def test_a_blocked_rollback_names_the_obstacle_and_resumes_by_itself() -> None:
    seen = a_poll(a_partition(T0, TARGET), down=(1, 2, 3))
    track = a_track(a_step(), over(TARGET), now_in(State.DONE))

    preview = preview_of(track, CancelKind.ROLLBACK, seen)

    assert preview.refused == "brokers 1, 2, 3 of its original replicas are down"
    assert preview.way_out == "It is done by itself as soon as that has passed"


def test_a_partition_someone_else_is_reassigning_is_left_to_them() -> None:
    theirs = a_poll(a_move(T0, ORIGINAL, (7, 2, 3)))

    in_flight = preview_of(a_track(a_step()), CancelKind.STOP, theirs)
    between = preview_of(a_track(a_step(), over()), CancelKind.ROLLBACK, theirs)

    for each in (in_flight, between):
        assert (each.refused, each.cancels) == ("someone else is reassigning it", False)
        assert each.way_out is not None
        assert "ktui cancel --cluster --stop --partition orders:0" in each.way_out


def test_a_deleted_topic_is_named_as_the_reason() -> None:
    deleted = preview_of(a_track(a_step()), CancelKind.STOP, a_poll(absent=frozenset({T0})))
    recreated = preview_of(
        a_track(a_step()), CancelKind.STOP, a_poll(a_partition(T0, topic_id="another"))
    )

    assert deleted.refused == "its topic was deleted"
    assert recreated.refused is not None
    assert "created again" in recreated.refused
    assert not deleted.cancels
    assert not recreated.cancels


def test_a_partition_that_kafka_does_not_show_is_named_as_the_reason() -> None:
    hidden = Failure(Operation.METADATA, "TOPIC_AUTHORIZATION_FAILED", topic=T0.topic)

    preview = preview_of(a_track(a_step()), CancelKind.STOP, a_poll(failures=(hidden,)))

    assert preview.refused == "the cluster does not report its state: TOPIC_AUTHORIZATION_FAILED"


def test_a_partition_already_rolling_back_or_gone_is_left_alone() -> None:
    back = CancelAsked(kind=CancelKind.ROLLBACK, partitions=(T0,))
    seen = a_poll(a_partition(T0, ADDED))

    again = preview_of(a_track(a_step(), over(), back), CancelKind.ROLLBACK, seen)
    gone = preview_of(a_track(now_in(State.TOPIC_GONE)), CancelKind.ROLLBACK, seen)

    assert (again.effect, gone.effect) == (CancelEffect.ALREADY, CancelEffect.NOTHING)
    assert (again.cancels, again.steps, again.replicas) == (False, (), ORIGINAL)


def beside_a_cordon(replicas: Replicas, *, refuses: bool | None) -> Observation:
    """A poll that shows the partition at rest, and broker 3 cordoned."""
    log_dirs = {3: (LogDir(3, "/a", cordoned=True),), 4: (LogDir(4, "/a"),)}
    return a_poll(a_partition(T0, replicas), log_dirs=log_dirs, refuses_cordoned=refuses)


def test_a_rollback_to_a_list_with_a_cordoned_broker_is_refused_with_the_way_out() -> None:
    seen = beside_a_cordon(ADDED, refuses=True)

    preview = preview_of(a_track(a_step(), over()), CancelKind.ROLLBACK, seen)

    assert preview.sent == "nothing for now"
    assert preview.not_now is not None
    assert "`ktui broker uncordon 3`" in preview.not_now


def test_a_stop_beside_a_cordoned_broker_is_not_refused() -> None:
    seen = beside_a_cordon(ADDED, refuses=True)

    preview = preview_of(a_track(a_step(), over()), CancelKind.STOP, seen)

    assert (preview.refused, preview.danger) == (None, None)


def test_a_null_cancel_brings_a_cordoned_broker_back_without_a_list() -> None:
    log_dirs = {3: (LogDir(3, "/a", cordoned=True),)}
    seen = a_poll(a_step_in_flight(), log_dirs=log_dirs, refuses_cordoned=True)

    preview = preview_of(a_track(a_step()), CancelKind.ROLLBACK, seen)

    assert (preview.sent, preview.replicas, preview.in_trouble) == ("cancel", ORIGINAL, False)


@pytest.mark.parametrize("refuses", [None, False])
def test_a_rollback_is_at_risk_where_kafka_may_refuse_its_list_for_a_cordon(
    refuses: bool | None,  # noqa: FBT001 - a column of the table
) -> None:
    preview = preview_of(
        a_track(a_step(), over()), CancelKind.ROLLBACK, beside_a_cordon(ADDED, refuses=refuses)
    )

    assert preview.sent == "1 step"
    assert preview.danger == (
        "broker 3 is cordoned, and Kafka 4.4 and later refuse every target that names it: "
        "`ktui broker uncordon 3`"
        if refuses is None
        else None
    )
