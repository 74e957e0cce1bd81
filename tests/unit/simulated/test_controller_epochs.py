"""Which decisions of a simulated controller begin a leader epoch, and which do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.simulated.controllers import Kept

Deed = Callable[[Kept], object]


def begun(kept: Kept, deed: Deed) -> int:
    """Count the leader epochs that an action begins."""
    before = kept.record().leader_epoch
    deed(kept)
    return kept.record().leader_epoch - before


def moving(kept: Kept) -> Kept:
    kept.alter(4, 1, 3)
    return kept


@pytest.fixture(params=["4.2", "4.3"])
def kept(request: pytest.FixtureRequest) -> Kept:
    """A partition on brokers 2, 1 and 3, led by 2."""
    return Kept((2, 1, 3), version=request.param)


@pytest.mark.parametrize(
    "deed",
    [
        pytest.param(lambda kept: kept.alter(4, 1, 3), id="starting a move"),
        pytest.param(lambda kept: kept.alter(3, 2, 1), id="another order"),
        pytest.param(lambda kept: kept.alter(2, 1, 3, 4), id="starting to add"),
        pytest.param(lambda kept: kept.drop_out(1), id="a shrinking ISR"),
        pytest.param(lambda kept: kept.fence(3), id="a follower that is fenced"),
        pytest.param(lambda kept: kept.elect(), id="an election that is not needed"),
    ],
)
def test_no_leader_epoch_begins_with(kept: Kept, deed: Deed) -> None:
    assert begun(kept, deed) == 0


def test_no_epoch_begins_when_the_isr_grows_back(kept: Kept) -> None:
    kept.drop_out(1)

    assert begun(kept, lambda kept: kept.join(1)) == 0


def test_no_epoch_begins_when_an_addition_is_done(kept: Kept) -> None:
    kept.alter(2, 1, 3, 4)

    assert begun(kept, lambda kept: kept.join(4)) == 0
    assert kept.record().isr == (2, 1, 3, 4)


def test_no_epoch_begins_when_a_removal_is_cancelled(kept: Kept) -> None:
    kept.drop_out(1)
    kept.alter(2, 1)

    assert begun(kept, lambda kept: kept.cancel()) == 0
    assert kept.record().replicas == (2, 1, 3)


def test_one_epoch_begins_when_a_move_is_done_with_the_same_or_a_new_leader(kept: Kept) -> None:
    kept.alter(2, 1, 4)
    assert begun(kept, lambda kept: kept.join(4)) == 1
    assert kept.record().leader == 2

    kept.alter(5, 1, 4)
    assert begun(kept, lambda kept: kept.join(5)) == 1
    assert kept.record().leader == 5


def test_one_epoch_begins_when_a_removal_is_done_at_once(kept: Kept) -> None:
    assert begun(kept, lambda kept: kept.alter(2, 1)) == 1
    assert begun(kept, lambda kept: kept.alter(1)) == 1
    assert kept.record().leader == 1


def test_one_epoch_begins_when_a_move_that_adds_is_cancelled(kept: Kept) -> None:
    assert begun(moving(kept), lambda kept: kept.cancel()) == 1
    assert kept.record().leader == 2


def test_one_epoch_begins_with_an_election(kept: Kept) -> None:
    kept.alter(1, 2, 3)

    assert begun(kept, lambda kept: kept.elect()) == 1


def test_one_epoch_begins_when_the_leader_is_lost(kept: Kept) -> None:
    assert begun(kept, lambda kept: kept.fence(2)) == 1
    assert kept.record().leader == 1


def test_every_decision_raises_the_partition_epoch_but_an_empty_request_does_not(
    kept: Kept,
) -> None:
    kept.alter(4, 1, 3)
    kept.alter(4, 1, 3)
    kept.elect()
    kept.join(4)

    assert [c.after.partition_epoch for c in kept.changes if c.after] == [0, 1, 2]
