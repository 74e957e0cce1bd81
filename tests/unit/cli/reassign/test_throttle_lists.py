"""The throttled replicas and brokers of --execute --throttle."""

from __future__ import annotations

import msgspec
import pytest

from ktui.cli.reassign.throttle_lists import MoveThrottles, TopicThrottle, move_throttles
from ktui.cluster.partition import Brokers, Reassignment, TopicPartition

FOO = TopicPartition("foo", 0)


class Retargeted(msgspec.Struct, frozen=True):
    """A partition of which the controller lists a move, and a target of the file for it."""

    listed: Reassignment
    target: Brokers
    followers: str
    brokers: tuple[int, ...]
    leaders: str = "0:1,0:2,0:3"


REPLACES_ONE = Reassignment(replicas=(1, 2, 4, 3), adding=(4,), removing=(3,))
REPLACES_ALL = Reassignment(replicas=(4, 5, 6, 1, 2, 3), adding=(4, 5, 6), removing=(1, 2, 3))
GROWS = Reassignment(replicas=(1, 2, 3, 4, 5), adding=(4, 5), removing=())
SHRINKS = Reassignment(replicas=(1, 2, 3), adding=(), removing=(2, 3))
RETARGETED = {
    "the same target again": Retargeted(REPLACES_ONE, (1, 2, 4), "0:4", (1, 2, 3, 4)),
    "another broker for the new replica": Retargeted(REPLACES_ONE, (1, 2, 5), "0:5", (1, 2, 3, 5)),
    "back to where it came from": Retargeted(REPLACES_ALL, (1, 2, 3), "", (1, 2, 3)),
    "entirely other brokers": Retargeted(
        REPLACES_ALL, (7, 8, 9), "0:7,0:8,0:9", (1, 2, 3, 7, 8, 9)
    ),
    "a mixture of old, new and other brokers": Retargeted(
        REPLACES_ALL, (6, 1, 7), "0:6,0:7", (1, 2, 3, 6, 7)
    ),
    "fewer new replicas than before": Retargeted(GROWS, (1, 2, 3, 5), "0:5", (1, 2, 3, 5)),
    "more replicas in place of fewer": Retargeted(SHRINKS, (1, 2, 3, 4), "0:4", (1, 2, 3, 4)),
}


def tp(name: str) -> TopicPartition:
    topic, _, partition = name.rpartition("-")
    return TopicPartition(topic, int(partition))


@pytest.mark.parametrize("name", RETARGETED)
def test_a_moving_partition_keeps_its_sources_and_gets_the_new_destinations(name: str) -> None:
    case = RETARGETED[name]
    current = {FOO: case.listed.replicas}
    assert move_throttles({FOO: case.listed}, {FOO: case.target}, current) == MoveThrottles(
        {"foo": TopicThrottle(case.leaders, case.followers)}, frozenset(case.brokers)
    )


def test_moves_of_the_cluster_are_throttled_beside_those_of_the_file() -> None:
    throttles = move_throttles(
        {tp("bar-0"): REPLACES_ONE, tp("foo-1"): GROWS},
        {tp("foo-0"): (8, 9), tp("quux-3"): (6, 7)},
        {tp("foo-0"): (7, 8), tp("quux-3"): (6,)},
    )
    assert throttles == MoveThrottles(
        {
            "bar": TopicThrottle("0:1,0:2,0:3", "0:4"),
            "foo": TopicThrottle("0:7,0:8,1:1,1:2,1:3", "0:9,1:4,1:5"),
            "quux": TopicThrottle("3:6", "3:7"),
        },
        frozenset(range(1, 10)),
    )


def test_entries_are_sorted_as_texts() -> None:
    targets = {tp("foo-2"): (4, 5), tp("foo-10"): (1, 11), tp("foo-0"): (3, 2)}
    current = {tp("foo-2"): (4,), tp("foo-10"): (1,), tp("foo-0"): (2, 10)}
    assert move_throttles({}, targets, current).topics == {
        "foo": TopicThrottle("0:10,0:2,10:1,2:4", "0:3,10:11,2:5")
    }


def test_a_topic_that_gains_no_replica_has_an_empty_followers_list() -> None:
    assert move_throttles({}, {FOO: (2, 1)}, {FOO: (1, 2, 3)}) == MoveThrottles(
        {"foo": TopicThrottle("0:1,0:2,0:3", "")}, frozenset((1, 2, 3))
    )


def test_a_partition_that_the_file_does_not_name_is_not_throttled_unless_it_moves() -> None:
    assert move_throttles({}, {}, {FOO: (1, 2, 3)}) == MoveThrottles({}, frozenset())
