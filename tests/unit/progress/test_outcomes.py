"""The outcome of a reassignment that is no longer listed."""

import msgspec
import pytest

from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState
from ktui.progress.timeline import Phase, Progress, Role, Timeline
from support.simulated.observations import T0, T1, a_move, a_partition, an_observation, folded

MOVE = a_move(T0, (2, 1, 3), (4, 5, 3))


def polls(*states: PartitionState, from_s: float = 0.0) -> list[Observation]:
    return [an_observation([state], from_s + second) for second, state in enumerate(states)]


def timeline(progress: Progress) -> Timeline:
    return progress.timelines[T0]


def reported(progress: Progress) -> list[str]:
    return [event.what for event in progress.events]


def test_a_partition_on_its_target_is_done_at_once() -> None:
    now = folded(polls(MOVE, a_partition(T0, (4, 5, 3))))
    assert timeline(now).phase is Phase.DONE
    assert timeline(now).ended_at == now.last.at if now.last else None
    assert reported(now)[-1] == "completed: replicas [4,5,3]"
    roles = {broker: lane.role for broker, lane in timeline(now).lanes.items()}
    assert roles == {3: Role.IN_SYNC, 2: Role.GONE, 1: Role.GONE, 4: Role.LEADER, 5: Role.IN_SYNC}


def test_stale_metadata_keeps_a_move_settling_until_the_target_shows() -> None:
    stale = a_partition(T0, MOVE.replicas, isr=(2, 1, 3), leader=2)
    now = folded(polls(MOVE, stale, stale))
    assert timeline(now).phase is Phase.SETTLING
    assert timeline(now).lanes[4].role is Role.ADDING
    assert timeline(now).lanes[2].role is Role.LEADER
    assert timeline(now).lanes[1].role is Role.RETIRING
    done = folded(polls(a_partition(T0, (4, 5, 3)), from_s=3), now)
    assert timeline(done).phase is Phase.DONE


def test_a_move_back_on_its_original_replicas_in_any_order_is_cancelled() -> None:
    back = a_partition(T0, (1, 2, 3))
    assert timeline(folded(polls(MOVE, back, back))).phase is Phase.SETTLING
    now = folded(polls(MOVE, back, back, back))
    assert timeline(now).phase is Phase.CANCELLED
    assert reported(now)[-1] == "cancelled: replicas [1,2,3]"


def test_polls_in_quick_succession_do_not_shorten_the_grace_period() -> None:
    back = a_partition(T0, (1, 2, 3))
    quick = [an_observation([back], 1.0 + n / 10) for n in range(10)]
    assert timeline(folded([*polls(MOVE), *quick])).phase is Phase.SETTLING


def test_time_alone_does_not_end_the_grace_period_without_enough_polls() -> None:
    back = a_partition(T0, (1, 2, 3))
    slow = [an_observation([back], 10.0 * n) for n in range(1, 4)]
    assert timeline(folded([*polls(MOVE), *slow[:2]])).phase is Phase.SETTLING
    assert timeline(folded([*polls(MOVE), *slow])).phase is Phase.CANCELLED


def test_a_list_that_is_neither_target_nor_original_means_changed_elsewhere() -> None:
    other = a_partition(T0, (7, 8))
    now = folded(polls(MOVE, other, other, other))
    assert timeline(now).phase is Phase.CHANGED_ELSEWHERE


def test_a_change_while_settling_restarts_the_grace_period() -> None:
    back, other = a_partition(T0, (1, 2, 3)), a_partition(T0, (7, 8))
    now = folded(polls(MOVE, back, back, other, other))
    assert timeline(now).phase is Phase.SETTLING


def test_a_cancelled_move_that_only_adds_is_not_taken_for_done() -> None:
    adding = a_move(T0, (1, 2), (1, 2, 3))
    stale = a_partition(T0, (1, 2, 3), isr=(1, 2))
    cancelled = a_partition(T0, (1, 2))
    now = folded(polls(adding, stale, cancelled, cancelled, cancelled))
    assert timeline(folded(polls(adding, stale))).phase is Phase.SETTLING
    assert timeline(now).phase is Phase.CANCELLED


