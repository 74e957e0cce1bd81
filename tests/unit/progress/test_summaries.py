"""Copies in sum, and each replica's status."""

from typing import Any

import pytest

from ktui.cluster.broker import TopicConfig
from ktui.cluster.observation import Census, Observation, Reading
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.progress.flows import SLOT_S, BrokerFlow, Flows, FlowSlot, flow_into_all, flow_slots
from ktui.progress.memory import Health, health
from ktui.progress.row import state_word
from ktui.progress.summary import (
    ReplicaProgress,
    ReplicaStatus,
    Totals,
    broker_loads,
    replica_progress,
    totals,
)
from ktui.progress.timeline import Progress
from ktui.simulated import layout
from support.simulated.moving_clusters import a_cluster, move
from support.simulated.observations import (
    START,
    T0,
    T1,
    Recorder,
    a_move,
    a_partition,
    an_observation,
    folded,
    moving,
)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (a_partition(), Health.OK),
        (a_partition(isr=(1, 2)), Health.UNDER_REPLICATED),
        (a_partition(isr=(1,)), Health.UNDER_MIN_ISR),
        (a_partition(isr=(1,), leader=None), Health.OFFLINE),
        (a_move(), Health.OK),
        (a_move(isr=(2, 3), leader=2), Health.UNDER_REPLICATED),
        (a_move(isr=(2, 3, 4), leader=2), Health.OK),
        (a_move(isr=(1, 2, 4)), Health.UNDER_REPLICATED),
        (a_partition(replicas=(1,)), Health.OK),
        (a_partition(isr=(), leader=None, described=False), Health.UNKNOWN),
    ],
)
def test_health_is_the_worst_condition_that_holds(state: PartitionState, expected: Health) -> None:
    assert health(state, TopicConfig(min_insync_replicas=2)) is expected


def test_min_isr_is_not_judged_without_topic_settings() -> None:
    assert health(a_partition(isr=(1,)), None) is Health.UNDER_REPLICATED


def test_the_state_word_is_stalled_rather_than_foreign() -> None:
    stalled = folded(moving(seconds=40, copied_s=0)).timelines[T0]
    assert state_word(stalled, None) == "stalled"
    assert state_word(stalled, ()) == "stalled"


def test_a_move_outside_the_run_shown_is_foreign() -> None:
    timeline = folded([an_observation([a_move()])]).timelines[T0]
    assert state_word(timeline, None) == "moving"
    assert state_word(timeline, {T0}) == "moving"
    assert state_word(timeline, {T1}) == "foreign"


def test_a_partition_at_rest_is_not_foreign() -> None:
    timeline = folded([an_observation([a_partition()])]).timelines[T0]
    assert state_word(timeline, {T1}) == "settled"


def test_a_brokers_load_counts_copies_onto_it_and_from_it() -> None:
    targets = dict.fromkeys(("orders-0", "orders-1"), (4, 2, 3))
    loads = broker_loads(folded(moving(30, targets=targets, copied_s=2_000)))
    assert list(loads) == list(range(1, 10))
    assert loads[4].bytes_in_s == pytest.approx(2_000_000, rel=0.01)
    assert loads[1].bytes_out_s == pytest.approx(2_000_000, rel=0.01)
    assert (loads[4].adding, loads[1].removing) == (2, 2)
    assert loads[4].lag_messages == 2 * 73_900
    assert loads[4].lag_bytes == pytest.approx(2 * 73_900_000, rel=0.01)
    assert (loads[2].bytes_in_s, loads[2].lag_bytes, loads[2].leaders) == (None, None, None)


def test_a_brokers_leaders_come_from_the_census() -> None:
    census = Census(START, 0.0, 0.1, 2, 30, {1: 20, 2: 10}, {}, ())
    loads = broker_loads(folded([an_observation([], census=census)]))
    assert [loads[b].leaders for b in (1, 2, 3)] == [20, 10, 0]


