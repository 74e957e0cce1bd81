"""What the view makes of a run's journal: rows, places in the queue, steps, forecasts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.commands import Command, Leave, SetLimits
from ktui.execution.events import (
    By,
    Entry,
    Event,
    LimitsChanged,
    NowIn,
    Paused,
    Planned,
    PlannedPart,
    StepBegun,
    StepOver,
)
from ktui.execution.run import Run
from ktui.execution.states import State
from ktui.pacing.limits import Limits, Order, Shape
from ktui.progress.timeline import Lane, Phase, Progress, Role, Slots, Timeline
from ktui.tui.runs.attached import limits_after
from ktui.tui.runs.forecast import Forecast
from ktui.tui.runs.places import Places
from ktui.tui.runs.rows import RunRows, steps_to_come
from ktui.tui.runs.targets import informed
from support.journals import started

AT = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
GB = 10**9
TP = TopicPartition("a", 0)


class Told:
    """A run, and those who follow it, event by event."""

    def __init__(self, *sizes: int, target: tuple[int, ...] = (4, 2, 3)) -> None:
        self.run = Run("run")
        self.rows, self.forecast = RunRows(self.run), Forecast(self.run)
        self.now, self.seq = AT, 0
        planned = [
            Planned(
                topic="a", partition=n, topic_id=None, target=target, original=(1, 2, 3),
                leader=1, size=size,
            )
            for n, size in enumerate(sizes)
        ]  # fmt: skip
        self.happen(started(len(planned)), PlannedPart(partitions=tuple(planned)))

    def happen(self, *events: Event) -> set[TopicPartition]:
        entries = []
        for event in events:
            self.seq += 1
            entries.append(Entry(self.seq, self.now, event))
            self.run.apply(entries[-1])
        touched = self.rows.take(entries)
        self.forecast.take(entries)
        return touched

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def look(self, share: float | None = None, partition: int = 0) -> None:
        """See how far the step of a partition has come."""
        tp = TopicPartition("a", partition)
        seen = {} if share is None else {tp: _copying(tp, share)}
        self.forecast.look(seen, self.now)

    def begin(self, partition: int = 0) -> set[TopicPartition]:
        return self.happen(_adds_4(partition))

    def add(self, partition: int = 0) -> None:
        over = StepOver(topic="a", partition=partition, replicas=(1, 2, 3, 4), leader=1)
        self.happen(_adds_4(partition), over)

    def finish(self, partition: int = 0) -> None:
        self.add(partition)
        self.happen(NowIn(topic="a", partition=partition, state=State.DONE))


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
    told.happen(NowIn(topic="a", partition=0, state=State.BLOCKED, reason="broker 4 is offline"))
    assert told.rows.place(track) is None
    told.happen(NowIn(topic="a", partition=0, state=State.QUEUED))
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
    places = Places(tracks, Order.TOPIC)
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
    assert told.happen(Paused(by=By.OPERATOR)) == set()


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


# --- forecasts -------------------------------------------------------------------------------


def test_what_is_copied_counts_by_the_replicas_that_are_added() -> None:
    told = Told(GB, GB, target=(4, 5, 3))
    assert told.forecast.copied.whole == 4 * GB
    told.add()
    assert told.forecast.copied.done == GB
    told.begin(1)
    told.look(0.5, partition=1)
    assert told.forecast.copied.done == 1.5 * GB


def test_nothing_is_left_of_a_partition_that_has_ended_elsewhere() -> None:
    told = Told(GB, GB)
    told.happen(NowIn(topic="a", partition=0, state=State.CHANGED_ELSEWHERE))
    assert told.forecast.copied.whole == GB


def test_the_time_left_is_what_is_left_by_the_rate_that_was_seen() -> None:
    told = Told(GB, GB)
    told.begin()
    for tenth in range(11):
        told.look(tenth / 10)
        told.pass_time(10)
    copied = told.forecast.copied
    assert copied.bytes_s == GB / 100
    assert copied.left_s is not None
    assert round(copied.left_s.middle) == 100
    assert copied.left_s.low <= copied.left_s.middle <= copied.left_s.high


def test_a_rate_that_changes_widens_the_range() -> None:
    told = Told(GB, GB)
    told.begin()
    share = 0.0
    for tenth in range(20):
        share += 0.08 if tenth < 10 else 0.01
        told.look(share)
        told.pass_time(10)
    left = told.forecast.copied.left_s
    assert left is not None
    assert left.low < 0.7 * left.middle < left.middle < left.high / 1.5


def test_nothing_is_forecast_from_a_moment_or_from_standstill() -> None:
    told = Told(GB, GB)
    told.begin()
    told.look(0.1)
    told.pass_time(10)
    told.look(0.2)
    assert told.forecast.copied.left_s is None
    still = Told(GB)
    for _ in range(10):
        still.look()
        still.pass_time(10)
    assert still.forecast.copied.left_s is None


def test_what_was_copied_and_is_no_more_has_no_rate_and_no_time_left() -> None:
    told = Told(GB, GB)
    told.begin()
    for tenth in range(5):
        told.look(tenth / 10)
        told.pass_time(10)
    assert told.forecast.copied.bytes_s is not None
    for _ in range(3):
        told.look(0.4)
        told.pass_time(10)
    still = told.forecast.copied
    assert still.bytes_s is None
    assert still.left_s is None
    told.look(0.5)
    assert told.forecast.copied.left_s is not None


def test_a_pause_makes_the_rate_start_anew() -> None:
    told = Told(GB, GB)
    told.begin()
    for tenth in range(5):
        told.look(tenth / 10)
        told.pass_time(10)
    assert told.forecast.copied.left_s is not None
    told.happen(Paused(by=By.OPERATOR))
    told.look(0.5)
    assert told.forecast.copied.left_s is None


def test_where_no_size_is_known_no_share_is_told() -> None:
    told = Told(0, 0)
    told.finish()
    assert told.forecast.copied.share is None


# --- what was asked, and what is seen ----------------------------------------------------------


def test_limits_that_were_asked_for_add_up_in_order() -> None:
    asked: list[Command] = [SetLimits({"partitions": 3}), Leave(), SetLimits({"replicas": "none"})]
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
    assert informed(progress, told.run) is progress
    told.happen(
        StepOver(topic="a", partition=0, replicas=(1, 2, 3, 4), leader=1),
        StepBegun(
            topic="a", partition=0, batch=2, replicas=(4, 2, 3), adding=(), removing=(1,),
            elect=None, before=(1, 2, 3, 4), leader=1, cut=True,
        ),
    )  # fmt: skip
    assert informed(progress, told.run).timelines[TP].target == (4, 2, 3)
