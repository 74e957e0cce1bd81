"""kill -9 of an engine or a command, at any instant: the next one goes on to the same end."""

import asyncio
import random
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigOp
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.events import AnyRunEvent, OnConflict, StepBegun
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import SHAPES, Limits, Mode, Shape
from ktui.pacing.situation import Situation
from ktui.pacing.steps import all_steps
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import VERSIONS, BrokerSpec, ClusterSpec, TopicSpec
from support.cli.broker_sandbox import RemovalSandbox
from support.runs.cancel_stories import AddingStory, CalledOffStory, begun, nth
from support.runs.engine_runs import Replicas, ten_seeds
from support.runs.stories import KilledStory
from support.runs.throttled import RF3, TWO, ThrottledStory, change_list, set_rate
from support.runs.witnessed import (
    DEAD_S,
    Killed,
    KilledRun,
    Play,
    Reaper,
    killed_at_any_instant,
    killed_at_seeded_instants,
)
from support.simulated.moving_clusters import tp

BROKERS = range(1, 8)
TOPICS = ("accounts", "orders")


def _a_run(seed: int, folder: Path, at: Collection[int]) -> KilledRun:
    """Build a run decided by the seed alone, except for the instants at which it is killed."""
    chance = random.Random(seed)  # noqa: S311 - a test's dice
    replicas = [tuple(chance.sample(BROKERS, 3)) for _ in range(chance.randint(1, 5))]
    spec = ClusterSpec(
        version=chance.choice(VERSIONS),
        brokers=tuple(BrokerSpec(id=b, net_in=1e6, rack="ab"[b % 2]) for b in BROKERS),
        topics=(
            TopicSpec(
                name="orders",
                replicas=tuple(replicas),
                bytes_each=chance.choice((1_000_000, 5_000_000)),
                inbound=1_000.0,
                configs={"min.insync.replicas": chance.choice("12")},
            ),
        ),
        auto_leader_rebalance=chance.random() < 0.5,
        rebalance_interval_s=7.0,
    )
    targets = {
        TopicPartition("orders", n): tuple(chance.sample(BROKERS, chance.choice((2, 3, 3, 4))))
        for n in range(len(replicas))
    }
    limits = Limits(
        replicas=chance.choice((None, 1, 1, 2)),
        partitions=chance.choice((None, 1, 2)),
        leader_movements=chance.choice((None, None, 1)),
        replica_movements=chance.choice((None, None, 2)),
        per_broker=chance.choice((None, None, 1)),
        shape=chance.choice(SHAPES),
        mode=chance.choice(tuple(Mode)),
        per_rack=1 if seed % 3 == 0 else None,
    )
    cluster = SimulatedCluster(spec, VirtualClock(leaping=True), seed=seed)
    return KilledRun(cluster, folder, targets, limits, seed=seed, at=at)


def _comes_to_its_targets(run: KilledRun) -> None:
    """Check assignment, leaders, that each step was taken once, and that the journal agrees."""
    outcome = asyncio.run(run.to_its_end())
    assert outcome.ended
    for each, target in run.targets.items():
        assert outcome.tracks[each].state is State.DONE
        assert (run.replicas(each), run.leader(each)) == (target, target[0])
        taken, expected = run.witness.effective(each), _expected(run, each)
        if run.limits.per_broker is None:
            assert taken == expected
        else:  # which of the missing replicas come first is free: those whose broker has room
            assert taken[-1:] == expected[-1:]
            assert [len(to or ()) for to in taken] == [len(to or ()) for to in expected]
    run.check_requests()
    assert [entry.event for entry in run.witnessed] == run.events[-len(run.witnessed) :]


def _expected(run: KilledRun, tp: TopicPartition) -> list[Replicas]:
    """Return the alters that bring a partition to its target when nothing goes wrong."""
    planned = run.run.tracks[tp].planned
    calm = Situation(
        replicas=planned.original,
        isr=planned.original,
        leader=planned.leader,
        target=planned.target,
        online=frozenset(BROKERS),
        min_insync_replicas=2,
    )
    return [step.target for step in all_steps(calm, run.limits) if step.alters]


class KilledWhileAdding(AddingStory, KilledStory):
    """A story decided by a seed, whose engine is killed at some instants.

    Args:
        seed: decides both plans, the limits, and what is added when.
        folder: where the journal is.
        at: the instants at which it dies, counted from 1.
    """

    def __init__(self, seed: int, folder: Path, at: Collection[int]) -> None:
        dice = random.Random(seed)  # noqa: S311 - a test's dice
        names = [f"{topic}-{n}" for topic in TOPICS for n in range(2)]
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

    def check(self) -> None:
        """Check that each partition is on the target of the plan in force for it."""
        outcome = self.to_the_end()
        self.late_ones_arrive()
        assert outcome.ended
        self.check_requests()
        assert outcome.counts[State.DONE] == len(outcome.tracks)
        for track in outcome.tracks.values():
            assert self.came_to(str(track.tp), track.planned.target), track.tp
        self._check_added(outcome)

    def _check_added(self, outcome: Run) -> None:
        assert [each.event.plan for each in outcome.additions.plans] == ["more.json"]
        for name, target in self.more.items():
            held = outcome.tracks[tp(name)].planned.target
            assert held == target or self.on_conflict is OnConflict.KEEP, name
        assert outcome.tracks[tp("audit-1")].planned.target == self.more["audit-1"]


