"""The inflow of each broker: what is copied onto it, and what is written to those partitions."""

from __future__ import annotations

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.progress.summary import Inflow, inflows
from ktui.progress.timeline import Progress
from support.simulated.moving_clusters import a_cluster, move, throttle
from support.simulated.observations import T0, T1, a_move, a_partition, an_observation, folded
from support.simulated.seen_polls import Recorder, moving


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
