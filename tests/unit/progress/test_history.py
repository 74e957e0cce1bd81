"""What is kept of earlier polls."""

from collections.abc import Mapping

import msgspec
import pytest

from ktui.cluster.broker import BrokerConfig, TopicConfig
from ktui.cluster.observation import Observation, Reading
from ktui.cluster.partition import TopicPartition
from ktui.progress.flows import BrokerFlow, flow_slots
from ktui.progress.fold import fold
from ktui.progress.row import HISTORY_SLOTS, RECENT_SLOTS, RateMemory
from ktui.progress.summary import Inflow, inflows, totals
from ktui.progress.timeline import Cause, Lane, Mark, Phase, Progress, Slots, Stall, StallKind
from support.simulated.moving_clusters import a_cluster, move, throttle, wait
from support.simulated.observations import (
    T0,
    T1,
    Recorder,
    a_move,
    a_partition,
    an_observation,
    at,
    folded,
    moving,
)


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


def test_the_rate_into_a_broker_is_the_sum_of_its_copies() -> None:
    targets = dict.fromkeys(("orders-0", "orders-1"), (4, 2, 3))

    (into,) = inflows(folded(moving(60, targets=targets, copied_s=2_000))).values()

    assert (into.broker, into.copies, into.throttle) == (4, 2, None)
    assert into.bytes_s == pytest.approx(2_000_000, rel=0.01)
    assert into.inbound_bytes_s == pytest.approx(200_000, rel=0.01)


def test_the_rate_into_a_broker_is_shown_with_its_throttle() -> None:
    listed = {"follower.replication.throttled.replicas": "*"}
    cluster = a_cluster(
        moving=["orders-0"], messages=10**7, inbound_s=500, copied_s=50_000, configs=listed
    )
    cluster.do(throttle("follower", 4, 5_000_000))

    into = inflows(folded(Recorder(cluster).record(90)))[4]

    assert into.throttle == 5_000_000
    assert into.bytes_s == pytest.approx(5_000_000, rel=0.05)


def test_the_fastest_partition_is_named() -> None:
    states = [a_move(T0), a_move(T1)]
    written = {T0: 300, T1: 700}
    polls = [
        an_observation(
            states,
            float(n),
            ends={key: v for tp, b in written.items() for key, v in ends(tp, b, n).items()},
            starts={T0: 0, T1: 0},
            sizes={key: v * 10 for tp, b in written.items() for key, v in ends(tp, b, n).items()},
        )
        for n in range(30)
    ]

    into = inflows(folded(polls))[4]

    assert into.fastest == T1
    assert into.fastest_bytes_s == pytest.approx(7_000, rel=0.01)
    assert into.inbound_bytes_s == pytest.approx(10_000, rel=0.01)


def ends(tp: TopicPartition, inbound: int, second: int) -> dict[tuple[TopicPartition, int], int]:
    return {(tp, 1): 10**6 + inbound * second, (tp, 4): 100 * second}


def test_unknown_rates_are_not_guessed() -> None:
    now = folded([an_observation([a_move(T0)])])

    assert inflows(now) == {4: Inflow(broker=4, copies=1)}


def test_brokers_that_copy_nothing_have_no_entry() -> None:
    assert inflows(folded([an_observation([a_partition(T0)])])) == {}
    assert inflows(Progress()) == {}


def test_an_ended_move_no_longer_counts() -> None:
    cluster = a_cluster(resting=["orders-0"], messages=100)
    recorder = Recorder(cluster)
    cluster.do(move("orders-0", 4, 2, 3))

    assert inflows(folded(recorder.record(30))) == {}


def copied_until(stop: int, seconds: int) -> list[Observation]:
    """Polls of each second of a copy of 100 kB/s whose broker stops dead."""
    return [
        an_observation(
            [a_move()],
            float(n),
            ends={(T0, 1): 10**6, (T0, 4): 100 * min(n, stop)},
            starts={T0: 0},
            sizes={(T0, 1): 10**9, (T0, 4): 10**5 * min(n, stop)},
        )
        for n in range(seconds)
    ]


def into_broker_4(flows: Mapping[int, BrokerFlow]) -> float | None:
    return flows[4].in_s if 4 in flows else None


def test_once_a_copy_is_known_to_have_stopped_nothing_is_drawn_as_copied_after_the_stop() -> None:
    before = folded(copied_until(60, 72)).flows  # as in a pause that a throttle makes
    assert flow_slots(before, 71, into_broker_4, 3) == [pytest.approx(100_000, rel=0.01)] * 3

    after = folded(copied_until(60, 110)).flows
    *copied, at_stop = flow_slots(after, 64, into_broker_4, 12)
    assert copied[1:] == [pytest.approx(100_000, rel=0.01)] * 10
    assert at_stop == pytest.approx(100_000, rel=0.01)
    assert flow_slots(after, 109, into_broker_4, 9) == [0.0] * 9


