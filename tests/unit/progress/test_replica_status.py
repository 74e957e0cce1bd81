"""The status of each replica of a plan, in KIP-179's words."""

from __future__ import annotations

from typing import Any

import pytest

from ktui.cluster.observation import Observation, Reading
from ktui.progress.summary import ReplicaProgress, ReplicaStatus, replica_progress
from ktui.progress.timeline import Progress
from support.simulated.observations import T0, T1, a_move, a_partition, an_observation, folded

MESSAGE_BYTES = 1_000


def replicas_of(
    *seen: Observation, target: tuple[int, ...] = (4, 2, 3), topics: frozenset[str] | None = None
) -> list[ReplicaProgress]:
    known = frozenset({"orders"}) if topics is None else topics
    return [*replica_progress(folded(seen), {T0: target}, known)]


def status_of(broker: int, seen: Observation) -> ReplicaStatus:
    (each,) = replicas_of(seen, target=(broker,))
    return each.status


def moving(ends: dict[int, int | Reading], at_s: float = 0.0, **more: Any) -> Observation:
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
    in_sync, behind = replicas_of(moving({1: 12_345, 4: 1_889}), target=(2, 4))

    assert (behind.status, behind.messages) == (ReplicaStatus.BEHIND, 10_456)
    assert (in_sync.messages, in_sync.bytes, in_sync.rate_bytes_s) == (None, None, None)


def test_a_follower_read_after_its_leader_is_never_ahead_of_it() -> None:
    (behind,) = replicas_of(moving({1: 100, 4: 130}), target=(4,))

    assert behind.messages == 0


@pytest.mark.parametrize("ends", [{}, {1: 100}, {4: 100}], ids=["neither", "leader", "follower"])
def test_the_lag_is_unknown_without_both_log_ends(ends: dict[int, int | Reading]) -> None:
    (behind,) = replicas_of(moving(ends), target=(4,))

    assert (behind.status, behind.messages) == (ReplicaStatus.BEHIND, None)


def test_the_lag_is_unknown_where_nobody_leads() -> None:
    seen = an_observation([a_move(leader=None)], ends={(T0, 1): 100, (T0, 4): 10})

    (behind,) = replicas_of(seen, target=(4,))

    assert (behind.status, behind.messages) == (ReplicaStatus.BEHIND, None)


def test_rate_and_time_left_are_known_from_the_second_poll_on() -> None:
    sizes = {(T0, 1): 10_000 * MESSAGE_BYTES}
    polls = [
        moving({1: 10_000, 4: 100 * n}, float(n), starts={T0: 0}, sizes=sizes) for n in range(1, 11)
    ]

    (first,), (last,) = replicas_of(polls[0], target=(4,)), replicas_of(*polls, target=(4,))

    assert (first.rate_bytes_s, first.left_s) == (None, None)
    assert (last.messages, last.bytes) == (9_000, 9_000 * MESSAGE_BYTES)
    assert last.rate_bytes_s == pytest.approx(100 * MESSAGE_BYTES, rel=0.1)
    assert last.left_s is not None
    assert last.left_s.low <= 90.0 <= last.left_s.high


def test_nothing_is_known_before_the_first_poll() -> None:
    assert [*replica_progress(Progress(), {T0: (1,)}, {"orders"})] == []