def test_totals_count_each_move_once_by_its_state() -> None:
    cluster = a_cluster(moving=["orders-0"], resting=["orders-1"], messages=10_500)
    cluster.do(move("orders-1", 5, 2, 3))
    cluster.do(layout.Slow(5, 0.1))
    whole = totals(folded(Recorder(cluster).record(20)))
    assert (whole.moving, whole.done, whole.stalled) == (1, 1, 0)
    assert totals(folded([an_observation([a_partition()])])) == Totals()
    assert totals(Progress()) == Totals()


def test_totals_sum_the_remaining_bytes_and_end_with_the_slowest_move() -> None:
    now = folded(moving(60, targets={"orders-0": (4, 2, 3), "orders-1": (6, 5, 3)}))
    whole = totals(now)
    assert whole.bytes_left == pytest.approx(3 * 46_900_000, rel=0.01)
    assert whole.bytes_s == pytest.approx(3_000_000, rel=0.01)
    assert whole.left_s is not None
    assert whole.left_s.middle == pytest.approx(46_900 / 900, rel=0.01)
    assert whole.share == pytest.approx(59_000 / 105_900)


def test_the_total_share_is_weighted_by_bytes_of_the_moves_under_way() -> None:
    done = TopicPartition("orders", 2)
    states = [a_move(T0), a_move(T1), a_move(done)]
    ends = {(T0, 1): 9_000, (T0, 4): 0, (T1, 1): 1_000, (T1, 4): 1_000}
    sizes = {key: end * 1_000 for key, end in ends.items()}
    shown = [a_move(T0), a_move(T1), a_partition(done, (4, 2, 3))]
    starts = {T0: 0, T1: 0}
    known = an_observation(shown, 1.0, ends=ends, sizes=sizes, starts=starts)
    whole = totals(folded([an_observation(states), known]))
    assert whole.share == pytest.approx(0.1)
    assert whole.done == 1
    unknown = an_observation(shown, 1.0, ends=ends, starts=starts)
    assert totals(folded([an_observation(states), unknown])).share == pytest.approx(0.5)
    over = an_observation([a_partition(done, (4, 2, 3))], 1.0)
    assert totals(folded([an_observation([a_move(done)]), over])).share is None


def test_the_total_share_does_not_fall_when_a_move_completes() -> None:
    ends = {(T0, 1): 1_000, (T0, 4): 500, (T1, 1): 1_000, (T1, 4): 900}
    sizes = {key: end * 1_000 for key, end in ends.items()}
    starts = {T0: 0, T1: 0}
    seen = [
        an_observation([a_move(T0), a_move(T1)], 0.0, ends=ends, sizes=sizes, starts=starts),
        an_observation([a_move(T0), a_move(T1)], 1.0, ends=ends, sizes=sizes, starts=starts),
    ]
    assert totals(folded(seen)).share == pytest.approx(0.7)

    shown = [a_move(T0), a_partition(T1, (4, 2, 3))]
    seen.append(an_observation(shown, 2.0, ends=ends, sizes=sizes, starts=starts))

    assert (totals(folded(seen)).share or 0.0) > 0.7


def test_the_total_time_left_is_that_of_the_last_broker_not_of_a_waiting_replica() -> None:
    slow = {T0: 950, T1: 50}
    polls = [
        an_observation(
            [a_move(T0), a_move(T1)],
            float(second),
            ends={
                key: value
                for tp, rate in slow.items()
                for key, value in {(tp, 1): 100_000, (tp, 4): rate * second}.items()
            },
            starts={T0: 0, T1: 0},
        )
        for second in range(60)
    ]
    now = folded(polls)
    whole = totals(now)
    left = 2 * 100_000 - 1_000 * 59
    assert whole.left_s is not None
    assert whole.left_s.middle == pytest.approx(left / 1_000, rel=0.02)
    slowest = now.timelines[T1].left_s
    assert slowest is not None
    assert slowest.middle > 10 * whole.left_s.middle