def _begins(event: AnyRunEvent) -> bool:
    return isinstance(event, StepBegun)


def _some(dice: random.Random, count: int) -> Replicas:
    return tuple(dice.sample(BROKERS, count))


class KilledWhileCancelling(CalledOffStory, KilledStory):
    """A story decided by a seed, whose engine is killed at some instants.

    Args:
        seed: decides the plan, the limits, and what is cancelled when.
        folder: where the journal is.
        at: the instants at which it dies, counted from 1.
    """

    def __init__(self, seed: int, folder: Path, at: Collection[int]) -> None:
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

    def check(self) -> None:
        """Check that each partition ends where its cancel leaves it, with no unwanted requests."""
        outcome = self.to_the_end()
        self.late_ones_arrive()
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


class Kind(NamedTuple):
    """A kind of story decided by a seed, and the promises of its end."""

    make: Callable[[int, Path, Collection[int]], KilledRun]
    """Makes the story of a seed, which is killed at some instants."""
    check: Callable[[KilledRun], None]  # executes it through all kills, and checks its end

    def play(self, seed: int, reaper: Reaper | None = None) -> Play:
        def played(folder: Path, at: Collection[int]) -> Reaper:
            folder.mkdir()
            run = self.make(seed, folder, at)
            run.reaper = reaper or run.reaper
            try:
                self.check(run)
            except Exception as error:
                error.add_note(f"seed {seed}, killed at {run.reaper.where}")
                raise
            return run.reaper

        return played


def _checks(run: KilledRun) -> None:
    assert isinstance(run, KilledWhileAdding | KilledWhileCancelling)
    run.check()


ADDING = Kind(KilledWhileAdding, _checks)
KINDS = [
    pytest.param(Kind(_a_run, _comes_to_its_targets), id="moving"),
    pytest.param(ADDING, id="adding"),
    pytest.param(Kind(KilledWhileCancelling, _checks), id="cancelling"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(8))
def test_a_run_killed_at_seeded_instants_resumes_to_the_same_end(
    seed: int, kind: Kind, tmp_path: Path
) -> None:
    killed_at_seeded_instants(seed, tmp_path, kind.play(seed))


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", range(8, 218, 10))
def test_engines_killed_at_seeded_instants_of_210_runs_are_gone_on_with_to_the_same_end(
    first: int, kind: Kind, tmp_path: Path
) -> None:
    for seed, folder in ten_seeds(first, tmp_path):
        killed_at_seeded_instants(seed, folder, kind.play(seed))


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(1_000, 1_006))
def test_a_run_killed_at_any_instant_resumes_to_the_same_end(
    seed: int, kind: Kind, tmp_path: Path
) -> None:
    killed_at_any_instant(tmp_path, kind.play(seed))


@pytest.mark.parametrize("on_conflict", OnConflict)
def test_a_run_killed_at_any_instant_of_adding_a_plan_ends_correctly(
    on_conflict: OnConflict, tmp_path: Path
) -> None:
    seed = _seed_of(on_conflict, tmp_path)
    reaper = _RecordingReaper()
    ADDING.play(seed, reaper)(tmp_path / "whole", ())
    adding = [
        n for n, where in enumerate(reaper.places, 1) if any(word in where for word in _ADDING)
    ]
    assert len(adding) >= 4
    for instant in adding:
        ADDING.play(seed)(tmp_path / str(instant), {instant})


@pytest.mark.soak
@pytest.mark.parametrize("on_conflict", OnConflict)
def test_a_run_with_an_added_plan_killed_at_any_instant_ends_correctly(
    on_conflict: OnConflict, tmp_path: Path
) -> None:
    killed_at_any_instant(tmp_path, ADDING.play(_seed_of(on_conflict, tmp_path)))


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


class ThrottledAndCancelled(CalledOffStory, ThrottledStory):
    """A throttled story with a cancel."""


