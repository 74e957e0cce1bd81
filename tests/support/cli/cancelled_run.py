"""A run on a simulated cluster, left in the middle, and `ktui cancel` on it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ktui.cli.context.config import Context
from ktui.cli.main import ktui
from ktui.execution.host.client import RunClient
from ktui.execution.host.ownership import CancelGateFile, own_run
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.commands import Answer, StoredCommand
from ktui.execution.journal.journal import Journal
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits
from support.cli.named_cluster import NamedCluster
from support.runs.engine_runs import Replicas
from support.runs.stories import Story
from support.simulated.moving_clusters import tp

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
        monkeypatch.setattr("ktui.cli.cancel.command.SystemClock", lambda: self.story.clock)
        monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", self._choose)
        monkeypatch.setattr("ktui.cli.process.launch.start_engine", self._spawn)
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
