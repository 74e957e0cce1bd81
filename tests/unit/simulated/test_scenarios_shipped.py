"""The scenarios shipped with ktui show what they promise, soon after they start."""

from __future__ import annotations

from functools import cache

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Cause, Phase, Progress, StallKind
from ktui.simulated.scenario.file import Scenario
from ktui.simulated.scenario.library import DEFAULT, load_scenario, shipped_names, shipped_path
from support.simulated.scenario_play import Play, phases, playing

LARGE = "hundred-thousand-partitions"
UNTIL_CURED = "throttle-too-low"
"""Its cure is a key: tests/tui/app/test_demo.py presses it."""
SMALL = [name for name in shipped_names() if name != LARGE]
LONGEST_S = 120
"""Seconds of a viewer."""


@cache
def scenario(name: str) -> Scenario:
    return load_scenario(shipped_path(name))


def test_all_scenarios_are_shipped_and_the_default_is_the_first() -> None:
    assert shipped_names()[0] == DEFAULT == "drain-a-broker"
    assert set(shipped_names()) >= {
        "drain-a-dead-broker", "expand-by-two", "replication-factor-3", "hot-leader",
        "dead-target", "throttle-too-low", "broker-dies-mid-move", "another-operator",
        "topic-deleted-mid-move", LARGE,
    }  # fmt: skip


@pytest.mark.parametrize("name", shipped_names())
def test_each_scenario_has_a_short_title_and_description(name: str) -> None:
    story = scenario(name)

    assert 0 < len(story.title) <= 60
    assert 100 < len(story.about) <= 420


def test_the_largest_scenario_has_a_hundred_thousand_partitions() -> None:
    assert sum(len(topic.replicas) for topic in scenario(LARGE).spec.topics) == 100_000


@pytest.mark.parametrize("name", shipped_names())
async def test_partitions_show_different_stages_within_seconds(name: str) -> None:
    async with playing(scenario(name)) as play:
        shares: set[int] = set()
        async for progress in play.watch(10):
            shares |= {
                round(10 * lane.share)
                for timeline in progress.timelines.values()
                for lane in timeline.catching_up
                if lane.share is not None
            }
        assert len(shares) >= 2


@pytest.mark.parametrize(
    "name", ["drain-a-broker", "expand-by-two", "replication-factor-3", "hot-leader"]
)
async def test_every_partition_reaches_its_target_in_scenarios_without_faults(name: str) -> None:
    async with playing(scenario(name)) as play:
        alarms = [
            timeline.stall
            async for progress in play.watch_to_the_end()
            for timeline in progress.timelines.values()
            if timeline.stall is not None and timeline.stall.alarm
        ]
        assert alarms == []
        assert await _off_target(play) == {}
        assert play.plan.result() == ()


@pytest.mark.parametrize("name", [name for name in SMALL if name != UNTIL_CURED])
async def test_each_scenario_ends_within_two_minutes(name: str) -> None:
    async with playing(scenario(name)) as play:
        polls = [phases(progress) async for progress in play.watch_to_the_end()]
        assert len(polls) <= LONGEST_S


async def test_a_dead_broker_is_drained() -> None:
    async with playing(scenario("drain-a-dead-broker")) as play:
        down = [not p.last.alive(3) async for p in play.watch_to_the_end() if p.last is not None]
        assert down[-1]
        assert await _off_target(play) == {}


@pytest.mark.parametrize(("name", "broker"), [("dead-target", 6), ("broker-dies-mid-move", 5)])
async def test_moves_onto_a_broker_that_is_down_stall_until_it_is_back(
    name: str, broker: int
) -> None:
    async with playing(scenario(name)) as play:
        polls = [_stalls(progress) async for progress in play.watch_to_the_end()]
        assert (StallKind.STALLED, Cause.TARGET_DOWN, broker) in set().union(*polls)
        assert polls[-1] == set()
        assert await _off_target(play) == {}


async def test_a_throttle_below_the_inbound_rate_is_reported_and_the_moves_never_end() -> None:
    async with playing(scenario(UNTIL_CURED)) as play:
        polls = [_stalls(progress) async for progress in play.watch(LONGEST_S)]
        found = {(kind, cause) for kind, cause, _ in set().union(*polls)}
        assert found == {(StallKind.FALLING_BEHIND, Cause.THROTTLED)}
        assert await _off_target(play)


async def test_another_operators_moves_and_cancels_are_seen() -> None:
    async with playing(scenario("another-operator")) as play:
        outcomes = {
            (timeline.tp.topic, timeline.phase)
            async for progress in play.watch_to_the_end()
            for timeline in progress.timelines.values()
            if timeline.phase.ended
        }
        assert outcomes == {
            ("orders", Phase.DONE),
            ("audit", Phase.DONE),
            ("clicks", Phase.CANCELLED),
        }


async def test_deleting_or_recreating_a_topic_ends_its_moves() -> None:
    async with playing(scenario("topic-deleted-mid-move")) as play:
        deletions = {
            event.what: event.tp.topic
            async for progress in play.watch_to_the_end()
            for event in progress.events
            if event.tp is not None and "deleted" in event.what
        }
        assert deletions == {
            "topic deleted": "clicks",
            "topic deleted and recreated under the same name; its reassignment is gone": "payments",
        }


async def _off_target(play: Play) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the partitions of the plan that are off their target, with their replicas."""
    assert play.scenario.plan is not None
    targets = play.scenario.plan.targets
    answer = await play.cluster.reader().describe_topics({tp.topic for tp in targets})
    return {
        tp: answer.partitions[tp].replicas
        for tp, target in targets.items()
        if answer.partitions[tp].replicas != target
    }


def _stalls(progress: Progress) -> set[tuple[StallKind, Cause, int]]:
    return {
        (timeline.stall.kind, timeline.stall.cause, timeline.stall.broker)
        for timeline in progress.timelines.values()
        if timeline.stall is not None and timeline.stall.alarm and not timeline.phase.ended
    }