def _throttled(
    limits: Limits, kind: CancelKind | None = None, *, leaders_too: bool = False
) -> Play:
    """Kill a throttled run, perhaps while it is cancelled, on a cluster with others' throttles."""
    ways = TWO if kind is None else {**TWO, "orders-0": (RF3, (4, 5, 3))}

    def play(folder: Path, at: Collection[int]) -> Reaper:
        folder.mkdir()
        leaders = leaders_too and min(at, default=0) % 2 == 0
        story = ThrottledAndCancelled(folder, ways, limits, throttle_leaders=leaders)
        story.cluster.configure([set_rate(4, 3_000_000), change_list(ConfigOp.SET, "0:9")])
        if kind is not None:
            story.called_off(nth(2, begun("orders-0")), CancelMoves(kind))
        story.reaper.at = frozenset(at)
        try:
            story.to_the_end()
            story.assert_left_as_found()
            for each in map(tp, ways):
                assert kind is not CancelKind.ROLLBACK or story.now(each) == story.before[each]
        except Exception as error:
            error.add_note(f"{kind}, killed at {story.reaper.where}")
            raise
        return story.reaper

    return play


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_throttled_run_killed_anywhere_leaves_no_throttle_behind(
    partitions: int, tmp_path: Path
) -> None:
    play = _throttled(Limits(replicas=1, partitions=partitions), leaders_too=True)
    killed_at_any_instant(tmp_path, play, first=partitions, each=20, again=7)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [CancelKind.STOP, CancelKind.ROLLBACK])
def test_a_throttled_run_cancelled_and_killed_leaves_no_throttle_behind(
    kind: CancelKind, shape: Shape, tmp_path: Path
) -> None:
    play = _throttled(Limits(replicas=1, partitions=2, shape=shape), kind)
    killed_at_any_instant(tmp_path, play, each=31, again=7)


@pytest.mark.soak
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [None, *CancelKind])
def test_a_throttled_run_killed_at_any_instant_leaves_no_throttle_behind(
    kind: CancelKind | None, shape: Shape, tmp_path: Path
) -> None:
    limits = Limits(replicas=1, partitions=2, shape=shape)
    killed_at_any_instant(tmp_path, _throttled(limits, kind, leaders_too=kind is None), again=7)


WAITS = 3


class KilledRemoval:
    """A removal that dies at certain instants, and is called again after a while each time."""

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        version: str,
        seed: int,
        at: Collection[int] = (),
    ) -> None:
        folder.mkdir()
        self.sandbox = RemovalSandbox(folder, monkeypatch)
        self.sandbox.cluster(version=version)
        self.sandbox.reaper.at = frozenset(at)
        self._chance = random.Random(seed)  # noqa: S311 - a test's dice

    def call(self, *words: str) -> int:
        """Call `ktui broker remove 3` until it ends by itself, and return its exit code."""
        while True:
            try:
                result = self.sandbox.remove(*words)
            except Killed:
                self.sandbox.wait(self._chance.choice(DEAD_S))
            else:
                assert isinstance(result.exception, SystemExit | None), result.exception
                return result.exit_code

    def to_its_end(self) -> None:
        """Remove the broker, and check the outcome."""
        sandbox = self.sandbox
        assert self.call() == WAITS
        assert (sandbox.on_broker(), sandbox.settings) == ([], {"3": "*"})
        sandbox.stop()
        assert self.call("--unregister") == 0
        assert 3 not in sandbox.simulated.controller.registered
        assert [run.name for run in sandbox.state.run_dirs()] == ["demote-3", "drain-3"]

    def and_back(self) -> None:
        """Begin the removal, take it back from where it stands, and check that all is as before."""
        sandbox = self.sandbox
        before = sandbox.layout
        sandbox.until_s = self._chance.choice((3.0, 12.0, 10_000.0))
        self.call()
        sandbox.until_s = 10_000.0
        assert self.call("--undo") == 0
        assert (sandbox.layout, sandbox.settings) == (before, {})
        assert sandbox.note() is None


Way = Callable[[KilledRemoval], None]
WAYS = (KilledRemoval.to_its_end, KilledRemoval.and_back)
REMOVING = ("4.3", "4.4")
"""Kafka 4.4 refuses lists that name a cordoned broker, so the cordon comes last."""


def _removed(version: str, seed: int, way: Way, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Remove a broker; however it is killed, the layout is that of the first time."""
    layouts: list[object] = []

    def play(folder: Path, at: Collection[int]) -> Reaper:
        removal = KilledRemoval(folder, monkeypatch, version, seed, at)
        way(removal)
        layouts.append(removal.sandbox.layout)
        assert layouts[-1] == layouts[0], removal.sandbox.reaper.where
        return removal.sandbox.reaper

    return play


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("version", REMOVING)
def test_a_removal_killed_at_seeded_instants_ends_as_one_that_never_was(
    version: str, seed: int, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at_seeded_instants(seed, tmp_path, _removed(version, seed, way, monkeypatch))


@pytest.mark.soak
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("version", REMOVING)
def test_a_removal_killed_at_any_instant_ends_as_one_that_never_was(
    version: str, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at_any_instant(tmp_path, _removed(version, 0, way, monkeypatch))