def test_the_total_time_left_is_unknown_while_a_move_is_stalled() -> None:
    polls = [
        an_observation(
            [a_move(T0), a_move(T1)],
            float(n),
            ends={(T0, 1): 1_000, (T0, 4): 10 * n, (T1, 1): 1_000, (T1, 4): 5},
            starts={T0: 0, T1: 0},
        )
        for n in range(40)
    ]
    whole = totals(folded(polls))
    assert (whole.moving, whole.stalled) == (1, 1)
    assert whole.left_s is None


def test_totals_count_moves_that_fall_behind() -> None:
    assert totals(folded(moving(seconds=90, inbound_s=400, copied_s=200))).falling_behind == 1


MESSAGE_BYTES = 1_000


def replicas_of(
    *seen: Observation, target: tuple[int, ...] = (4, 2, 3), topics: frozenset[str] | None = None
) -> list[ReplicaProgress]:
    known = frozenset({"orders"}) if topics is None else topics
    return [*replica_progress(folded(seen), {T0: target}, known)]


def status_of(broker: int, seen: Observation) -> ReplicaStatus:
    (each,) = replicas_of(seen, target=(broker,))
    return each.status


def replica_status_moving(
    ends: dict[int, int | Reading], at_s: float = 0.0, **more: Any
) -> Observation:
    """Return a poll of orders-0 on its way from 1, 2 and 3 to 4, 2 and 3; 1 leads."""
    return an_observation([a_move()], at_s, ends={(T0, b): end for b, end in ends.items()}, **more)


def test_each_replica_of_the_plan_is_listed_in_its_order() -> None:
    seen = an_observation([a_move(), a_partition(T1)])

    found = replica_progress(folded([seen]), {T1: (3, 1), T0: (4, 2)}, {"orders"})

    assert [(each.tp, each.broker) for each in found] == [(T1, 3), (T1, 1), (T0, 4), (T0, 2)]


@pytest.mark.parametrize(
    ("broker", "status"),
    [
        (2, ReplicaStatus.IN_SYNC),
        (4, ReplicaStatus.BEHIND),
        (5, ReplicaStatus.NOT_HOSTED),
        (77, ReplicaStatus.UNKNOWN_BROKER),
    ],
)
def test_a_replica_is_in_sync_behind_or_not_there(broker: int, status: ReplicaStatus) -> None:
    assert status_of(broker, an_observation([a_move()])) is status


def test_the_words_of_kip_179_are_kept() -> None:
    assert [status.value for status in ReplicaStatus] == [
        "In sync",
        "Behind",
        "Unknown topic",
        "Unknown partition",
        "Unknown broker",
        "Broker does not host this partition",
        "Broker is down",
        "Not known",
    ]


def test_a_topic_that_does_not_exist_is_unknown_whatever_is_known_of_brokers() -> None:
    seen = an_observation(absent=frozenset({T0}))

    found = replicas_of(seen, target=(1, 77), topics=frozenset())

    assert [each.status for each in found] == [ReplicaStatus.UNKNOWN_TOPIC] * 2


def test_a_partition_that_its_topic_does_not_have_is_unknown() -> None:
    assert status_of(1, an_observation(absent=frozenset({T0}))) is ReplicaStatus.UNKNOWN_PARTITION


@pytest.mark.parametrize("brokers", [range(1, 10), range(1, 4)], ids=["listed", "not listed"])
def test_a_replica_on_a_broker_that_is_down_is_reported_as_such(brokers: range) -> None:
    seen = an_observation([a_move()], brokers=brokers, down=[4])

    assert status_of(4, seen) is ReplicaStatus.DOWN


def test_a_broker_that_is_down_and_has_no_replica_does_not_host_it() -> None:
    assert status_of(5, an_observation([a_move()], down=[5])) is ReplicaStatus.NOT_HOSTED


