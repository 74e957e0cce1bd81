"""Five simulated brokers, `ktui broker remove` on them, and engines that run in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import Result

from ktui.cluster.ports import ClusterWriter
from ktui.execution.broker.removal import Removal, RemovalFile
from ktui.execution.host.ownership import own_run
from ktui.execution.host.state_dir import RunDir
from ktui.pacing.limits import Limits
from ktui.simulated import layout
from support.cli.broker_sandbox import BrokerSandbox
from support.runs.engine_runs import PlannedRun
from support.runs.killed import Reaper

Replicas = tuple[int, ...]
_CLOCKED = (
    "ktui.cli.broker.remove",
    "ktui.cli.broker.runs",
    "ktui.cli.context.cluster",
    "ktui.cli.process.launch",
)
"""Modules that take the time from the machine's clock."""


class EndedEngine:
    """An engine process that has ended by the time that its start returns."""

    gone, killed, pid = True, False, 1
    last_words = "it has ended"

    def __init__(self, run: RunDir) -> None:
        self.run = run

    def leave(self) -> None:
        pass

    def wait(self, _seconds: float) -> bool:
        return True


class MortalWriter:
    """A writer whose user dies before a call, or after it has taken effect."""

    def __init__(self, writer: ClusterWriter, reaper: Reaper) -> None:
        self._writer, self._reaper = writer, reaper

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._writer, name)
        if name == "aclose":
            return call

        async def mortal(*arguments: Any, **more: Any) -> Any:
            self._reaper.passes(f"before {name}")
            answer = await call(*arguments, **more)
            self._reaper.passes(f"after {name}")
            return answer

        return mortal


class RemovalSandbox(BrokerSandbox):
    """A cluster from which broker 3 is removed; nobody is there to be asked.

    Args:
        folder: the folder for the state directory.
        monkeypatch: replaces the cluster, the clock and the engines of the verbs.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reaper = Reaper()
        self.engines: list[str] = []
        """The runs for which an engine was started, in order."""
        self.meanwhile: Callable[[str], None] = lambda _run: None
        """Called with each run before its engine begins."""
        self.until_s = 10_000.0
        """Seconds after which an engine is left, if its run has not ended."""
        super().__init__(folder, monkeypatch)
        monkeypatch.setattr("ktui.cli.process.launch.start_engine", self._engine)
        save = RemovalFile.save

        def mortal_save(file: RemovalFile, removal: Removal) -> None:
            self.reaper.passes("before noting")
            save(file, removal)
            self.reaper.passes("after noting")

        monkeypatch.setattr(RemovalFile, "save", mortal_save)

    def cluster(self, **more: Any) -> None:
        """Use another cluster, whose clock every verb goes by; one of Kafka 4.3 by default."""
        super().cluster(**{"version": "4.3", **more})
        clock = self.simulated.clock
        for module in _CLOCKED:
            self._monkeypatch.setattr(f"{module}.SystemClock", lambda: clock)
        self.waits(self.wait)

    def waits(self, sleep: Callable[[float], None]) -> None:
        """Let a removal that waits some seconds wait this way."""
        time = SimpleNamespace(monotonic=self.simulated.clock.monotonic, sleep=sleep)
        self._monkeypatch.setattr("ktui.ops.broker.removal.time", time)

    def writer(self) -> Any:
        return MortalWriter(self.simulated.writer(), self.reaper)

    def finish(self, run: RunDir) -> None:
        """Carry a run to its end, as an engine that another process has started."""
        executed = PlannedRun(self.simulated, run.path, {}, Limits())
        executed.writer = self.writer()
        asyncio.run(executed.execute())

    def _engine(self, run: RunDir, _arguments: Sequence[str]) -> EndedEngine:
        self.reaper.passes("before an engine")
        self.engines.append(run.name)
        self.meanwhile(run.name)
        executed = PlannedRun(self.simulated, run.path, {}, Limits())
        executed.writer = self.writer()
        with own_run(run):
            asyncio.run(self._executed(executed))
        self.reaper.passes("after an engine")
        return EndedEngine(run)

    async def _executed(self, run: PlannedRun) -> None:
        going = asyncio.create_task(run.execute())
        leaving = asyncio.create_task(self._leave(run))
        try:
            await going
        finally:
            leaving.cancel()

    async def _leave(self, run: PlannedRun) -> None:
        await self.simulated.clock.sleep(self.until_s)
        assert run.engine is not None
        run.engine.leave("the test leaves it")

    def remove(self, *words: str, typing: str | None = None) -> Result:
        return self.call("remove", "3", *words, typing=typing)

    def stop(self) -> None:
        """Stop broker 3, and let its session end."""
        self.do(layout.Kill(3))
        self.wait(30.0)

    def note(self) -> Removal | None:
        """Return what the removal remembers."""
        return self.file().load()

    def file(self) -> RemovalFile:
        return RemovalFile(self.state, self.simulated.spec.name, 3)

    @property
    def layout(self) -> dict[str, tuple[Replicas, int | None]]:
        """The replicas in order and the leader of each partition, as the controller has them."""
        topics = self.simulated.controller.topics
        return {
            f"{name}-{n}": (each.replicas, each.leader)
            for name, topic in topics.items()
            for n, each in enumerate(topic.partitions)
        }

    def on_broker(self) -> list[str]:
        """Return the partitions with a replica on broker 3."""
        return [name for name, (replicas, _) in self.layout.items() if 3 in replicas]
