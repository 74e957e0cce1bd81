"""`How long?` has one answer: whoever is asked, with the same knowledge, says the same time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from bench.forecast.priors import EarlierRuns as Sampled
from bench.forecast.stored import StoredRun
from click.testing import CliRunner

from ktui.cli.context.config import Context
from ktui.cli.main import ktui
from ktui.cluster.partition import TopicPartition
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.forecast.estimate import Estimate
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import JournalEntry, StepBegun
from ktui.execution.run.run import Run
from ktui.ops.start import FactReader
from ktui.pacing.limits import Limits, default_limits, parse_limits
from ktui.pipeline.forecast.model import fit
from ktui.pipeline.forecast.play import playable_run, simulate_cell
from ktui.planning.check.findings import TO_START
from ktui.planning.plan import plan_as_json
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates, parse_throttle_rates
from ktui.preview.facts import Terms
from ktui.recording.recorder import Recorder
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import BrokerSpec, ClusterSpec, TopicSpec
from ktui.speed.copies import SENDING
from ktui.tui.run_view.launchers import EngineLauncher
from ktui.tui.run_view.plan_request import PlanRequest, read_chosen_plan
from support.cli.call_ktui import NamedCluster
from support.recordings.drained_recordings import RecordedRun
from support.runs.engine_runs import Replicas, plan_of

MB = 1_000_000
BROKERS = range(1, 7)
ALIKE = 1.1  # all times are within a tenth of each other
COUNT = 20


def spec(*, alone: float = 20.0 * MB) -> ClusterSpec:
    """Return a cluster whose brokers copy as forecasts have it, at rates that nobody knows."""
    sizes = [(140 + 61 * n % 460) * MB for n in range(COUNT)]
    return ClusterSpec(
        name="prod-id",
        brokers=tuple(
            BrokerSpec(
                id=b,
                net_in=1e10,
                net_out=1e10,
                disk_write=1e10,
                copy_in=2 * alone,
                copy_half_at=1.0,
                copy_sends=SENDING,
                throttle_share=0.5,
            )
            for b in BROKERS
        ),
        topics=(
            TopicSpec(name="led", replicas=((1, 2),) * COUNT, sizes=tuple(sizes)),
            TopicSpec(
                name="even",
                replicas=tuple((1 + n % 6, 1 + (n + 1) % 6) for n in range(COUNT)),
                sizes=tuple(sizes),
            ),
        ),
        auto_leader_rebalance=False,
        copy_start_s=0.35,
    )


class Asked(NamedTuple):
    """A plan, and how it is carried out."""

    targets: dict[TopicPartition, Replicas]
    limits: Mapping[str, object] = MappingProxyType({})
    throttle: str = ""

    @property
    def in_force(self) -> Limits:
        return parse_limits(self.limits, default_limits(self.limits))

    @property
    def rates(self) -> ThrottleRates:
        return parse_throttle_rates(self.throttle) if self.throttle else NO_THROTTLE


def moved(topic: str, to: dict[int, Replicas]) -> dict[TopicPartition, Replicas]:
    return {TopicPartition(topic, n): replicas for n, replicas in to.items()}


SPREAD = moved("even", {n: (1 + n % 6, 1 + (n + 3) % 6) for n in range(COUNT)})
PLANS = {
    "one receiver": Asked(
        moved("even", {n: (1 + n % 6, 6) for n in range(COUNT) if n % 6 not in (4, 5)})
    ),
    "one sender": Asked(moved("led", {n: (1, 3 + n % 4) for n in range(COUNT)})),
    "spread": Asked(SPREAD),
    "throttled": Asked(SPREAD, throttle="6MB"),
    "waves": Asked(SPREAD, {"mode": "wave", "partitions": 6}),
    "another factor": Asked(
        moved("even", {n: (1 + n % 6, 1 + (n + 1) % 6, 1 + (n + 3) % 6) for n in range(COUNT)})
    ),
}


class Sandbox:
    """A cluster that all verbs work on, and a state directory."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.state = folder, StateDir(folder / "state")
        self._clock = VirtualClock(leaping=True)
        monkeypatch.setenv("KTUI_STATE_DIR", str(self.state.path))
        monkeypatch.chdir(folder)
        monkeypatch.setattr("ktui.cli.snapshot.SystemClock", lambda: self._clock)
        monkeypatch.setattr("ktui.cli.context.cluster.SystemClock", lambda: self._clock)
        monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: self._named())

    def _named(self) -> NamedCluster:
        cluster = SimulatedCluster(spec(), self._clock)
        return NamedCluster(
            reader=cluster.reader,
            writer=cluster.writer,
            groups=cluster.memberships,
            context=Context(),
        )

    def words(self, asked: Asked) -> list[str]:
        """Return the options of a plan, whose file is written."""
        plan = plan_as_json(plan_of(asked.targets))
        (self.folder / "plan.json").write_text(plan, encoding="ascii")
        options = {**asked.limits, **({"throttle": asked.throttle} if asked.throttle else {})}
        changes = any(len(replicas) > 2 for replicas in asked.targets.values())
        allowed = ["--allow-replication-factor-change"] if changes else []
        return ["plan.json", *(f"--{name}={value}" for name, value in options.items()), *allowed]

    def answer(self, *words: str) -> Any:
        result = CliRunner().invoke(ktui, [*words, "--json"])
        assert result.exit_code == 0, (result.output, result.exception)
        return json.loads(result.stdout)

    def before(self, asked: Asked) -> dict[str, float | None]:
        """Return what is said before a start, by who says it."""
        words = self.words(asked)
        check = self.answer("plan", "check", *words)
        dry_run = self.answer("start", *words, "--dry-run")
        rehearsed = self.answer("rehearse", *words, "--measure", "0")
        (usual,) = (twin for twin in rehearsed["twins"] if twin["pace"] == "usual")
        return {
            "start screen": asyncio.run(self._start_screen_s(asked)),
            "check": check["how_long"]["time_s"]["middle"],
            "dry run": dry_run["how_long"]["time_s"]["middle"],
            "rehearsal": usual["summary"]["time_s"],
        }

    async def _start_screen_s(self, asked: Asked) -> float | None:
        reader = SimulatedCluster(spec(), self._clock).reader()
        engines = cast(
            "EngineLauncher",
            SimpleNamespace(facts=FactReader(reader=reader, state=self.state, clock=self._clock)),
        )
        chosen = await read_chosen_plan(PlanRequest(texts={"path": "plan.json"}), engines, TO_START)
        preview = await chosen.preview(Terms(limits=asked.in_force, throttle=asked.rates))
        return None if preview.how_long is None else preview.how_long.time_s.middle

    def run(self, name: str, asked: Asked) -> RanRun:
        """Carry a plan out as a run of the state directory."""
        folder = self.state.create_run(name)
        cluster = SimulatedCluster(spec(), self._clock)
        recordings = self.folder / "recordings" / name
        recordings.mkdir(parents=True)
        run = RecordedRun(cluster, folder.path, asked.targets, asked.in_force, throttle=asked.rates)
        run.name, run.recorder, run.asked = (
            name,
            Recorder(recordings, self._clock, program="test"),
            {},
        )
        run.prior = EarlierRuns(self.state, without=name)("prod-id")
        try:
            done = asyncio.run(run.to_its_end())
        finally:
            run.recorder.close()
        assert done.over == len(asked.targets)
        return RanRun(name, folder.journal, recordings, self)


