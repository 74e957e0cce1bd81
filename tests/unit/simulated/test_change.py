"""What a wish makes of one partition's record, where a whole controller seldom gets to."""

from __future__ import annotations

import pytest

from ktui.simulated.controller.change import DecisionContext, Election, RequestedChange, decide
from ktui.simulated.controller.registration import Registration
from ktui.simulated.controller.rules import rules_of

OFFLINE = Registration((1, 2, 3), (), None, 5, 7)


def given(*alive: int, version: str = "4.3", min_isr: int = 1) -> DecisionContext:
    return DecisionContext(rules_of(version), min_isr, alive.__contains__)


def test_nothing_asked_of_a_healthy_partition_is_no_decision() -> None:
    known = Registration((1, 2), (1, 2), 1)

    assert decide(known, RequestedChange(), given(1, 2)) is None


def test_any_decision_ends_a_move_that_nothing_holds_up_any_more() -> None:
    waiting = Registration((2, 1), (2,), 2, removing=(1,))

    done = decide(waiting, RequestedChange(election=Election.PREFERRED), given(1, 2))

    assert done == Registration((2,), (2,), 2, 1, 1)


def test_a_move_does_not_end_with_nobody_in_sync() -> None:
    known = Registration((2, 1), (1,), 1, removing=(1,))

    assert decide(known, RequestedChange(), given(1, 2)) is None


@pytest.mark.parametrize(
    ("kind", "leader"), [(Election.ONLINE, 2), (Election.UNCLEAN, 2), (Election.PREFERRED, 3)]
)
def test_the_leader_stays_where_it_can_unless_the_preferred_one_is_asked_for(
    kind: Election, leader: int
) -> None:
    known = Registration((3, 2, 1), (1, 2, 3), 2)

    after = decide(known, RequestedChange(election=kind), given(1, 2, 3))

    assert (known if after is None else after).leader == leader


def test_without_its_leader_a_partition_is_led_by_its_first_replica_in_sync() -> None:
    known = Registration((4, 3, 2, 1), (1, 2, 3), 1)

    after = decide(known, RequestedChange(isr=(2, 3)), given(2, 3, 4))

    assert after == Registration((4, 3, 2, 1), (2, 3), 3, 1, 1)


def test_an_election_of_the_preferred_replica_finds_another_where_there_is_no_leader() -> None:
    known = Registration((1, 2, 3), (3,), None, 5, 7, last_known_leader=3)

    after = decide(known, RequestedChange(election=Election.PREFERRED), given(2, 3))

    assert after == Registration((1, 2, 3), (3,), 3, 6, 8)


def test_an_eligible_replica_leads_alone_when_nobody_is_in_sync() -> None:
    known = Registration((1, 2, 3), (), None, 5, 7, elr=(2, 3), last_known_leader=3)

    after = decide(known, RequestedChange(), given(2, 3, min_isr=2))

    assert after == Registration((1, 2, 3), (2,), 2, 6, 8, elr=(3,))


def test_the_last_known_leader_waits_for_no_eligible_replica_to_be_left() -> None:
    known = Registration((1, 2, 3), (), None, 5, 7, elr=(2,), last_known_leader=3)

    assert decide(known, RequestedChange(), given(3)) is None


def test_the_last_known_leader_is_the_last_one_that_led() -> None:
    known = Registration((1, 2, 3), (), None, 5, 7, elr=(2,), last_known_leader=3)

    after = decide(known, RequestedChange(unclean_shutdown=2), given(1))

    assert after == Registration((1, 2, 3), (), None, 5, 8, last_known_leader=3)


def test_an_unclean_election_prefers_who_has_the_data_and_then_takes_who_is_alive() -> None:
    eligible = Registration((1, 2, 3), (), None, 5, 7, elr=(3,), last_known_leader=3)
    wish = RequestedChange(election=Election.UNCLEAN)

    clean = decide(eligible, wish, given(1, 2, 3, min_isr=2))
    unclean = decide(eligible, wish, given(1, 2, min_isr=2))

    assert clean is not None
    assert unclean is not None
    assert (clean.leader, clean.isr, clean.elr) == (3, (3,), ())
    assert (unclean.leader, unclean.isr, unclean.elr) == (1, (1,), ())


def test_an_unclean_election_with_nobody_alive_elects_nobody() -> None:
    assert decide(OFFLINE, RequestedChange(election=Election.UNCLEAN), given()) is None


def test_before_4_1_an_isr_is_never_empty() -> None:
    known = Registration((1, 2), (2,), 2)

    after = decide(known, RequestedChange(isr=()), given(version="4.0"))

    assert after == Registration((1, 2), (2,), None, 1, 1)
