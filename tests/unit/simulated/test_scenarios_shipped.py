"""The scenarios that are shipped, their captions, plans and page."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import msgspec
import pytest

from ktui.captions import Caption, StoryMoment
from ktui.cluster.partition import TopicPartition
from ktui.inputfile import FileProblem
from ktui.pacing.limits import CHOICES, NUMBERS, SHAPES, Mode, Order
from ktui.progress.timeline import Cause, Phase, Progress, StallKind
from ktui.simulated.scenario.file import (
    BrokerPart,
    ClusterPart,
    PlanPart,
    RatesPart,
    Scenario,
    ScenarioPart,
    SnapshotPart,
    TidePart,
    TopicStartPart,
)
from ktui.simulated.scenario.library import (
    CALLS,
    DEFAULT,
    FAULTS,
    load_scenario,
    shipped_names,
    shipped_path,
)
from ktui.simulated.scenario.topics import alternate_racks
from support.simulated.moving_clusters import Play, phases, playing

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


ONE_LINE = 114
"""Characters of a line of 120 columns."""
START = "title: Mine\ncaptions:\n"


def load(folder: Path, captions: str) -> tuple[Caption, ...]:
    path = folder / "mine.yaml"
    path.write_text(START + captions, encoding="utf-8")
    return load_scenario(path).captions


def test_a_caption_waits_for_a_time_or_a_moment(tmp_path: Path) -> None:
    text = "  - {at: 1m30s, say: Look at `b`.}\n  - {when: stalled, say: 'It\n    hangs.'}\n"
    assert load(tmp_path, text) == (
        Caption(say="Look at `b`.", at_s=90.0),
        Caption(say="It hangs.", when=StoryMoment.STALLED),
    )


@pytest.mark.parametrize(
    ("captions", "line", "words"),
    [
        ("  - {say: x}\n", 3, "captions.0: expected either 'at', a time, or 'when', a moment"),
        (
            "  - {at: 1s, say: x}\n  - {at: 2s, when: over, say: x}\n",
            4,
            "captions.1: expected either 'at', a time, or 'when', a moment; both are set",
        ),
        (
            "  - {when: staled, say: x}\n",
            3,
            "captions.0.when: there is no moment 'staled'; did you mean 'stalled'?",
        ),
        ("  - {when: lunch, say: x}\n", 3, "expected one of moving, behind, stalled, "),
        ("  - {at: 5s}\n", 3, "missing required field `say`"),
        ("  - {at: 5s, say: ''}\n", 3, "expected a sentence that says what happens now"),
        (
            f"  - {{at: 5s, say: {'x' * 141}}}\n",
            3,
            "expected at most 140 characters, got 141; make two captions of it",
        ),
        ("  - {at: 5s, say: 'Press `b.'}\n", 3, "expected each key between two backticks"),
        (
            "  - {at: 9s, say: x}\n  - {when: over, say: x}\n  - {at: 9s, say: x}\n",
            5,
            "captions.2.at: expected a time after that of the caption before",
        ),
        ("  - {at: 5s, says: x}\n", 3, "unknown key 'says'; did you mean 'say'?"),
        ("  - {at: soon, say: x}\n", 3, "captions.0.at"),
    ],
)
def test_a_mistake_in_a_caption_is_reported_with_its_line(
    tmp_path: Path, captions: str, line: int, words: str
) -> None:
    with pytest.raises(FileProblem) as problem:
        load(tmp_path, captions)
    assert problem.value.line == line
    assert words in str(problem.value)


@pytest.mark.parametrize("name", shipped_names())
def test_every_shipped_story_explains_itself_from_its_start_to_its_end(name: str) -> None:
    captions = load_scenario(shipped_path(name)).captions

    assert captions[0].at_s == 0
    assert captions[-1].when is StoryMoment.OVER
    assert len(captions) >= 5
    assert max(len(caption.say.replace("`", "")) for caption in captions) <= ONE_LINE
    assert any("`" in caption.say for caption in captions[:-1])


DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "scenarios.md").read_text(encoding="utf-8")
PARTS = (
    ScenarioPart,
    ClusterPart,
    BrokerPart,
    TidePart,
    TopicStartPart,
    PlanPart,
    SnapshotPart,
    RatesPart,
)
KEYS = sorted({field.encode_name for part in PARTS for field in msgspec.structs.fields(part)})
WORDS = set(re.findall(r"[\w-]+", " ".join(re.findall(r"`([^`\n]+)`", PAGE))))


@pytest.mark.parametrize(
    "key", [*KEYS, *NUMBERS, *CHOICES, *FAULTS, *sorted(CALLS), *SHAPES, *Mode, *Order]
)
def test_the_docs_explain_every_scenario_key(key: str) -> None:
    assert key in WORDS


@pytest.mark.parametrize("name", shipped_names())
def test_the_docs_list_every_shipped_scenario(name: str) -> None:
    assert f"| `{name}` |" in (DOCS / "demo.md").read_text(encoding="utf-8")


def test_the_documented_example_can_be_loaded(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    path = tmp_path / "example.yaml"
    path.write_text(example[1], encoding="utf-8")

    scenario = load_scenario(path)

    assert scenario.plan is not None
    assert len(scenario.spec.topics) == 101


def test_brokers_are_ordered_with_alternating_racks() -> None:
    assert alternate_racks({1: "a", 2: "a", 3: "b", 4: "b", 5: None}) == [1, 3, 5, 2, 4]