@pytest.mark.parametrize("states", [[], [a_partition(described=False)]])
def test_a_partition_that_was_not_described_is_not_known(states: list[Any]) -> None:
    assert status_of(1, an_observation(states)) is ReplicaStatus.NOT_KNOWN


def test_the_lag_is_the_difference_of_the_log_ends() -> None:
    in_sync, behind = replicas_of(replica_status_moving({1: 12_345, 4: 1_889}), target=(2, 4))

    assert (behind.status, behind.messages) == (ReplicaStatus.BEHIND, 10_456)
    assert (in_sync.messages, in_sync.bytes, in_sync.rate_bytes_s) == (None, None, None)


def test_a_follower_read_after_its_leader_is_never_ahead_of_it() -> None:
    (behind,) = replicas_of(replica_status_moving({1: 100, 4: 130}), target=(4,))

    assert behind.messages == 0


@pytest.mark.parametrize("ends", [{}, {1: 100}, {4: 100}], ids=["neither", "leader", "follower"])
def test_the_lag_is_unknown_without_both_log_ends(ends: dict[int, int | Reading]) -> None:
    (behind,) = replicas_of(replica_status_moving(ends), target=(4,))

    assert (behind.status, behind.messages) == (ReplicaStatus.BEHIND, None)


def test_the_lag_is_unknown_where_nobody_leads() -> None:
    seen = an_observation([a_move(leader=None)], ends={(T0, 1): 100, (T0, 4): 10})

    (behind,) = replicas_of(seen, target=(4,))

    assert (behind.status, behind.messages) == (ReplicaStatus.BEHIND, None)


def test_rate_and_time_left_are_known_from_the_second_poll_on() -> None:
    sizes = {(T0, 1): 10_000 * MESSAGE_BYTES}
    polls = [
        replica_status_moving({1: 10_000, 4: 100 * n}, float(n), starts={T0: 0}, sizes=sizes)
        for n in range(1, 11)
    ]

    (first,), (last,) = replicas_of(polls[0], target=(4,)), replicas_of(*polls, target=(4,))

    assert (first.rate_bytes_s, first.left_s) == (None, None)
    assert (last.messages, last.bytes) == (9_000, 9_000 * MESSAGE_BYTES)
    assert last.rate_bytes_s == pytest.approx(100 * MESSAGE_BYTES, rel=0.1)
    assert last.left_s is not None
    assert last.left_s.low <= 90.0 <= last.left_s.high


def test_nothing_is_known_before_the_first_poll() -> None:
    assert [*replica_progress(Progress(), {T0: (1,)}, {"orders"})] == []


def _polled_every(slots: int, rates: tuple[float, ...]) -> Flows:
    polls = (
        FlowSlot(place * slots, {4: BrokerFlow(in_s=rate)}) for place, rate in enumerate(rates)
    )
    return Flows(history=tuple(polls))


def test_a_flow_over_time_has_no_gaps_where_polls_are_further_apart_than_its_slots() -> None:
    flows = _polled_every(2, (1.0, 2.0, 3.0))
    assert flow_slots(flows, 4 * SLOT_S, flow_into_all, 6) == [None, 1.0, 2.0, 2.0, 3.0, 3.0]


def test_a_flow_is_unknown_where_nobody_looked_for_long() -> None:
    flows = _polled_every(20, (1.0, 2.0))
    assert flow_slots(flows, 20 * SLOT_S, flow_into_all, 4) == [None, None, None, 2.0]


def test_the_moves_of_a_broker_are_those_that_come_leave_or_are_copied_from_it() -> None:
    loads = broker_loads(folded([an_observation([a_move(target=(1, 2, 4))])]))
    moves = {broker: load.moves for broker, load in loads.items()}
    assert moves[4] == moves[3] == moves[1] == (T0,)
    assert moves[2] == ()
