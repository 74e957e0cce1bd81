"""Decisions on one partition that are hard to reach through a whole controller."""

from __future__ import annotations

import pytest

from ktui.simulated.controller.altering import DecisionContext, Election, RequestedChange, decide
from ktui.simulated.controller.configs import rules_of
from ktui.simulated.controller.records import Registration
from ktui.simulated.layout import VERSIONS

OFFLINE = Registration((1, 2, 3), (), None, 5, 7)


def context(*alive: int, version: str = VERSIONS[-1], min_isr: int = 1) -> DecisionContext:
    return DecisionContext(rules_of(version), min_isr, alive.__contains__)


def test_a_healthy_partition_without_requests_needs_no_decision() -> None:
    known = Registration((1, 2), (1, 2), 1)

    assert decide(known, RequestedChange(), context(1, 2)) is None


def test_any_decision_completes_a_move_that_nothing_blocks_any_more() -> None:
    waiting = Registration((2, 1), (2,), 2, removing=(1,))

    done = decide(waiting, RequestedChange(election=Election.PREFERRED), context(1, 2))

    assert done == Registration((2,), (2,), 2, 1, 1)


def test_a_move_does_not_end_with_an_empty_isr() -> None:
    known = Registration((2, 1), (1,), 1, removing=(1,))

    assert decide(known, RequestedChange(), context(1, 2)) is None


@pytest.mark.parametrize(
    ("kind", "leader"), [(Election.ONLINE, 2), (Election.UNCLEAN, 2), (Election.PREFERRED, 3)]
)
def test_a_valid_leader_stays_unless_a_preferred_election_is_requested(
    kind: Election, leader: int
) -> None:
    known = Registration((3, 2, 1), (1, 2, 3), 2)

    after = decide(known, RequestedChange(election=kind), context(1, 2, 3))

    assert (known if after is None else after).leader == leader


def test_a_partition_without_its_leader_is_led_by_its_first_in_sync_replica() -> None:
    known = Registration((4, 3, 2, 1), (1, 2, 3), 1)

    after = decide(known, RequestedChange(isr=(2, 3)), context(2, 3, 4))

    assert after == Registration((4, 3, 2, 1), (2, 3), 3, 1, 1)


def test_a_preferred_election_elects_another_replica_when_there_is_no_leader() -> None:
    known = Registration((1, 2, 3), (3,), None, 5, 7, last_known_leader=3)

    after = decide(known, RequestedChange(election=Election.PREFERRED), context(2, 3))

    assert after == Registration((1, 2, 3), (3,), 3, 6, 8)


def test_an_eligible_replica_leads_alone_when_the_isr_is_empty() -> None:
    known = Registration((1, 2, 3), (), None, 5, 7, elr=(2, 3), last_known_leader=3)

    after = decide(known, RequestedChange(), context(2, 3, min_isr=2))

    assert after == Registration((1, 2, 3), (2,), 2, 6, 8, elr=(3,))


def test_the_last_known_leader_waits_until_no_eligible_replica_is_left() -> None:
    known = Registration((1, 2, 3), (), None, 5, 7, elr=(2,), last_known_leader=3)

    assert decide(known, RequestedChange(), context(3)) is None


def test_the_last_known_leader_survives_an_unclean_shutdown_of_an_eligible_replica() -> None:
    known = Registration((1, 2, 3), (), None, 5, 7, elr=(2,), last_known_leader=3)

    after = decide(known, RequestedChange(unclean_shutdown=2), context(1))

    assert after == Registration((1, 2, 3), (), None, 5, 8, last_known_leader=3)


def test_an_unclean_election_prefers_an_eligible_replica_then_any_live_one() -> None:
    eligible = Registration((1, 2, 3), (), None, 5, 7, elr=(3,), last_known_leader=3)
    wish = RequestedChange(election=Election.UNCLEAN)

    clean = decide(eligible, wish, context(1, 2, 3, min_isr=2))
    unclean = decide(eligible, wish, context(1, 2, min_isr=2))

    assert clean is not None
    assert unclean is not None
    assert (clean.leader, clean.isr, clean.elr) == (3, (3,), ())
    assert (unclean.leader, unclean.isr, unclean.elr) == (1, (1,), ())


def test_an_unclean_election_without_live_replicas_elects_nobody() -> None:
    assert decide(OFFLINE, RequestedChange(election=Election.UNCLEAN), context()) is None


def test_an_isr_is_never_empty_before_4_1() -> None:
    known = Registration((1, 2), (2,), 2)

    after = decide(known, RequestedChange(isr=()), context(version="4.0"))

    assert after == Registration((1, 2), (2,), None, 1, 1)
