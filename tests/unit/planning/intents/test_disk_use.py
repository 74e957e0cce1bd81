"""How many bytes a broker has to give up until its disks are less full."""

from __future__ import annotations

import pytest

from ktui.planning.intents.drain import bytes_above
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import CannotMake
from ktui.planning.replication_factor import BrokerPool


def layout(room: dict[int, int], disks: dict[int, int]) -> Layout:
    known = frozenset({1, 2})
    pool = BrokerPool(online=known)
    return Layout(partitions={}, pool=pool, known=known, room=room, disks=disks)


@pytest.mark.parametrize(("share", "above"), [(0.8, 100), (0.85, 50), (0.0, 900), (0.8999, 1)])
def test_what_is_in_use_above_the_share_is_to_be_freed(share: float, above: int) -> None:
    assert bytes_above(layout({1: 100}, {1: 1000}), 1, share) == above


def test_nothing_is_to_be_freed_where_no_more_is_in_use() -> None:
    with pytest.raises(CannotMake, match="90% of the disks of broker 1 is in use"):
        bytes_above(layout({1: 100}, {1: 1000}), 1, 0.9)


@pytest.mark.parametrize(("room", "disks"), [({}, {1: 1000}), ({1: 10}, {}), ({1: 0}, {1: 0})])
def test_without_the_size_of_its_disks_nobody_can_say(
    room: dict[int, int], disks: dict[int, int]
) -> None:
    with pytest.raises(CannotMake, match="give the bytes to free"):
        bytes_above(layout(room, disks), 1, 0.8)


def test_a_broker_that_the_cluster_does_not_have_is_named() -> None:
    with pytest.raises(CannotMake, match="no broker 9"):
        bytes_above(layout({}, {}), 9, 0.8)
