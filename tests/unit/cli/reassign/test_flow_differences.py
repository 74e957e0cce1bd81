"""What may differ between the programs on a cluster is narrow: all else is compared."""

from __future__ import annotations

import pytest

from support.reassign_tool.answer import Answer, ClusterState, PartitionState
from support.reassign_tool.flow_differences import compared, expected_state

PARTITIONS = {"orders-0": PartitionState((1, 2))}
BOTH = {"leader.replication.throttled.rate": "5", "follower.replication.throttled.rate": "5"}
LEADER = {"leader.replication.throttled.rate": "5"}
FOLLOWER = {"follower.replication.throttled.rate": "5"}


def lists(leaders: str, followers: str) -> dict[str, str]:
    return {
        "leader.replication.throttled.replicas": leaders,
        "follower.replication.throttled.replicas": followers,
    }


def throttles_of_ktui(apaches: dict[str, dict[str, str]]) -> object:
    state = expected_state(ClusterState(PARTITIONS, apaches))
    assert state is not None
    assert state.partitions == PARTITIONS
    return state.throttles


def test_rates_are_expected_where_they_bind() -> None:
    listed = lists("0:1,0:2", "0:2,0:3")

    assert throttles_of_ktui(
        {"broker 1": BOTH, "broker 2": BOTH, "broker 3": BOTH, "topic orders": listed}
    ) == {"broker 1": LEADER, "broker 2": BOTH, "broker 3": FOLLOWER, "topic orders": listed}


def test_nothing_is_expected_to_be_throttled_where_nothing_is_copied() -> None:
    moved = lists("0:1", "0:2")

    assert throttles_of_ktui({"broker 1": BOTH, "topic orders": lists("0:1", "")}) == {}
    assert throttles_of_ktui(
        {"broker 1": BOTH, "topic orders": lists("0:1", ""), "topic payments": moved}
    ) == {"broker 1": LEADER, "topic payments": moved}


def test_throttles_of_others_are_expected_to_stay_where_apaches_tool_removes_them() -> None:
    state = expected_state(
        ClusterState(PARTITIONS, {"broker 1": {"a": "6"}}),
        {("broker 1", "a"): "5", ("broker 1", "b"): "7", ("topic orders", "c"): "*"},
    )

    assert state is not None
    assert state.throttles == {"broker 1": {"a": "6", "b": "7"}, "topic orders": {"c": "*"}}


def test_single_rates_of_others_are_expected_unchanged() -> None:
    throttles = {
        "broker 1": FOLLOWER,
        "topic orders": {"leader.replication.throttled.replicas": "*"},
    }

    assert throttles_of_ktui(throttles) == throttles


@pytest.mark.parametrize(
    ("words", "printed", "left"),
    [
        ("--verify", "a\nClearing broker-level throttles on broker 1\n", "a\n"),
        ("--list", "Clearing broker-level throttles on broker 1\n", None),
        ("--execute --additional", '{"version":1,"partitions":[]}\nb\n', "b\n"),
        ("--execute", '{"version":1,"partitions":[]}\nb\n', None),
        (
            "--cancel",
            "None of the specified partition moves are active.Clearing topic-level throttles on \n",
            "None of the specified partition moves are active.\n",
        ),
    ],
)
def test_only_named_lines_are_left_out(words: str, printed: str, left: str | None) -> None:
    expected = printed if left is None else left

    assert compared(words.split(), Answer(0, printed)) == Answer(0, expected)
