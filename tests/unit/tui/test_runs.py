"""What the view makes of a run's journal: rows, places in the queue, steps."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.journal.commands import Command, SetLimits, StopEngine
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.events import (
    AnyRunEvent,
    CancelAsked,
    JournalEntry,
    LimitsChanged,
    Paused,
    PauseOrigin,
    Planned,
    PlannedPart,
    StateEntered,
    StepBegun,
    StepOver,
)
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits, Order, Shape
from ktui.progress.timeline import Lane, Phase, Progress, Role, Slots, Timeline
from ktui.tui.poll.requested_replicas import with_requested_replicas
from ktui.tui.run_view.attached import limits_after
from ktui.tui.run_view.rows import QueuePlaces, RunRows, steps_to_come
from support.journals.journals import started

AT = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
GB = 10**9
TP = TopicPartition("a", 0)


class Told:
    """A run, and those who follow it, event by event."""

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
        return self.rows.take(entries)

    def begin(self, partition: int = 0) -> set[TopicPartition]:
        return self.happen(_adds_4(partition))

    def add(self, partition: int = 0) -> None:
        over = StepOver(topic="a", partition=partition, replicas=(1, 2, 3, 4), leader=1)
        self.happen(_adds_4(partition), over)


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


def test_the_first_to_begin_has_the_first_place() -> None:
    told = Told(1, 1, 1)
    tracks = list(told.run.tracks.values())
    assert [told.rows.place(track) for track in tracks] == [1, 2, 3]
    told.begin(1)
    assert [told.rows.place(track) for track in tracks] == [1, None, 2]


def test_one_that_is_blocked_has_no_place_until_it_can_go() -> None:
    told = Told(1, 1)
    track = told.run.tracks[TP]
    told.happen(
        StateEntered(topic="a", partition=0, state=State.BLOCKED, reason="broker 4 is offline")
    )
    assert told.rows.place(track) is None
    told.happen(StateEntered(topic="a", partition=0, state=State.QUEUED))
    assert told.rows.place(track) == 1


def test_another_order_gives_all_other_places() -> None:
    told = Told(1, 3, 2)
    old, new = told.run.limits, Limits(order=Order.SIZE_DESC)
    touched = told.happen(LimitsChanged(old=old, new=new, batch=0, in_flight=0))
    assert [told.rows.place(track) for track in told.run.tracks.values()] == [3, 1, 2]
    assert len(touched) == 3


@given(st.lists(st.tuples(st.integers(0, 7), st.sampled_from(list(State))), max_size=30))
def test_places_are_those_of_who_waits_counted_anew(changes: list[tuple[int, State]]) -> None:
    told = Told(*[1] * 8)
    tracks = list(told.run.tracks.values())
    places = QueuePlaces(tracks, Order.TOPIC)
    for number, state in changes:
        tracks[number].state = state
        places.take(tracks[number])
    waiting = [track for track in tracks if track.state is State.QUEUED]
    assert [places.place(track) for track in waiting] == list(range(1, len(waiting) + 1))


# --- rows and steps --------------------------------------------------------------------------


def test_a_partition_that_nobody_has_looked_at_has_a_row_with_its_replicas() -> None:
    told = Told(1)
    (row,) = told.rows.with_unseen({}).values()
    assert row.state.replicas == (1, 2, 3)
    told.add()
    (row,) = told.rows.with_unseen({}).values()
    assert row.state.replicas == (1, 2, 3, 4)


def test_what_is_seen_of_a_partition_goes_before_what_the_run_knows() -> None:
    told, seen = Told(1), _copying(TP, 0.5)
    assert told.rows.with_unseen({TP: seen})[TP] is seen


def test_only_partitions_that_something_happened_to_are_touched() -> None:
    told = Told(1, 1, 1)
    assert told.begin(1) == {TopicPartition("a", 1)}
    assert told.happen(Paused(by=PauseOrigin.OPERATOR)) == set()


def test_the_steps_to_come_are_those_of_the_limits_in_force() -> None:
    told = Told(1, target=(4, 5, 6))
    track = told.run.tracks[TP]
    one_by_one = steps_to_come(track, Limits(replicas=1))
    assert [step.target for step in one_by_one] == [
        (1, 2, 3, 4), (1, 2, 3, 4, 5), (1, 2, 3, 4, 5, 6), (4, 5, 6),
    ]  # fmt: skip
    assert len(steps_to_come(track, Limits(replicas=1, shape=Shape.KIP_435))) == 4
    assert len(steps_to_come(track, Limits())) == 1


def test_the_steps_to_come_begin_where_the_one_in_flight_will_end() -> None:
    told = Told(1, target=(4, 5, 6))
    told.begin()
    track = told.run.tracks[TP]
    assert track.steps + told.rows.steps_left(track) == 4
    assert steps_to_come(track, Limits(replicas=1))[0].adds == (5,)


def test_a_step_that_was_given_up_is_told_with_its_reason() -> None:
    told = Told(1)
    told.begin()
    told.happen(
        StepOver(
            topic="a", partition=0, replicas=(1, 2, 3), leader=1, reached=False,
            reason="its step was cancelled",
        )
    )  # fmt: skip
    (step,) = told.rows.taken(TP)
    assert (step.reached, step.reason) == (False, "its step was cancelled")


# --- what was asked, and what is seen ----------------------------------------------------------


def test_limits_that_were_asked_for_add_up_in_order() -> None:
    asked: list[Command] = [
        SetLimits({"partitions": 3}),
        StopEngine(),
        SetLimits({"replicas": "none"}),
    ]
    assert limits_after(Limits(replicas=1), asked) == Limits(partitions=3)
    assert limits_after(Limits(replicas=1), [SetLimits({"replicas": 1})]) is None
    assert limits_after(Limits(), [SetLimits({"replicas": "many"})]) is None


def test_replicas_that_a_later_step_of_ours_asked_for_are_its_target() -> None:
    told = Told(GB)
    told.begin()
    settling = _copying(TP, 1.0)
    settling = Timeline(
        **{
            **{name: getattr(settling, name) for name in settling.__struct_fields__},
            "phase": Phase.SETTLING,
            "state": PartitionState(TP, None, (4, 2, 3), (4, 2, 3), 4),
        }
    )
    progress = Progress({TP: settling})
    told_once = with_requested_replicas(progress, told.run)
    assert told_once.timelines[TP].target == settling.target
    assert told_once.timelines[TP].goes_on
    assert with_requested_replicas(told_once, told.run) is told_once
    told.happen(
        StepOver(topic="a", partition=0, replicas=(1, 2, 3, 4), leader=1),
        StepBegun(
            topic="a", partition=0, batch=2, replicas=(4, 2, 3), adding=(), removing=(1,),
            elect=None, before=(1, 2, 3, 4), leader=1, cut=True,
        ),
    )  # fmt: skip
    assert with_requested_replicas(progress, told.run).timelines[TP].target == (4, 2, 3)


# --- called off --------------------------------------------------------------------------------


def _called_off(kind: CancelKind, *partitions: int) -> CancelAsked:
    return CancelAsked(kind=kind, partitions=tuple(TopicPartition("a", n) for n in partitions))


def test_what_goes_back_has_its_place_before_those_that_wait_to_begin() -> None:
    told = Told(1, 1, 1)
    told.add(2)
    told.happen(StateEntered(topic="a", partition=2, state=State.DONE))
    touched = told.happen(_called_off(CancelKind.ROLLBACK, 2))
    tracks = list(told.run.tracks.values())
    assert touched == {TopicPartition("a", 2)}
    assert tracks[2].state is State.ROLLING_BACK
    assert [told.rows.place(track) for track in tracks] == [2, 3, 1]


def test_what_is_stopped_before_it_begins_has_no_place_in_the_queue() -> None:
    told = Told(1, 1)
    told.happen(_called_off(CancelKind.STOP, 0))
    assert [told.rows.place(track) for track in told.run.tracks.values()] == [None, 1]


def test_the_steps_to_come_of_what_is_rolled_back_lead_to_its_original_replicas() -> None:
    told = Told(1, target=(4, 5, 6))
    told.add()
    told.happen(_called_off(CancelKind.ROLLBACK, 0))
    track = told.run.tracks[TP]
    (step,) = steps_to_come(track, Limits(replicas=1))
    assert (step.target, step.drops) == ((1, 2, 3), (4,))
    assert told.rows.steps_left(track) == 1


def test_a_step_in_flight_that_is_called_off_is_not_counted_as_if_it_would_end() -> None:
    told = Told(1, target=(4, 5, 6))
    told.begin()
    told.happen(_called_off(CancelKind.ROLLBACK, 0))
    assert steps_to_come(told.run.tracks[TP], Limits(replicas=1)) == []
    told.happen(_called_off(CancelKind.STOP, 0))
    assert steps_to_come(told.run.tracks[TP], Limits(replicas=1)) == []