def test_the_copied_curve_of_a_partition_ends_where_its_stall_began() -> None:
    memory, progress = RateMemory(), Progress()
    for n, poll in enumerate(copied_until(60, 110)):
        progress = fold(progress, poll)
        memory.note(progress.timelines[T0], float(n))

    rates = [memory.last_before(second + 0.5, 1.0) for second in range(30, 110)]
    copied = [None if each is None else each.copied_s for each in rates]
    assert all(copied[:30])
    assert not any(copied[31:])


ALL_LISTED = {"orders": TopicConfig(follower_throttled_replicas="*")}
MANY = [a_move(TopicPartition("orders", n)) for n in range(20)]


def in_turn(seconds: int, *, at_work: int, rate: int = 900_000) -> list[Observation]:
    """Build polls in which broker 4 copies the first partitions of MANY while the rest wait."""
    return [
        an_observation(
            MANY,
            float(n),
            ends={
                **{(state.tp, 1): 100_000 for state in MANY},
                **{(state.tp, 4): 0 for state in MANY[at_work:]},
                **{(state.tp, 4): 900 * n // at_work for state in MANY[:at_work]},
            },
            starts={state.tp: 0 for state in MANY},
            topic_configs=ALL_LISTED,
            broker_configs={4: BrokerConfig(follower_throttle_rate=rate)},
        )
        for n in range(seconds)
    ]


def test_a_replica_that_waits_for_its_turn_under_a_throttle_in_use_is_not_stalled() -> None:
    now = folded(in_turn(90, at_work=2))
    assert {timeline.phase for timeline in now.timelines.values()} == {Phase.MOVING}
    assert not [event for event in now.events if event.severity]
    waiting = stall_of_last(now)
    assert (waiting.kind, waiting.alarm) == (StallKind.WAITING, False)
    assert (waiting.cause, waiting.broker) == (Cause.THROTTLED, 4)
    assert waiting.detail == "waits for its turn: 0.9 MB/s throttle, 20 replicas"
    assert totals(now).stalled == totals(now).falling_behind == 0
    assert now.timelines[MANY[0].tp].stall is None


def test_replicas_completed_between_two_polls_count_as_use_of_the_throttle() -> None:
    polls = in_turn(40, at_work=1)
    standing_still = [a_partition(MANY[0].tp, (4, 2, 3)), *MANY[1:]]
    polls = [
        msgspec.structs.replace(
            poll,
            partitions={state.tp: state for state in (MANY if n < 25 else standing_still)},
            ends={
                r: msgspec.structs.replace(e, value=min(e.value, 50_000 if r.broker == 1 else 0))
                for r, e in poll.ends.items()
            },
        )
        for n, poll in enumerate(polls)
    ]
    assert not [event for event in folded(polls).events if event.severity]


def test_a_broker_on_which_nothing_makes_headway_is_stalled_by_its_throttle() -> None:
    stopped = [at_a_stop(poll) for poll in in_turn(40, at_work=20, rate=1_000)]
    now = folded(stopped)
    assert {timeline.phase for timeline in now.timelines.values()} == {Phase.STALLED}
    found = stall_of_last(now)
    assert (found.cause, found.detail) == (Cause.THROTTLED, "1.0 kB/s throttle, 20 replicas")


def stall_of_last(progress: Progress) -> Stall:
    found = progress.timelines[MANY[-1].tp].stall
    assert found is not None
    return found


def at_a_stop(poll: Observation) -> Observation:
    """Return the same poll without any progress of the copies."""
    ends = {r: reading for r, reading in poll.ends.items() if r.broker == 1}
    still = {r: Reading(7, poll.monotonic_s) for r in poll.ends if r.broker != 1}
    return msgspec.structs.replace(poll, ends={**ends, **still})


def test_waiting_ends_in_an_alarm_when_the_others_stop_too() -> None:
    now = folded(in_turn(60, at_work=2))
    stopped = [at(at_a_stop(poll), 60.0 + n) for n, poll in enumerate(in_turn(40, at_work=2))]
    stopped = [
        msgspec.structs.replace(
            poll, ends={r: Reading(e.value, poll.monotonic_s) for r, e in poll.ends.items()}
        )
        for poll in stopped
    ]
    assert now.timelines[MANY[-1].tp].phase is Phase.MOVING
    assert folded(stopped, now).timelines[MANY[-1].tp].phase is Phase.STALLED


def test_a_stall_that_turns_into_waiting_is_not_reported_as_headway() -> None:
    now = folded(at_a_stop(poll) for poll in in_turn(40, at_work=2))
    polls = [at(poll, 40.0 + n) for n, poll in enumerate(in_turn(4, at_work=2)[1:])]
    after = folded(
        (
            msgspec.structs.replace(
                poll,
                ends={
                    r: Reading(7 + e.value if r.broker != 1 else e.value, poll.monotonic_s)
                    for r, e in poll.ends.items()
                },
            )
            for poll in polls
        ),
        now,
    )
    assert [event.what for event in after.events[len(now.events) :]] == [
        "replica 4 makes headway again",
        "replica 4 makes headway again",
        f"broker 4: 18 replicas are no longer stalled: {stall_of_last(after).detail}",
    ]
