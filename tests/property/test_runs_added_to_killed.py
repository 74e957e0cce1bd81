"""kill -9 of an engine while an extra plan joins its run: all of it does or nothing, and ends."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ktui.execution.run.events import AnyRunEvent, OnConflict, StepBegun
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits, Mode, Shape
from support.runs.added_stories import AddingStory
from support.runs.cancel_stories import nth
from support.runs.engine_runs import Replicas
from support.runs.killed import Killed, KilledRun, Reaper
from support.runs.seeds import ten_seeds
from support.simulated.moving_clusters import tp

BROKERS = range(1, 8)


class KilledAsAddedTo(AddingStory, KilledRun):
    """A story that a seed decides, whose engine is killed at some instants.

    Args:
        seed: of both plans, the limits, and of what is added when.
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
            shape=dice.choice(tuple(Shape)),
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
        """Carry it on through all its deaths; what comes late has come by then."""
        carry_on = self.played
        while True:
            try:
                outcome = carry_on(3_000.0)
                break
            except Killed:
                self.clock.pass_time(self.chance.choice((0.0, 0.3, 2.0, 9.0, 60.0)))
                carry_on = self.resumed
        self.clock.pass_time(70.0)
        self.cluster.catch_up()
        return outcome

    def check(self, outcome: Run) -> None:
        """Each is where the last plan that holds for it wants it, and the first original kept."""
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


def _carried(
    seed: int, folder: Path, at: set[int], reaper: Reaper | None = None
) -> KilledAsAddedTo:
    folder.mkdir()
    story = KilledAsAddedTo(seed, folder, at)
    story.reaper = reaper or story.reaper
    try:
        story.check(story.to_the_end())
    except Exception as error:
        error.add_note(f"seed {seed}, {story.on_conflict}, killed at {story.reaper.where}")
        raise
    return story


def _at_seeded_instants(seed: int, folder: Path) -> None:
    count = _carried(seed, folder / "whole", set()).reaper.count
    dice = random.Random(f"instants {seed}")  # noqa: S311 - a test's dice
    at = {dice.randint(1, count) for _ in range(dice.choice((1, 1, 2, 3, 6)))}
    _carried(seed, folder / "killed", at)


@pytest.mark.parametrize("seed", range(8))
def test_an_engine_killed_while_it_is_added_to_is_gone_on_with_to_the_same_end(
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
def test_no_instant_of_adding_is_a_bad_one_to_be_killed_at(
    on_conflict: OnConflict, tmp_path: Path
) -> None:
    seed = _seed_of(on_conflict, tmp_path)
    reaper = _Telling()
    _carried(seed, tmp_path / "whole", set(), reaper)
    adding = [n for n, where in enumerate(reaper.told, 1) if any(word in where for word in _ADDING)]
    assert len(adding) >= 4
    for instant in adding:
        _carried(seed, tmp_path / str(instant), {instant})


@pytest.mark.soak
@pytest.mark.parametrize("on_conflict", OnConflict)
def test_no_instant_of_a_run_that_is_added_to_is_a_bad_one_to_be_killed_at(
    on_conflict: OnConflict, tmp_path: Path
) -> None:
    seed = _seed_of(on_conflict, tmp_path)
    count = _carried(seed, tmp_path / "whole", set()).reaper.count
    for instant in range(1, count + 1):
        _carried(seed, tmp_path / str(instant), {instant})


_ADDING = ("CancelAsked", "Added", "Joined", "answering")


class _Telling(Reaper):
    """Tells of every instant, and kills at none."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def due(self, where: str) -> bool:
        self.told.append(where)
        return super().due(where)


def _seed_of(on_conflict: OnConflict, folder: Path) -> int:
    stories = ((n, KilledAsAddedTo(n, folder, set())) for n in range(100))
    return next(n for n, story in stories if story.on_conflict is on_conflict)
