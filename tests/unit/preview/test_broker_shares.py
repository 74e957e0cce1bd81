"""How many replicas and leaders each broker has before a plan, and after it."""

from __future__ import annotations

from ktui.preview.facts import BrokerShare, broker_shares
from support.cli.preflights import Way, a_plan, a_snapshot

ONE: Way = ((1, 2, 3), (4, 2, 3))
ALL: Way = ((1, 2, 3), (4, 5, 6))
STAYS: Way = ((3, 2, 1), (3, 2, 1))


def shares(*ways: Way) -> dict[int, BrokerShare]:
    return {each.broker: each for each in broker_shares(a_plan(*ways), a_snapshot(*ways))}


def test_a_broker_gains_and_loses_replicas_and_leaders() -> None:
    found = shares(ONE, ALL, STAYS)

    assert found[1] == BrokerShare(
        broker=1, replicas=3, gains=0, loses=2, leaders=2, leaders_after=0
    )
    assert (found[4].replicas, found[4].replicas_after, found[4].leaders_after) == (0, 2, 2)
    assert (found[2].replicas, found[2].replicas_after) == (3, 2)
    assert found[2].changes


def test_a_broker_that_the_plan_leaves_alone_does_not_change() -> None:
    found = shares(STAYS, ((1, 2), (1, 4)))

    assert not found[3].changes
    assert (found[3].leaders, found[3].leaders_after) == (1, 1)
    assert found[2].changes


def test_partitions_outside_the_plan_count_with_their_topic() -> None:
    plan, cluster = a_plan(ONE), a_snapshot(ONE, STAYS)
    found = {each.broker: each for each in broker_shares(plan, cluster)}

    assert (found[3].replicas, found[3].leaders) == (2, 1)
    assert (found[1].replicas, found[1].replicas_after) == (2, 1)