class RanRun(NamedTuple):
    """A run that has ended."""

    name: str
    journal: Path
    recordings: Path
    sandbox: Sandbox

    @property
    def entries(self) -> list[JournalEntry]:
        with Journal.open(self.journal, VirtualClock(), read_only=True) as journal:
            return list(journal.entries())

    @property
    def took_s(self) -> float:
        steps = [each.at for each in self.entries if isinstance(each.event, StepBegun)]
        return (self.entries[-1].at - steps[0]) / timedelta(seconds=1)

    def status_s(self) -> float | None:
        """Return the time left that status has in the first second, with what was known then."""
        run = Run(self.name)
        estimate = Estimate(run, EarlierRuns(self.sandbox.state, without=self.name))
        began = next(each.at for each in self.entries if isinstance(each.event, StepBegun))
        for entry in self.entries:
            if entry.at <= began + timedelta(milliseconds=10):
                run.apply(entry)
                estimate.take([entry])
        estimate.update(began + timedelta(seconds=1))
        left_s = estimate.copied.left_s
        return None if left_s is None else 1 + left_s.middle

    def what_if_s(self, *others: RanRun) -> float:
        """Return the time of its own limits, by a model fitted on its recording and others."""
        sampled = Sampled()
        for each in (*others, self):
            sampled.add(StoredRun("prod", 1, each.name, each.recordings))
        model = fit(sampled._samples, ())
        assert model is not None
        run = playable_run(self.name, (each.event for each in self.entries))
        return simulate_cell(run.moves(), run.cell, model, own=True).predicted_s


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    return Sandbox(tmp_path, monkeypatch)


@pytest.mark.parametrize("kind", PLANS)
def test_everyone_says_the_same_time(kind: str, sandbox: Sandbox) -> None:
    asked = PLANS[kind]
    alike(sandbox.before(asked))

    earlier = sandbox.run("earlier", Asked(SPREAD, throttle=asked.throttle))
    known = sandbox.before(asked)
    run = sandbox.run("run", asked)
    alike({**known, "status": run.status_s(), "took": run.took_s})

    alike(sandbox.before(asked) | {"what-if": run.what_if_s(earlier), "took": run.took_s})


def alike(times: Mapping[str, float | None]) -> None:
    known = [each for each in times.values() if each is not None]
    assert len(known) == len(times), times
    assert max(known) <= ALIKE * min(known), {name: round(of or 0) for name, of in times.items()}
