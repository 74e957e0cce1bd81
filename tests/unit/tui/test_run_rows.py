"""What the view derives from the journal of a run: rows, places in the queue, steps."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.journal.commands import Command, SetLimits, StopEngine
from ktui.execution.run.events import (
    AnyRunEvent,
    CancelAsked,
    Ended,
    JournalEntry,
    LimitsChanged,
    Paused,
    PauseOrigin,
    Planned,
    PlannedPart,
    StateEntered,
    StepBegun,
    StepOver,
    UrgencyChanged,
)
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.unanswered import with_requested_replicas
from ktui.pacing.limits import Limits, Order, Shape
from ktui.pacing.situation import Urgency
from ktui.progress.timeline import Lane, Phase, Progress, Role, Slots, Timeline
from ktui.tui.run_view.attached import limits_after
from ktui.tui.run_view.rows import QueuePlaces, RunRows, ToMove, steps_to_come
from support.journals.journals import started

AT = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
GB = 10**9
TP = TopicPartition("a", 0)


class FollowedRun:
    """A run and the rows that follow it, event by event."""

    def __init__(self, *sizes: int, target: tuple[int, ...] = (4, 2, 3)) -> None:
        self.run = Run("run")
        self.rows = RunRows(self.run)
        self.now, self.seq = AT, 0
        planned = [
            Planned(
                topic="a", partition=n, topic_id=None, target=target, original=(1, 2, 3),
                leader=1, size=size,
            )
            for n, size in enumerate(sizes)
        ]  # fmt: skip
        self.happen(started(len(planned)), PlannedPart(partitions=tuple(planned)))

    def happen(self, *events: AnyRunEvent) -> set[TopicPartition]:
        entries = []
        for event in events:
            self.seq += 1
            entries.append(JournalEntry(self.seq, self.now, event))
            self.run.apply(entries[-1])
        return self.rows.apply_entries(entries)

    def begin(self, partition: int = 0) -> set[TopicPartition]:
        return self.happen(_adds_4(partition))

    def add(self, partition: int = 0) -> None:
        step_over = StepOver(topic="a", partition=partition, replicas=(1, 2, 3, 4), leader=1)
        self.happen(_adds_4(partition), step_over)


def _adds_4(partition: int) -> StepBegun:
    return StepBegun(
        topic="a", partition=partition, batch=1, replicas=(1, 2, 3, 4), adding=(4,), removing=(),
        elect=None, before=(1, 2, 3), leader=1,
    )  # fmt: skip


def _copying(tp: TopicPartition, share: float) -> Timeline:
    return Timeline(
        state=PartitionState(tp, None, (1, 2, 3, 4), (1, 2, 3), 1),
        phase=Phase.MOVING,
        began_at=AT,
        began_s=0.0,
        ended_at=None,
        original=(1, 2, 3),
        original_ordered=True,
        target=(1, 2, 3, 4),
        lanes={4: Lane(4, Role.ADDING, share=share)},
        recent=Slots(5.0, 0.0, b"\x00"),
    )


# --- places ----------------------------------------------------------------------------------


def test_the_next_partition_to_start_has_the_first_place() -> None:
    followed = FollowedRun(1, 1, 1)
    tracks = list(followed.run.tracks.values())
    assert [followed.rows.place(track) for track in tracks] == [1, 2, 3]
    followed.begin(1)
    assert [followed.rows.place(track) for track in tracks] == [1, None, 2]


def test_a_blocked_partition_has_no_place_until_it_can_move() -> None:
    followed = FollowedRun(1, 1)
    track = followed.run.tracks[TP]
    followed.happen(
        StateEntered(topic="a", partition=0, state=State.BLOCKED, reason="broker 4 is offline")
    )
    assert followed.rows.place(track) is None
    followed.happen(StateEntered(topic="a", partition=0, state=State.QUEUED))
    assert followed.rows.place(track) == 1


def test_an_urgent_partition_has_the_first_place_until_it_is_well_again() -> None:
    followed = FollowedRun(1, 1, 1)
    tracks = list(followed.run.tracks.values())
    urgent = UrgencyChanged(topic="a", partition=2, why=Urgency.ONE_IN_SYNC)
    assert followed.happen(urgent) == {TopicPartition("a", 2)}
    assert [followed.rows.place(track) for track in tracks] == [2, 3, 1]
    followed.happen(UrgencyChanged(topic="a", partition=2))
    assert [followed.rows.place(track) for track in tracks] == [1, 2, 3]


def test_another_order_gives_all_partitions_new_places() -> None:
    followed = FollowedRun(1, 3, 2)
    old, new = followed.run.limits, Limits(order=Order.SIZE_DESC)
    touched = followed.happen(LimitsChanged(old=old, new=new, batch=0, in_flight=0))
    assert [followed.rows.place(track) for track in followed.run.tracks.values()] == [3, 1, 2]
    assert len(touched) == 3


@given(st.lists(st.tuples(st.integers(0, 7), st.sampled_from(list(State))), max_size=30))
def test_places_match_a_fresh_count_of_the_waiting_partitions(
    changes: list[tuple[int, State]],
) -> None:
    followed = FollowedRun(*[1] * 8)
    tracks = list(followed.run.tracks.values())
    places = QueuePlaces(tracks, Limits())
    for number, state in changes:
        tracks[number].state = state
        places.note_state(tracks[number])
    waiting = [track for track in tracks if track.state is State.QUEUED]
    assert [places.place(track) for track in waiting] == list(range(1, len(waiting) + 1))


def test_partitions_to_be_rolled_back_do_not_count_among_those_that_wait_to_begin() -> None:
    followed = FollowedRun(*[1] * 4)
    tracks = list(followed.run.tracks.values())
    for track in tracks[1:3]:
        track.cancel, track.state = CancelKind.ROLLBACK, State.ROLLING_BACK
    places = QueuePlaces(tracks, Limits())
    assert places.waiting == 2
    assert places.first(9) == [tracks[0], tracks[3]]
    assert places.place(tracks[0]) == 3
    tracks[1].under_way = True
    places.note_state(tracks[1])
    assert (places.waiting, places.place(tracks[0])) == (2, 2)


# --- rows and steps --------------------------------------------------------------------------


def test_a_partition_without_a_poll_has_a_row_with_its_replicas() -> None:
    followed = FollowedRun(1)
    (row,) = followed.rows.with_unpolled({}).values()
    assert row.state.replicas == (1, 2, 3)
    followed.add()
    (row,) = followed.rows.with_unpolled({}).values()
    assert row.state.replicas == (1, 2, 3, 4)


def test_a_polled_partition_overrides_what_the_run_knows() -> None:
    followed, seen = FollowedRun(1), _copying(TP, 0.5)
    assert followed.rows.with_unpolled({TP: seen})[TP] is seen


def test_only_partitions_with_an_event_are_touched() -> None:
    followed = FollowedRun(1, 1, 1)
    assert followed.begin(1) == {TopicPartition("a", 1)}
    assert followed.happen(Paused(by=PauseOrigin.OPERATOR)) == set()


def test_the_steps_to_come_follow_the_limits_in_force() -> None:
    followed = FollowedRun(1, target=(4, 5, 6))
    track = followed.run.tracks[TP]
    one_by_one = steps_to_come(track, Limits(replicas=1))
    assert [step.target for step in one_by_one] == [
        (1, 2, 3, 4), (1, 2, 3, 4, 5), (1, 2, 3, 4, 5, 6), (4, 5, 6),
    ]  # fmt: skip
    assert len(steps_to_come(track, Limits(replicas=1, shape=Shape.KIP_435))) == 4
    assert len(steps_to_come(track, Limits())) == 1


def test_the_steps_to_come_start_where_the_one_in_flight_will_end() -> None:
    followed = FollowedRun(1, target=(4, 5, 6))
    followed.begin()
    track = followed.run.tracks[TP]
    assert track.steps + followed.rows.steps_left(track) == 4
    assert steps_to_come(track, Limits(replicas=1))[0].adds == (5,)


def test_an_abandoned_step_is_listed_with_its_reason() -> None:
    followed = FollowedRun(1)
    followed.begin()
    followed.happen(
        StepOver(
            topic="a", partition=0, replicas=(1, 2, 3), leader=1, reached=False,
            reason="its step was cancelled",
        )
    )  # fmt: skip
    (step,) = followed.rows.steps_taken(TP)
    assert (step.reached, step.reason) == (False, "its step was cancelled")


# --- what was asked, and what is seen ----------------------------------------------------------


def test_pending_changes_of_limits_add_up_in_order() -> None:
    asked: list[Command] = [
        SetLimits({"partitions": 3}),
        StopEngine(),
        SetLimits({"replicas": "none"}),
    ]
    assert limits_after(Limits(replicas=1), asked) == Limits(partitions=3)
    assert limits_after(Limits(replicas=1), [SetLimits({"replicas": 1})]) is None
    assert limits_after(Limits(), [SetLimits({"replicas": "many"})]) is None


def test_the_replicas_that_the_latest_step_requested_are_the_target() -> None:
    followed = FollowedRun(GB)
    followed.begin()
    settling = _copying(TP, 1.0)
    settling = Timeline(
        **{
            **{name: getattr(settling, name) for name in settling.__struct_fields__},
            "phase": Phase.SETTLING,
            "state": PartitionState(TP, None, (4, 2, 3), (4, 2, 3), 4),
        }
    )
    progress = Progress({TP: settling})
    updated = with_requested_replicas(progress, followed.run)
    assert updated.timelines[TP].target == settling.target
    assert updated.timelines[TP].goes_on
    assert with_requested_replicas(updated, followed.run) is updated
    followed.happen(
        StepOver(topic="a", partition=0, replicas=(1, 2, 3, 4), leader=1),
        StepBegun(
            topic="a", partition=0, batch=2, replicas=(4, 2, 3), adding=(), removing=(1,),
            elect=None, before=(1, 2, 3, 4), leader=1, cut=True,
        ),
    )  # fmt: skip
    assert with_requested_replicas(progress, followed.run).timelines[TP].target == (4, 2, 3)


def test_the_lanes_of_a_done_partition_go_on_in_its_rollback_as_long_as_its_run_lives() -> None:
    followed = FollowedRun(GB)
    followed.begin()
    done = PartitionState(TP, None, (1, 2, 3, 4), (1, 2, 3, 4), 1)
    seen = msgspec.structs.replace(_copying(TP, 1.0), phase=Phase.DONE, state=done)
    over = StateEntered(topic="a", partition=0, state=State.DONE, reason="", replicas=(1, 2, 3, 4))
    followed.happen(over)
    progress = with_requested_replicas(Progress({TP: seen}), followed.run)
    assert progress.timelines[TP].goes_on

    followed.happen(Ended(counts={State.DONE: 1}))
    assert not with_requested_replicas(progress, followed.run).timelines[TP].goes_on


# --- cancelled ---------------------------------------------------------------------------------


def _cancelled(kind: CancelKind, *partitions: int) -> CancelAsked:
    return CancelAsked(kind=kind, partitions=tuple(TopicPartition("a", n) for n in partitions))


def test_a_rollback_has_its_place_before_partitions_that_wait_to_start() -> None:
    followed = FollowedRun(1, 1, 1)
    followed.add(2)
    followed.happen(StateEntered(topic="a", partition=2, state=State.DONE))
    touched = followed.happen(_cancelled(CancelKind.ROLLBACK, 2))
    tracks = list(followed.run.tracks.values())
    assert touched == {TopicPartition("a", 2)}
    assert tracks[2].state is State.ROLLING_BACK
    assert [followed.rows.place(track) for track in tracks] == [2, 3, 1]


def test_a_partition_stopped_before_its_start_has_no_place_in_the_queue() -> None:
    followed = FollowedRun(1, 1)
    followed.happen(_cancelled(CancelKind.STOP, 0))
    assert [followed.rows.place(track) for track in followed.run.tracks.values()] == [None, 1]


def test_the_steps_to_come_of_a_rollback_lead_to_the_original_replicas() -> None:
    followed = FollowedRun(1, target=(4, 5, 6))
    followed.add()
    followed.happen(_cancelled(CancelKind.ROLLBACK, 0))
    track = followed.run.tracks[TP]
    (step,) = steps_to_come(track, Limits(replicas=1))
    assert (step.target, step.drops) == ((1, 2, 3), (4,))
    assert followed.rows.steps_left(track) == 1


def test_a_cancelled_step_in_flight_is_not_counted_as_completing() -> None:
    followed = FollowedRun(1, target=(4, 5, 6))
    followed.begin()
    followed.happen(_cancelled(CancelKind.ROLLBACK, 0))
    assert steps_to_come(followed.run.tracks[TP], Limits(replicas=1)) == []
    followed.happen(_cancelled(CancelKind.STOP, 0))
    assert steps_to_come(followed.run.tracks[TP], Limits(replicas=1)) == []


def test_what_a_run_takes_off_a_broker_and_brings_to_another_is_counted_as_it_happens() -> None:
    followed = FollowedRun(GB, GB)
    rows = followed.rows
    assert (rows.to_move(1), rows.to_move(4)) == (ToMove(off=2, off_left=2), ToMove(0, 0, 2, 2))
    followed.add(0)
    assert (rows.to_move(1), rows.to_move(4)) == (ToMove(off=2, off_left=2), ToMove(0, 0, 2, 1))
    assert rows.to_move(2) == rows.to_move(9) == ToMove()


def test_of_what_is_rolled_back_only_what_is_left_to_move_back_is_counted() -> None:
    followed = FollowedRun(GB, GB)
    followed.add(0)
    followed.happen(CancelAsked(kind=CancelKind.ROLLBACK, partitions=(TP,)))
    assert followed.rows.to_move(4) == ToMove(off=1, off_left=1, onto=1, onto_left=1)
    assert followed.rows.to_move(1) == ToMove(off=1, off_left=1)
