"""kill -9 of an engine while partitions are stopped or rolled back: the end is the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigOp
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import SHAPES, Limits, Shape
from support.runs.cancel_stories import CalledOffStory, begun, nth
from support.runs.engine_runs import ten_seeds
from support.runs.throttled import ThrottledStory, change_list, set_rate
from support.runs.witnessed import Killed, KilledRun, Reaper
from support.simulated.moving_clusters import tp

BROKERS = range(1, 8)
TOPICS = ("accounts", "orders")


class KilledWhileCancelling(CalledOffStory, KilledRun):
    """A story decided by a seed, whose engine is killed at some instants.

    Args:
        seed: decides the plan, the limits, and what is cancelled when.
        folder: where the journal is.
        at: the instants at which it dies, counted from 1.
    """

    def __init__(self, seed: int, folder: Path, at: set[int]) -> None:
        dice = random.Random(seed)  # noqa: S311 - a test's dice
        names = [f"{topic}-{n}" for topic in TOPICS for n in range(dice.randint(1, 2))]
        ways = {}
        for name in names:
            replicas = tuple(dice.sample(BROKERS, 3))
            ways[name] = (replicas, tuple(dice.sample(BROKERS, dice.choice((2, 3, 3, 4)))))
        limits = Limits(
            replicas=dice.choice((None, 1, 1, 2)),
            partitions=dice.choice((None, 1, 2)),
            leader_movements=dice.choice((None, None, 1)),
            shape=dice.choice(SHAPES),
        )
        cluster = {"version": dice.choice(("4.1", "4.2", "4.3")), "messages": 4_000}
        super().__init__(folder, ways, limits, cluster)
        self.chance, self.reaper = random.Random(seed), Reaper(at)  # noqa: S311 - a test's dice
        self.kind = dice.choice(tuple(CancelKind))
        some = tuple(tp(name) for name in names if dice.random() < 0.5)
        command = dice.choice(
            (
                CancelMoves(self.kind),
                CancelMoves(self.kind, ("orders",)),
                CancelMoves(self.kind, (), some),
            )
        )
        self.called_off(nth(dice.randint(1, 4), begun(dice.choice(names))), command)

    def to_the_end(self) -> Run:
        """Run to the end through all kills, until late requests have arrived."""
        proceed = self.played
        while True:
            try:
                outcome = proceed(3_000.0)
                break
            except Killed:
                self.clock.pass_time(self.chance.choice((0.0, 0.3, 2.0, 9.0, 60.0)))
                proceed = self.resumed
        self.clock.pass_time(70.0)
        self.cluster.catch_up()
        return outcome

    def check(self, outcome: Run) -> None:
        """Check that each partition ends where its cancel leaves it, with no unwanted requests."""
        assert outcome.ended
        self.check_requests()
        for track in outcome.tracks.values():
            now = self.now(track.tp)
            match track.cancel:
                case None:
                    assert track.state is State.DONE
                    assert now == (track.planned.target, track.planned.target[0])
                case CancelKind.ROLLBACK:
                    assert track.state in {State.ROLLED_BACK, State.STOPPED}
                    assert now == self.before[track.tp]
                case CancelKind.TRIM:
                    assert track.state is State.STOPPED
                    assert len(now[0]) <= max(len(track.original), len(track.planned.target))
                case CancelKind.STOP:
                    assert track.state is State.STOPPED
                    assert set(now[0]) in self._between(track.tp)

    def _between(self, each: TopicPartition) -> list[set[int]]:
        """Return the replica sets that a partition has between its steps."""
        mine = [step for step in self.steps if step.tp == each]
        found = [{*self.before[each][0]}]
        for step in mine:
            found += [{*step.before}, {*step.replicas}]
        return found[-3:]


def _run_story(seed: int, folder: Path, at: set[int]) -> Reaper:
    folder.mkdir()
    story = KilledWhileCancelling(seed, folder, at)
    try:
        story.check(story.to_the_end())
    except Exception as error:
        error.add_note(f"seed {seed}, {story.kind}, killed at {story.reaper.where}")
        raise
    return story.reaper


def _at_seeded_instants(seed: int, folder: Path) -> None:
    count = _run_story(seed, folder / "whole", set()).count
    dice = random.Random(f"instants {seed}")  # noqa: S311 - a test's dice
    at = {dice.randint(1, count) for _ in range(dice.choice((1, 1, 2, 3, 6)))}
    _run_story(seed, folder / "killed", at)


@pytest.mark.parametrize("seed", range(8))
def test_a_run_killed_while_cancelling_resumes_to_the_same_end(seed: int, tmp_path: Path) -> None:
    _at_seeded_instants(seed, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(8, 218, 10))
def test_engines_killed_at_seeded_instants_of_210_cancelled_runs_come_to_the_same_end(
    first: int, tmp_path: Path
) -> None:
    for seed, folder in ten_seeds(first, tmp_path):
        _at_seeded_instants(seed, folder)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1_000, 1_006))
def test_a_run_killed_at_any_instant_of_a_cancel_ends_correctly(seed: int, tmp_path: Path) -> None:
    for instant in range(1, _run_story(seed, tmp_path / "whole", set()).count + 1):
        _run_story(seed, tmp_path / str(instant), {instant})


TWO = {"orders-0": ((1, 2, 3), (4, 5, 3)), "orders-1": ((1, 2, 3), (5, 2, 3))}


class _ThrottledCancelStory(CalledOffStory, ThrottledStory):
    """A throttled story with a cancel."""


def _throttled(kind: CancelKind, shape: Shape, instant: int, folder: Path) -> Reaper:
    """Kill a throttled run at one of its instants, and at another one after that."""
    folder.mkdir()
    limits = Limits(replicas=1, partitions=2, shape=shape)
    story = _ThrottledCancelStory(folder, TWO, limits=limits)
    story.cluster.configure([set_rate(4, 3_000_000), change_list(ConfigOp.SET, "0:9")])
    story.called_off(nth(2, begun("orders-0")), CancelMoves(kind))
    story.reaper.at = frozenset({instant, instant + 7} - {0, 7})
    try:
        story.to_the_end()
        story.assert_left_as_found()
        for each in map(tp, TWO):
            assert kind is not CancelKind.ROLLBACK or story.now(each) == story.before[each]
    except Exception as error:
        error.add_note(f"{kind} {shape}, killed at {story.reaper.where}")
        raise
    return story.reaper


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [CancelKind.STOP, CancelKind.ROLLBACK])
def test_a_throttled_run_cancelled_and_killed_leaves_no_throttle_behind(
    kind: CancelKind, shape: Shape, tmp_path: Path
) -> None:
    count = _throttled(kind, shape, 0, tmp_path / "0").count
    for instant in range(1, count + 1, 31):
        _throttled(kind, shape, instant, tmp_path / str(instant))


@pytest.mark.soak
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", CancelKind)
def test_a_throttled_cancel_killed_at_any_instant_leaves_no_throttle_behind(
    kind: CancelKind, shape: Shape, tmp_path: Path
) -> None:
    for instant in range(1, _throttled(kind, shape, 0, tmp_path / "0").count + 1):
        _throttled(kind, shape, instant, tmp_path / str(instant))
