"""A throttle of leaders, and replicas that cannot lead because their brokers are down."""

from __future__ import annotations

from pathlib import Path

from ktui.cluster.throttle_settings import LEADER_REPLICAS
from ktui.simulated import acts
from support.runs_throttled import ThrottledStory

OFF_BROKER_3 = {"orders-0": ((1, 2, 3), (1, 2, 4))}


def test_a_replica_is_moved_off_a_broker_that_is_down_for_good(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, OFF_BROKER_3, throttle_leaders=True)
    story.already(acts.Kill(3))

    story.to_the_end()

    story.assert_left_as_found()
    assert story.at_target("orders-0")


def test_a_leader_that_comes_back_is_throttled_before_it_may_lead(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, OFF_BROKER_3, throttle_leaders=True)
    story.already(acts.Kill(3))
    story.befalls(5.0, acts.Start(3))

    story.played(until_s=15.0)

    assert story.lists[LEADER_REPLICAS] == "0:1,0:2,0:3"
    story.resumed()
    story.assert_left_as_found()
