"""The few partitions whose copies take long begin first, so that none is left alone at the end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import TopicPartition
from ktui.pacing.choosing import decide_steps
from ktui.pacing.limits import Limits, LimitsProblem, Order, Shape, default_limits, parse_limits
from ktui.pacing.queue import Copies, bytes_ahead, put_long_first
from ktui.pacing.room import NOTHING_FOREIGN
from ktui.pacing.roster import Roster
from ktui.pacing.situation import WantedPartition
from support.runs.pacing import on_the_way

MIB, GIB = 1024**2, 1024**3
PLAN = {"audit-0": (60 * MIB, 2), "orders-0": (GIB, 2), "orders-1": (500 * MIB, 2),
        "orders-2": (10 * GIB, 3)}  # fmt: skip
"""The example of docs/pacing.md: sizes and the new broker, all led by broker 1."""


def in_order(order: Order) -> list[str]:
    """Return how the partitions of the example begin."""
    roster = Roster(Limits(replicas=1, order=order))
    roster.add(put_long_first([wanted(*each) for each in PLAN.items()]))
    return [str(move.tp) for move in decide_steps(roster, NOTHING_FOREIGN).steps]


def wanted(name: str, way: tuple[int, int]) -> WantedPartition:
    size, to = way
    topic, number = name.rsplit("-", 1)
    return WantedPartition(TopicPartition(topic, int(number)), on_the_way((1,), (1, to)), size)


def test_partitions_of_more_than_a_twentieth_of_the_busiest_broker_go_first() -> None:
    assert in_order(Order.LONG_FIRST) == ["orders-2", "orders-0", "audit-0", "orders-1"]
    assert in_order(Order.TOPIC) == list(PLAN)


def test_gentle_begins_with_long_partitions_by_default_and_kip_435_by_topic() -> None:
    assert default_limits().order is Order.LONG_FIRST
    assert default_limits({"shape": "kip-435"}).order is Order.TOPIC
    assert parse_limits({"shape": "kip-435"}, default_limits()).order is Order.TOPIC
    with pytest.raises(LimitsProblem, match="--order topic, or --shape gentle"):
        parse_limits({"shape": "kip-435", "order": "long-first"})
    assert parse_limits({"shape": Shape.KIP_435, "order": "plan"}).order is Order.PLAN


copies = st.builds(
    lambda leader, receivers, size: Copies(leader, tuple(receivers - {leader}), size),
    st.integers(1, 6),
    st.frozensets(st.integers(1, 6), max_size=3),
    st.integers(0, 10 * GIB),
)


@given(st.lists(copies, max_size=60))
def test_few_go_ahead_of_a_leaders_partitions_and_none_that_copies_less_than_one_that_does_not(
    partitions: list[Copies],
) -> None:
    ahead = bytes_ahead(partitions)
    for leader in {each.leader for each in partitions}:
        of_leader = [n for n, each in enumerate(partitions) if each.leader == leader]
        assert sum(ahead[n] > 0 for n in of_leader) < 20
    behind = max((p.bytes for p, n in zip(partitions, ahead, strict=True) if not n), default=0)
    assert all(n >= behind for n in ahead if n)
