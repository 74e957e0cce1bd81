"""kill -9 of an engine, at any instant: the next one resumes to the same outcome."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.pacing.limits import SHAPES, Limits, Mode
from ktui.pacing.situation import Situation
from ktui.pacing.steps import all_steps
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import VERSIONS, BrokerSpec, ClusterSpec, TopicSpec
from support.runs.engine_runs import Replicas, ten_seeds
from support.runs.witnessed import KilledRun

BROKERS = range(1, 8)


def _a_run(seed: int, folder: Path, at: set[int]) -> KilledRun:
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


def _never_killed(seed: int, folder: Path) -> int:
    """Return the number of instants at which a run could be killed."""
    folder.mkdir()
    run = _a_run(seed, folder, set())
    _check(run, asyncio.run(run.to_its_end()))
    return run.reaper.count


def _killed(seed: int, folder: Path, at: set[int]) -> None:
    folder.mkdir()
    run = _a_run(seed, folder, at)
    try:
        _check(run, asyncio.run(run.to_its_end()))
    except Exception as error:
        error.add_note(f"seed {seed}, killed at {run.reaper.where}")
        raise


def _check(run: KilledRun, outcome: Run) -> None:
    """Check assignment, leaders, that each step was taken once, and that the journal agrees."""
    assert outcome.ended
    for tp, target in run.targets.items():
        assert outcome.tracks[tp].state is State.DONE
        assert (run.replicas(tp), run.leader(tp)) == (target, target[0])
        taken, expected = run.witness.effective(tp), _expected(run, tp)
        if run.limits.per_broker is None:
            assert taken == expected
        else:  # which of the missing replicas come first is free: those whose broker has room
            assert taken[-1:] == expected[-1:]
            assert [len(each or ()) for each in taken] == [len(each or ()) for each in expected]
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


def _instants(seed: int, count: int) -> set[int]:
    chance = random.Random(f"instants {seed}")  # noqa: S311 - a test's dice
    return {chance.randint(1, count) for _ in range(chance.choice((1, 1, 2, 3, 6)))}


def _at_seeded_instants(seed: int, folder: Path) -> None:
    count = _never_killed(seed, folder / "whole")
    _killed(seed, folder / "killed", _instants(seed, count))


@pytest.mark.parametrize("seed", range(8))
def test_a_run_killed_at_seeded_instants_resumes_to_the_same_outcome(
    seed: int, tmp_path: Path
) -> None:
    _at_seeded_instants(seed, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(8, 218, 10))
def test_engines_killed_at_seeded_instants_of_210_runs_are_gone_on_with_to_the_same_outcome(
    first: int, tmp_path: Path
) -> None:
    for seed, folder in ten_seeds(first, tmp_path):
        _at_seeded_instants(seed, folder)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1_000, 1_006))
def test_a_run_killed_at_any_instant_resumes_to_the_same_outcome(seed: int, tmp_path: Path) -> None:
    for instant in range(1, _never_killed(seed, tmp_path / "whole") + 1):
        _killed(seed, tmp_path / str(instant), {instant})
