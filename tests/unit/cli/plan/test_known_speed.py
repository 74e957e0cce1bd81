"""What `ktui plan check` says of the time rests on the last runs, and is about what a run takes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ktui.cluster.observer import ObservationSource
from ktui.execution.host.kept import KeptSpeed
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.run import Run
from ktui.pacing.limits import Limits
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.speed.shown import SpeedShown
from support.cli.plan_sandbox import PlanSandbox, answer, check
from support.runs.engine_runs import PlannedRun
from support.simulated.moving_clusters import a_cluster, tp

BEFORE, AFTER = (1, 2, 3), (4, 2, 3)
PARTITIONS = 6
LIMITS = ("--partitions", "2", "--pace", "fast")
WITHIN = 0.25


class KeptRun(PlannedRun):
    """A run of six partitions of a topic, whose engine keeps what it has shown."""

    def __init__(self, cluster: SimulatedCluster, state: StateDir, topic: str) -> None:
        folder = state.create_run(topic)
        targets = {tp(f"{topic}-{number}"): AFTER for number in range(PARTITIONS)}
        super().__init__(cluster, folder.path, targets, Limits(partitions=2))
        self._kept = KeptSpeed(folder, self.clock, self._shown)

    def _shown(self) -> SpeedShown | None:
        return None if self.engine is None else self.engine.speed_shown

    def through(self, source: ObservationSource) -> ObservationSource:
        """Keep now and then what the engine has shown."""
        return self._kept.through(source)

    def carried_to_its_end(self) -> float:
        """Carry the run out as its process does, and return the seconds that it took."""
        began_s = self.clock.monotonic()
        assert asyncio.run(self.to_its_end()).ended
        self._kept.write()
        return self.clock.monotonic() - began_s

    def killed_after(self, seconds: float) -> Run:
        """Let the engine die on the way: it writes nothing in the end."""
        return asyncio.run(self._killed_after(seconds))

    async def _killed_after(self, seconds: float) -> Run:
        await self.start()
        going = asyncio.create_task(self.execute())
        await self.clock.sleep(seconds)
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)
        return self.run


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


@pytest.fixture
def cluster(plan_sandbox: PlanSandbox) -> SimulatedCluster:
    """Return a cluster whose brokers take in 8 MB/s; it holds 200 MB in each partition."""
    topics = {topic: [BEFORE] * PARTITIONS for topic in ("orders", "billing")}
    spec = a_cluster(topics, messages=200_000, copied_s=8_000.0).spec
    made = SimulatedCluster(spec, VirtualClock(leaping=True))
    plan_sandbox.cluster(made)
    return made


def checked(plan_sandbox: PlanSandbox, state: StateDir, topic: str) -> tuple[str, float]:
    """Return what a check says of the time of a plan for a topic, and its seconds."""
    plan = plan_sandbox.plan(**{f"{topic}_{number}": AFTER for number in range(PARTITIONS)})
    options = (plan, *LIMITS, "--state-dir", str(state.path))
    said = answer(check(*options, "--json"))["how_long"]["time_s"]["middle"]
    return check(*options).output, said


@pytest.mark.usefixtures("cluster")
def test_a_check_before_any_run_says_that_its_rate_is_assumed(
    plan_sandbox: PlanSandbox, state: StateDir
) -> None:
    text, _ = checked(plan_sandbox, state, "orders")
    assert "assumed" in text
    assert "earlier run" not in text


def test_a_check_after_a_run_rests_on_it_and_is_about_what_a_like_plan_takes(
    plan_sandbox: PlanSandbox, cluster: SimulatedCluster, state: StateDir
) -> None:
    KeptRun(cluster, state, "orders").carried_to_its_end()
    text, said_s = checked(plan_sandbox, state, "billing")
    assert "by 1 earlier run" in text
    assert "assumed" not in text
    took_s = KeptRun(cluster, state, "billing").carried_to_its_end()
    assert said_s == pytest.approx(took_s, rel=WITHIN)


def test_a_check_after_a_run_whose_engine_was_killed_rests_on_it_too(
    plan_sandbox: PlanSandbox, cluster: SimulatedCluster, state: StateDir
) -> None:
    run = KeptRun(cluster, state, "orders").killed_after(60.0)
    assert 0 < run.over < PARTITIONS
    text, said_s = checked(plan_sandbox, state, "billing")
    assert "by 1 earlier run" in text
    assert isinstance(cluster.clock, VirtualClock)
    cluster.clock.pass_time(600.0)  # until what was in flight has ended
    took_s = KeptRun(cluster, state, "billing").carried_to_its_end()
    assert said_s == pytest.approx(took_s, rel=WITHIN)


def test_a_rate_given_by_the_operator_overrides_what_runs_have_shown(
    plan_sandbox: PlanSandbox, cluster: SimulatedCluster, state: StateDir
) -> None:
    KeptRun(cluster, state, "orders").carried_to_its_end()
    plan = plan_sandbox.plan(**{f"billing_{number}": AFTER for number in range(PARTITIONS)})
    given = check(plan, *LIMITS, "--rate", "100MB/s", "--state-dir", str(state.path))
    assert "at 100 MB/s, as given" in given.output
    assert "earlier run" not in given.output
