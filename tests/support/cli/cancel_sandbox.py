"""A simulated cluster on which others move partitions, runs beside them, and `ktui cancel`."""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ktui.cli import cancel as command
from ktui.cli.context.config import Context
from ktui.cli.main import ktui
from ktui.cluster.ports import ClusterWriter
from ktui.execution.host.client import RunClient
from ktui.execution.host.ownership import CancelGateFile, own_run
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.commands import Answer, StoredCommand
from ktui.execution.journal.journal import Journal
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.layout import OutsideEvent, ScheduledEvent
from support.cli.call_ktui import NamedCluster
from support.runs.engine_runs import PlannedRun
from support.runs.stories import Story
from support.simulated.moving_clusters import Replicas, a_cluster, tp

_BEGUN_S = 3.0
"""Seconds that a live run has been going at the time of a cancel; a replica is copied in 10 s."""


class CancelSandbox:
    """Calls `ktui cancel --cluster` where others move orders and payments.

    Args:
        folder: the folder for the state directory.
        monkeypatch: replaces the cluster that the verb works on.
        more: as for `a_cluster`.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
        self.state = StateDir(folder / "state")
        topics = {"orders": [(1, 2, 3)] * 4, "payments": [(1, 2, 3)] * 2}
        self.cluster = a_cluster(topics, **{"messages": 10_000, **more})
        assert isinstance(self.cluster.clock, VirtualClock)
        self.clock = self.cluster.clock
        self.clock._leaping = True
        self.writer: Callable[[], ClusterWriter] = self.cluster.writer
        self.read_only = False
        self._live: list[PlannedRun] = []
        self._cancelled = command._cancelled
        monkeypatch.setattr(command, "SystemClock", lambda: self.clock)
        monkeypatch.setattr(command, "_cancelled", self._beside_runs)
        monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", self._chosen)

    def others_move(self, *names: str, target: Replicas = (4, 2, 3)) -> None:
        """Reassign partitions as somebody else would, a second ago."""
        self.cluster.do(layout.Alter(dict.fromkeys(map(tp, names), target)))
        self.clock.pass_time(1.0)

    def schedule(self, after_s: float, *happening: OutsideEvent) -> None:
        """Apply events to the cluster some seconds after the verb is called, if no run is live."""
        for act in happening:
            self.cluster.schedule(ScheduledEvent(self.cluster.now_s + after_s, act))

    def live(self, name: str, targets: Mapping[str, Replicas], **more: Any) -> PlannedRun:
        """Let an engine execute a run during the call of the verb."""
        run = self._run(name, targets, **more)
        self._live.append(run)
        return run

    def waiting(self, name: str, targets: Mapping[str, Replicas], **more: Any) -> PlannedRun:
        """Make a run with steps in flight that its engine has left."""
        run = self._run(name, targets, **more)

        async def begun() -> None:
            await run.start()
            async with self._carried_on(run):
                await self.clock.sleep(_BEGUN_S)

        asyncio.run(begun())
        return run

    def cancel(self, *words: str) -> Result:
        state = ("--state-dir", str(self.state.path))
        return CliRunner().invoke(ktui, ["cancel", "--cluster", *words, *state])

    @property
    def moving(self) -> set[str]:
        """The partitions whose reassignment the cluster lists."""
        self.cluster.catch_up()
        return {str(each) for each in self.cluster.controller.reassigning}

    @property
    def log(self) -> list[dict[str, Any]]:
        """The lines of the log of cancelled foreign reassignments."""
        path = self.state.path / "cancels.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def gate(self) -> CancelGateFile:
        return CancelGateFile(self.state, self.cluster.spec.name)

    def _run(
        self, name: str, targets: Mapping[str, Replicas], limits: Limits | None = None
    ) -> PlannedRun:
        folder = self.state.create_run(name).path
        to = {tp(each): target for each, target in targets.items()}
        return PlannedRun(self.cluster, folder, to, limits or Limits(replicas=1, partitions=2))

    def _chosen(self, *_: object) -> object:
        context = Context(read_only=self.read_only)
        return NamedCluster(
            reader=self.cluster.reader,
            writer=self.writer,
            context=context,
            groups=self.cluster.memberships,
        )

    async def _beside_runs(self, *arguments: Any, json: bool) -> int:
        async with AsyncExitStack() as stack:
            for run in self._live:
                await run.start()
                stack.enter_context(own_run(self.state.run(run.path.parent.name)))
                await stack.enter_async_context(self._carried_on(run))
            if self._live:
                await self.clock.sleep(_BEGUN_S)
            return await self._cancelled(*arguments, json=json)
        raise AssertionError

    @asynccontextmanager
    async def _carried_on(self, run: PlannedRun) -> Any:
        carrying = asyncio.create_task(run.execute())
        try:
            yield
        finally:
            assert run.engine is not None
            run.engine.leave("the test is over")
            await carrying


def parsed(result: Result, exit_code: int = 0) -> Any:
    """Parse the output of a call with --json."""
    assert result.exit_code == exit_code, (result.output, result.exception)
    return json.loads(result.stdout)


def rows(answer: Any, *keys: str) -> Iterable[tuple[Any, ...]]:
    """Return some figures of each partition, by name."""
    return [
        (f"{p['topic']}-{p['partition']}", *(p[key] for key in keys)) for p in answer["partitions"]
    ]


def lines(result: Result) -> list[str]:
    """Return the output line by line, with single blanks."""
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


Ways = Mapping[str, tuple[Replicas, Replicas]]

THREE = (1, 2, 3)
MOVED: Ways = {
    "orders-0": (THREE, (4, 5, 6)),
    "orders-1": (THREE, (4, 5, 6)),
    "audit-0": ((2, 3, 1), (5, 6, 4)),
}


class CancelledRun:
    """A run "drain" that was left at a second, its cluster, and the commands to it.

    A process that is started for the run executes it at once, to its end or `until_s`. Only then
    the verb goes on.

    Args:
        folder: the folder for the state directory.
        monkeypatch: replaces the cluster that the verb works on.
        ways: each partition's replicas at first, and its target.
        left_s: the second at which the run was left; a replica is copied in 10 s.
        limits: two partitions at once by default.
        more: as for `Story`.
    """

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        ways: Ways = MOVED,
        *,
        left_s: float = 5.0,
        limits: Limits | None = None,
        **more: Any,
    ) -> None:
        self.state = StateDir(folder / "state")
        self.run_dir: RunDir = self.state.create_run("drain")
        self.until_s = 1_000.0
        self.started: list[Sequence[str]] = []
        self.context = Context()
        in_force = limits or Limits(replicas=1, partitions=2)
        self.story = Story(self.run_dir.path, ways, in_force, **more)
        self.story.played(left_s)
        self.cluster = self.story.cluster
        self.reader = self.cluster.reader
        monkeypatch.setattr("ktui.cli.cancel.SystemClock", lambda: self.story.clock)
        monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", self._choose)
        monkeypatch.setattr("ktui.cli.process.start_engine", self._spawn)
        self._monkeypatch = monkeypatch

    def _choose(self, *_: object) -> NamedCluster:
        return NamedCluster(reader=self.reader, context=self.context)

    def _spawn(self, _run: RunDir, arguments: Sequence[str]) -> None:
        self.started.append(arguments)
        self.execute()

    def execute(self) -> None:
        self.story._began_s = self.story.clock.monotonic()
        self.story.resumed(self.until_s)

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Own the run as a live process, which executes it once an answer is waited for."""
        answer = RunClient._answer

        def answered(client: RunClient, journal: Journal, number: int) -> Answer:
            self.execute()
            return answer(client, journal, number)

        with own_run(self.run_dir), self._monkeypatch.context() as patch:
            patch.setattr(RunClient, "_answer", answered)
            yield

    def cancel(self, *words: str) -> Result:
        arguments = ["cancel", *words, "--state-dir", str(self.state.path)]
        return CliRunner().invoke(ktui, arguments)

    def json(self, *words: str) -> Any:
        result = self.cancel(*words, "--json")
        assert result.exit_code == 0, (result.output, result.exception)
        return json.loads(result.stdout)

    def refusal(self, *words: str) -> str:
        """Return the error of a wrong call, after which nothing was requested or begun."""
        asked = len(self.asked)
        error = self.cancel(*words).exception
        assert (len(self.asked), self.started) == (asked, [])
        assert self.gate.state() is None
        return str(error)

    @property
    def asked(self) -> list[StoredCommand]:
        return self.story.answers

    @property
    def run(self) -> Run:
        return self.story.folded

    @property
    def gate(self) -> CancelGateFile:
        return CancelGateFile(self.state, self.cluster.spec.name)

    def state_of(self, name: str) -> State:
        return self.story.state(name)

    def replicas(self, name: str) -> Replicas:
        return self.story.replicas(tp(name))
