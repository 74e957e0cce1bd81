"""kill -9 while an extra plan joins a run: the plan joins whole or not at all, and the run ends."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ktui.execution.run.events import AnyRunEvent, OnConflict, StepBegun
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.pacing.limits import SHAPES, Limits, Mode
from support.runs.cancel_stories import AddingStory, nth
from support.runs.engine_runs import Replicas, ten_seeds
from support.runs.witnessed import Killed, KilledRun, Reaper
from support.simulated.moving_clusters import tp

BROKERS = range(1, 8)


class KilledWhileAdding(AddingStory, KilledRun):
    """A story decided by a seed, whose engine is killed at some instants.

    Args:
        seed: decides both plans, the limits, and what is added when.
        folder: where the journal is.
        at: the instants at which it dies, counted from 1.
    """

    def __init__(self, seed: int, folder: Path, at: set[int]) -> None:
        dice = random.Random(seed)  # noqa: S311 - a test's dice
        names = [f"{topic}-{n}" for topic in ("accounts", "orders") for n in range(2)]
        ways = {name: (_some(dice, 3), _some(dice, dice.choice((2, 3, 4)))) for name in names}
        limits = Limits(
            replicas=dice.choice((None, 1, 1, 2)),
            partitions=dice.choice((None, 1, 2)),
            leader_movements=dice.choice((None, None, 1)),
            shape=dice.choice(SHAPES),
            mode=dice.choice(tuple(Mode)),
        )
        more = {"version": dice.choice(("4.1", "4.2", "4.3")), "messages": 4_000}
        super().__init__(folder, ways, limits, {**more, "resting": ["audit-0", "audit-1"]})
        self.chance, self.reaper = random.Random(seed), Reaper(at)  # noqa: S311 - a test's dice
        self.on_conflict = dice.choice(tuple(OnConflict))
        both = [name for name in names if dice.random() < 0.6]
        self.more = {name: _some(dice, dice.choice((2, 3, 3, 4))) for name in (*both, "audit-1")}
        self.adds(nth(dice.randint(1, 4), _begins), self.more, self.on_conflict)

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
        """Check that each partition is on the target of the plan in force for it."""
        assert outcome.ended
        self.check_requests()
        assert outcome.counts[State.DONE] == len(outcome.tracks)
        for track in outcome.tracks.values():
            assert self.came_to(str(track.tp), track.planned.target), track.tp
        self._check_added(outcome)

    def _check_added(self, outcome: Run) -> None:
        assert [each.added.plan for each in outcome.additions.plans] == ["more.json"]
        for name, target in self.more.items():
            held = outcome.tracks[tp(name)].planned.target
            assert held == target or self.on_conflict is OnConflict.KEEP, name
        assert outcome.tracks[tp("audit-1")].planned.target == self.more["audit-1"]


def _begins(event: AnyRunEvent) -> bool:
    return isinstance(event, StepBegun)


def _some(dice: random.Random, count: int) -> Replicas:
    return tuple(dice.sample(BROKERS, count))


def _run_story(
    seed: int, folder: Path, at: set[int], reaper: Reaper | None = None
) -> KilledWhileAdding:
    folder.mkdir()
    story = KilledWhileAdding(seed, folder, at)
    story.reaper = reaper or story.reaper
    try:
        story.check(story.to_the_end())
    except Exception as error:
        error.add_note(f"seed {seed}, {story.on_conflict}, killed at {story.reaper.where}")
        raise
    return story


def _at_seeded_instants(seed: int, folder: Path) -> None:
    count = _run_story(seed, folder / "whole", set()).reaper.count
    dice = random.Random(f"instants {seed}")  # noqa: S311 - a test's dice
    at = {dice.randint(1, count) for _ in range(dice.choice((1, 1, 2, 3, 6)))}
    _run_story(seed, folder / "killed", at)


@pytest.mark.parametrize("seed", range(8))
def test_a_run_killed_while_a_plan_is_added_resumes_to_the_same_end(
    seed: int, tmp_path: Path
) -> None:
    _at_seeded_instants(seed, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(8, 218, 10))
def test_engines_killed_at_seeded_instants_of_210_runs_that_are_added_to_are_gone_on_with(
    first: int, tmp_path: Path
) -> None:
    for seed, folder in ten_seeds(first, tmp_path):
        _at_seeded_instants(seed, folder)


@pytest.mark.parametrize("on_conflict", OnConflict)
def test_a_run_killed_at_any_instant_of_adding_a_plan_ends_correctly(
    on_conflict: OnConflict, tmp_path: Path
) -> None:
    seed = _seed_of(on_conflict, tmp_path)
    reaper = _RecordingReaper()
    _run_story(seed, tmp_path / "whole", set(), reaper)
    adding = [
        n for n, where in enumerate(reaper.places, 1) if any(word in where for word in _ADDING)
    ]
    assert len(adding) >= 4
    for instant in adding:
        _run_story(seed, tmp_path / str(instant), {instant})


@pytest.mark.soak
@pytest.mark.parametrize("on_conflict", OnConflict)
def test_a_run_with_an_added_plan_killed_at_any_instant_ends_correctly(
    on_conflict: OnConflict, tmp_path: Path
) -> None:
    seed = _seed_of(on_conflict, tmp_path)
    count = _run_story(seed, tmp_path / "whole", set()).reaper.count
    for instant in range(1, count + 1):
        _run_story(seed, tmp_path / str(instant), {instant})


_ADDING = ("CancelAsked", "Added", "Joined", "answering")


class _RecordingReaper(Reaper):
    """A reaper that records every instant and kills at none."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[str] = []

    def due(self, where: str) -> bool:
        self.places.append(where)
        return super().due(where)


def _seed_of(on_conflict: OnConflict, folder: Path) -> int:
    stories = ((n, KilledWhileAdding(n, folder, set())) for n in range(100))
    return next(n for n, story in stories if story.on_conflict is on_conflict)