def test_a_move_that_only_adds_is_done_when_the_added_replica_is_in_sync() -> None:
    adding = a_move(T0, (1, 2), (1, 2, 3))
    assert timeline(folded(polls(adding, a_partition(T0, (1, 2, 3))))).phase is Phase.DONE


def test_a_move_whose_target_equals_its_original_is_done_once_metadata_settles() -> None:
    rolled_back = a_partition(T0, (2, 1, 3, 4), isr=(2, 1, 3), adding=(4,), removing=(4,), leader=2)
    back = a_partition(T0, (2, 1, 3))
    assert timeline(folded(polls(rolled_back, back))).phase is Phase.SETTLING
    assert timeline(folded(polls(rolled_back, back, back, back))).phase is Phase.DONE


def test_a_move_listed_again_while_settling_is_the_same_move() -> None:
    stale = a_partition(T0, MOVE.replicas, isr=(2, 1, 3), leader=2)
    now = folded(polls(MOVE, stale, MOVE))
    assert timeline(now).phase is Phase.MOVING
    assert timeline(now).began_s == 0.0


def test_a_move_listed_after_the_last_one_ended_is_new_and_knows_its_original_order() -> None:
    again = a_move(T0, (4, 5, 3), (6, 5, 3))
    now = folded(polls(MOVE, a_partition(T0, (4, 5, 3)), again))
    assert timeline(now).phase is Phase.MOVING
    assert timeline(now).began_s == 2.0
    assert timeline(now).original == (4, 5, 3)
    assert timeline(now).original_ordered
    assert reported(now)[-2:] == [
        "completed: replicas [4,5,3]",
        "reassignment started: [4,5,3] -> [6,5,3]",
    ]


def test_a_move_of_a_partition_seen_before_knows_its_original_replica_order() -> None:
    now = folded(polls(a_partition(T0, (2, 1, 3)), MOVE))
    assert timeline(now).original == (2, 1, 3)
    assert timeline(now).original_ordered


def test_a_move_found_under_way_does_not_know_its_original_replica_order() -> None:
    assert set(timeline(folded(polls(MOVE))).original) == {1, 2, 3}
    assert not timeline(folded(polls(MOVE))).original_ordered


def test_a_retargeted_move_keeps_its_first_original_replicas() -> None:
    first = a_move(T0, (2, 1, 3), (4, 1, 3))
    second = a_partition(T0, (4, 5, 1, 2, 3), isr=(2, 1, 3), adding=(5,), removing=(2, 3), leader=2)
    now = folded(polls(a_partition(T0, (2, 1, 3)), first, second))
    assert timeline(now).phase is Phase.MOVING
    assert timeline(now).original == (2, 1, 3)
    assert timeline(now).target == (4, 5, 1)
    assert reported(now)[-1] == "re-targeted: [4,5,1] instead of [4,1,3]"
    left = a_partition(T0, (4, 1, 2, 3))
    assert timeline(folded(polls(left, left, left, from_s=3), now)).phase is Phase.CHANGED_ELSEWHERE


def test_a_move_completed_and_followed_by_the_next_between_two_polls_is_done() -> None:
    second = a_move(T0, (4, 5, 3), (4, 5, 6))
    now = folded(polls(MOVE, second))
    assert timeline(now).began_s == 1.0
    assert timeline(now).original == (4, 5, 3)
    assert reported(now)[-2:] == [
        "completed: replicas [4,5,3]",
        "reassignment started: [4,5,3] -> [4,5,6]",
    ]


