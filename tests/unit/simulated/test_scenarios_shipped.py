"""The scenarios that come with ktui show what they say, soon after they are started."""

from __future__ import annotations

from functools import cache

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Cause, Phase, Progress, StallKind
from ktui.simulated.scenario.library import DEFAULT, load_scenario, shipped_names, shipped_path
from ktui.simulated.scenario.record import Scenario
from support.simulated.scenario_play import Play, phases, playing

LARGE = "hundred-thousand-partitions"
UNTIL_CURED = "throttle-too-low"
"""Its cure is a key: tests/tui/test_demo.py presses it."""
SMALL = [name for name in shipped_names() if name != LARGE]
LONGEST_S = 120
"""Seconds of a viewer."""


@cache
def scenario(name: str) -> Scenario:
    return load_scenario(shipped_path(name))


def test_all_the_stories_are_there_and_the_default_is_the_first() -> None:
    assert shipped_names()[0] == DEFAULT == "drain-a-broker"
    assert set(shipped_names()) >= {
        "drain-a-dead-broker", "expand-by-two", "replication-factor-3", "hot-leader",
        "dead-target", "throttle-too-low", "broker-dies-mid-move", "another-operator",
        "topic-deleted-mid-move", LARGE,
    }  # fmt: skip


@pytest.mark.parametrize("name", shipped_names())
def test_each_says_in_a_few_lines_what_to_look_at(name: str) -> None:
    story = scenario(name)

    assert 0 < len(story.title) <= 60
    assert 100 < len(story.about) <= 420


def test_the_largest_has_a_hundred_thousand_partitions() -> None:
    assert sum(len(topic.replicas) for topic in scenario(LARGE).spec.topics) == 100_000


@pytest.mark.parametrize("name", shipped_names())
async def test_within_seconds_partitions_are_seen_at_different_stages(name: str) -> None:
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
async def test_where_nothing_goes_wrong_everything_reaches_its_target(name: str) -> None:
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
async def test_each_story_ends_within_two_minutes(name: str) -> None:
    async with playing(scenario(name)) as play:
        looks = [phases(progress) async for progress in play.watch_to_the_end()]
        assert len(looks) <= LONGEST_S


async def test_a_dead_broker_is_drained_of_what_it_cannot_give_any_more() -> None:
    async with playing(scenario("drain-a-dead-broker")) as play:
        down = [not p.last.alive(3) async for p in play.watch_to_the_end() if p.last is not None]
        assert down[-1]
        assert await _off_target(play) == {}


@pytest.mark.parametrize(("name", "broker"), [("dead-target", 6), ("broker-dies-mid-move", 5)])
async def test_what_goes_onto_a_broker_that_is_down_stalls_until_it_is_back(
    name: str, broker: int
) -> None:
    async with playing(scenario(name)) as play:
        looks = [_stalls(progress) async for progress in play.watch_to_the_end()]
        assert (StallKind.STALLED, Cause.TARGET_DOWN, broker) in set().union(*looks)
        assert looks[-1] == set()
        assert await _off_target(play) == {}


async def test_a_throttle_below_what_is_written_is_told_and_never_ends_by_itself() -> None:
    async with playing(scenario(UNTIL_CURED)) as play:
        looks = [_stalls(progress) async for progress in play.watch(LONGEST_S)]
        found = {(kind, cause) for kind, cause, _ in set().union(*looks)}
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


async def test_a_topic_that_is_deleted_or_made_anew_ends_its_moves() -> None:
    async with playing(scenario("topic-deleted-mid-move")) as play:
        told = {
            event.what: event.tp.topic
            async for progress in play.watch_to_the_end()
            for event in progress.events
            if event.tp is not None and "deleted" in event.what
        }
        assert told == {
            "topic deleted": "clicks",
            "topic deleted and recreated under the same name; its reassignment is gone": "payments",
        }


async def _off_target(play: Play) -> dict[TopicPartition, tuple[int, ...]]:
    """Give the partitions of the plan that are not on their target, and where they are."""
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
