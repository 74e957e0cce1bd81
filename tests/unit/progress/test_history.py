"""The timeline as it is drawn: marks in time slots, bounded however long a move takes."""

from __future__ import annotations

import pytest

from ktui.progress.fold import fold
from ktui.progress.row import HISTORY_SLOTS, RECENT_SLOTS
from ktui.progress.timeline import Lane, Mark, Phase, Progress, Slots
from support.simulated.moving_clusters import a_cluster, wait
from support.simulated.observations import T0, a_move, a_partition, an_observation, folded
from support.simulated.seen_polls import Recorder, moving


def recent(progress: Progress) -> Slots:
    return progress.timelines[T0].recent


def history(lane: Lane) -> Slots:
    assert lane.history is not None
    return lane.history


def test_the_row_shows_the_share_caught_up_every_five_seconds() -> None:
    now = folded(moving(seconds=20, messages=1_000, inbound_s=0, copied_s=50))
    assert recent(now).marks == bytes((20, 45, 70, 95))
    assert recent(now).end_s == 20.0


def test_the_row_shows_the_replica_farthest_behind() -> None:
    ends = {(T0, 1): 100, (T0, 4): 80, (T0, 5): 30}
    seen = an_observation([a_move(target=(4, 5, 3))], ends=ends, starts={T0: 0})
    assert recent(folded([seen])).marks == bytes((30,))


def test_rows_of_moves_that_began_at_different_times_line_up() -> None:
    polls = moving(seconds=9, from_s=103.0)
    assert recent(folded(polls[:1])).end_s == 105.0
    assert recent(folded(polls)).end_s == 115.0
    assert len(recent(folded(polls)).marks) == 3


def test_the_row_holds_ten_minutes() -> None:
    now = folded(moving(seconds=900, poll_s=5.0, messages=10**8))
    assert len(recent(now).marks) == RECENT_SLOTS
    assert recent(now).slot_s * RECENT_SLOTS == 600


def test_a_lost_cluster_leaves_a_gap() -> None:
    cluster = a_cluster(moving=["orders-0"], messages=10**8)
    recorder = Recorder(cluster)
    first = recorder.record(5)
    wait(cluster, 25)
    marks = recent(folded([*first, *recorder.record(5)])).marks
    assert marks == bytes((0, *[Mark.NOTHING] * 5, 0))


def test_slow_polls_leave_no_gaps() -> None:
    marks = recent(folded(moving(seconds=100, poll_s=20.0, messages=10**8))).marks
    assert marks == bytes(17)


def test_a_leader_movement_is_marked_and_stays_in_its_slot() -> None:
    polls = [
        an_observation([a_partition()], 0.0),
        an_observation([a_partition(leader=2)], 1.0),
        an_observation([a_partition(leader=2)], 2.0),
        an_observation([a_partition(leader=2)], 6.0),
    ]
    now = folded(polls)
    assert recent(now).marks == bytes((Mark.LEADER_MOVED, Mark.IN_SYNC))


def test_a_cancelled_move_is_marked() -> None:
    polls = [an_observation([a_move()], 0.0)]
    polls += [an_observation([a_partition()], 5.0 + n) for n in range(4)]
    now = folded(polls)
    assert recent(now).marks[-1] == Mark.CANCELLED
    assert Mark.CANCELLED in history(now.timelines[T0].lanes[4]).marks


def test_a_stall_is_marked() -> None:
    now = folded(moving(seconds=60, copied_s=0))
    assert recent(now).marks == bytes((*[0] * 6, *[Mark.STALLED] * 6))
    assert history(now.timelines[T0].lanes[4]).marks[-1] == Mark.STALLED


def test_unhealthy_partitions_are_marked() -> None:
    assert recent(folded([an_observation([a_partition(isr=(1,))])])).marks == bytes(
        (Mark.OUT_OF_SYNC,)
    )


def test_each_lane_keeps_its_own_history_by_the_second() -> None:
    lanes = folded(moving(seconds=3, messages=100, inbound_s=0, copied_s=10)).timelines[T0].lanes
    assert history(lanes[4]).marks == bytes((0, 10, 20))
    assert history(lanes[1]).marks == bytes([Mark.LEADER] * 3)
    assert history(lanes[2]).marks == bytes([Mark.IN_SYNC] * 3)


@pytest.mark.parametrize(("seconds", "slot_s"), [(240, 1.0), (241, 2.0), (481, 4.0), (961, 8.0)])
def test_the_slots_of_a_long_move_double_so_that_all_of_it_is_shown(
    seconds: int, slot_s: float
) -> None:
    now = folded(moving(seconds=seconds, messages=10_000, inbound_s=0, copied_s=1))
    slots = history(now.timelines[T0].lanes[4])
    assert slots.slot_s == slot_s
    assert len(slots.marks) <= HISTORY_SLOTS
    assert len(slots.marks) == -(-seconds // slot_s)
    assert list(slots.marks) == sorted(slots.marks)


@pytest.mark.parametrize("second", [100, 101])
def test_trouble_of_one_second_stays_visible_when_slots_double(second: int) -> None:
    polls = [
        an_observation([a_partition(isr=(1, 3), leader=3 if n >= second else 1)], float(n))
        for n in range(250)
    ]
    slots = history(folded(polls).timelines[T0].lanes[3])
    assert slots.slot_s == 2.0
    assert slots.marks.count(Mark.LEADER_MOVED) == 1


def test_a_replica_added_later_is_blank_before_it_was_added() -> None:
    first = a_move(target=(4, 2, 3))
    second = a_partition(T0, (4, 5, 2, 1, 3), isr=(1, 2, 3), adding=(5,), removing=(1, 3), leader=1)
    polls = [an_observation([first], float(n)) for n in range(3)]
    polls.append(an_observation([second], 3.0, ends={(T0, 1): 10, (T0, 5): 5}, starts={T0: 0}))
    lane = folded(polls).timelines[T0].lanes[5]
    assert history(lane).marks == bytes((*[Mark.NOTHING] * 3, 50))


def test_lanes_keep_their_places_and_history_ends_with_the_move() -> None:
    recorder = Recorder(a_cluster(moving=["orders-0"], messages=4_500))
    now = folded(recorder.record(6))
    assert now.timelines[T0].phase is Phase.DONE
    length = len(history(now.timelines[T0].lanes[4]).marks)
    order = list(now.timelines[T0].lanes)
    now = folded(recorder.record(100), now)
    assert len(history(now.timelines[T0].lanes[4]).marks) == length
    assert list(now.timelines[T0].lanes) == order


def test_an_unchanged_settled_partition_keeps_its_timeline_object() -> None:
    before = folded([an_observation([a_partition()], 10.0)])
    after = fold(before, an_observation([a_partition()], 11.0))
    assert after.timelines[T0] is before.timelines[T0]