def test_a_second_move_between_two_polls_is_done_with_the_list_it_produced() -> None:
    done = folded(polls(MOVE, a_partition(T0, (4, 5, 3))))
    now = folded(polls(a_partition(T0, (6, 5, 3)), from_s=10.0), done)
    second = timeline(now)
    assert (second.phase, second.original, second.target) == (Phase.DONE, (4, 5, 3), (6, 5, 3))
    assert (second.began_s, second.ended_at) == (10.0, now.last.at if now.last else None)
    assert not second.seen_from_start
    assert second.lanes[4].role is Role.GONE
    assert reported(now)[-1] == "replicas changed from [4,5,3] to [6,5,3] between two polls"
    later = folded(polls(a_partition(T0, (6, 5, 3)), from_s=11.0), now)
    assert timeline(later).phase is Phase.DONE
    assert reported(later) == reported(now)


def test_a_move_listed_at_the_first_poll_may_have_begun_earlier() -> None:
    now = folded([an_observation([MOVE]), an_observation([MOVE, a_move(T1)], 1.0)])
    assert not now.timelines[T0].seen_from_start
    assert now.timelines[T1].seen_from_start
    later = folded([an_observation([MOVE, a_move(T1)], 2.0)], now)
    assert not later.timelines[T0].seen_from_start
    assert later.timelines[T1].seen_from_start


def test_a_deleted_topic_ends_its_moves() -> None:
    gone = an_observation([], 1.0, absent=frozenset({T0}))
    now = folded([*polls(MOVE), gone])
    assert timeline(now).phase is Phase.TOPIC_GONE
    assert {lane.role for lane in timeline(now).lanes.values()} == {Role.GONE}
    assert reported(now)[-1] == "topic deleted"
    assert reported(folded([an_observation([], 2.0, absent=frozenset({T0}))], now)) == reported(now)


def test_a_recreated_topic_never_inherits_a_move() -> None:
    fresh = a_partition(T0, (2, 1, 3), topic_id="another")
    now = folded(polls(MOVE, fresh))
    assert timeline(now).phase is Phase.SETTLED
    assert timeline(now).began_s == 1.0
    assert timeline(now).target == (2, 1, 3)
    assert 4 not in timeline(now).lanes
    assert "recreated" in reported(now)[-1]


def test_a_partition_that_the_recreated_topic_no_longer_has_is_gone() -> None:
    both = an_observation([MOVE, a_move(T1)])
    fewer = an_observation([a_partition(T1, topic_id="another")], 1.0)
    assert timeline(folded([both, fewer])).phase is Phase.TOPIC_GONE


def test_an_unreadable_topic_id_does_not_mean_another_topic() -> None:
    unknown = msgspec.structs.replace(MOVE, topic_id=None, isr=(), leader=None, described=False)
    now = folded(polls(MOVE, unknown, MOVE))
    assert timeline(now).phase is Phase.MOVING
    assert timeline(now).began_s == 0.0
    assert len(reported(now)) == 1


def test_a_move_whose_end_cannot_be_read_is_reported_with_an_unknown_outcome() -> None:
    blind = [an_observation([], float(second)) for second in range(1, 65)]
    assert timeline(folded([*polls(MOVE), *blind[:30]])).phase is Phase.SETTLING
    now = folded([*polls(MOVE), *blind])
    assert T0 not in now.timelines
    assert reported(now)[-1].endswith("outcome unknown")


def test_stale_metadata_just_after_the_end_does_not_undo_it() -> None:
    stale = a_partition(T0, MOVE.replicas, isr=(2, 1, 3), leader=2)
    now = folded(polls(MOVE, a_partition(T0, (4, 5, 3)), stale))
    assert timeline(now).phase is Phase.DONE
    assert timeline(now).state.replicas == (4, 5, 3)
    assert reported(now)[-1] == "completed: replicas [4,5,3]"


@pytest.mark.parametrize(("seconds", "kept"), [(590.0, True), (610.0, False)])
def test_an_ended_move_is_kept_for_ten_minutes(seconds: float, *, kept: bool) -> None:
    done = folded(polls(MOVE, a_partition(T0, (4, 5, 3))))
    assert (T0 in folded([an_observation([], 1.0 + seconds)], done).timelines) is kept
