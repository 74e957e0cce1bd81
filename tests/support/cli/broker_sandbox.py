"""A simulated cluster, a state directory with runs, and `ktui broker` on them."""

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ktui.cli.context.config import Context
from ktui.cli.main import ktui
from ktui.cluster.group_claim import GroupClaim
from ktui.cluster.ownership import ClusterOwner
from ktui.cluster.ports import ClusterReader, ClusterWriter, ConfigChange, ConfigOp
from ktui.cluster.settings import CORDONED, broker_resource
from ktui.execution.broker.removal import Removal, RemovalFile
from ktui.execution.host.ownership import own_run
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.run.events import AnyRunEvent
from ktui.pacing.limits import Limits
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import MIB, BrokerSpec, ClusterSpec, TopicSpec
from support.cli.call_ktui import NamedCluster
from support.journals.journals import planned, started, written
from support.runs.engine_runs import PlannedRun
from support.runs.witnessed import Reaper

Replicas = tuple[int, ...]
ORDERS = ((1, 2, 3), (1, 2, 3), (3, 1, 2), (1, 2, 4))


class BrokerSandbox:
    """Five brokers; "orders" has three replicas on broker 3, and "audit" one, which it leads."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state = StateDir(folder / "state")
        self.context = Context()
        self._monkeypatch = monkeypatch
        self.reader: Callable[[], ClusterReader]
        self.cluster()
        monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", self._chosen)

    def cluster(self, *, log_dirs: int = 1, relative: bool = False, **more: Any) -> None:
        """Use another cluster: its log dirs, and further fields of its specification."""
        brokers = tuple(
            BrokerSpec(
                id=b, net_in=10.0 * MIB, log_dirs=log_dirs, relative_log_dirs=relative, rack=f"r{b}"
            )
            for b in range(1, 6)
        )
        topics = (
            TopicSpec(name="orders", replicas=ORDERS, bytes_each=100 * MIB),
            TopicSpec(name="audit", replicas=((3,),), bytes_each=MIB),
        )
        values: dict[str, Any] = {"topics": topics, "auto_leader_rebalance": False, **more}
        clock = VirtualClock(leaping=True)
        self.simulated = SimulatedCluster(ClusterSpec(brokers=brokers, **values), clock)
        self.reader = self.simulated.reader
        self._monkeypatch.setattr("ktui.cli.broker.status.SystemClock", lambda: clock)
        self.wait(1.0)

    def _chosen(self, *_: object) -> NamedCluster:
        return NamedCluster(
            reader=self.reader,
            writer=self.writer,
            groups=self.simulated.memberships,
            context=self.context,
        )

    def writer(self) -> Any:
        return self.simulated.writer()

    def wait(self, seconds: float) -> None:
        clock = self.simulated.clock
        assert isinstance(clock, VirtualClock)
        clock.pass_time(seconds)
        self.simulated.catch_up()

    def do(self, act: layout.OutsideEvent) -> None:
        """Let something happen, and brokers learn of it."""
        self.simulated.do(act)
        self.wait(1.0)

    def cordon(self, broker: int, value: str) -> None:
        change = ConfigChange(broker_resource(broker), CORDONED, ConfigOp.SET, value)
        self.do(layout.AlterConfigs((change,)))

    def a_run(self, partitions: int, *more: AnyRunEvent) -> RunDir:
        """Make a run "drain" without an engine; it moves partitions of orders from 3 to 4."""
        run = self.state.create_run("drain")
        begun: list[AnyRunEvent] = [
            started(partitions, self.simulated.spec.name),
            planned(partitions),
        ]
        written(run.journal, [*begun, *more]).close()
        return run

    def own_by_another(self) -> None:
        cluster = self.simulated
        other = ClusterOwner(
            state_dir="another", user="eve", host="ops2", run="drain", since=cluster.clock.now()
        )
        claim = GroupClaim(cluster.memberships(), cluster.spec.name, other, cluster.clock)

        async def taken() -> None:
            await claim.claim(take_over=False)
            await claim.aclose()

        asyncio.run(taken())

    def call(self, verb: str, *words: str, typing: str | None = None) -> Result:
        arguments = ["broker", verb, *words, "--state-dir", str(self.state.path)]
        return CliRunner().invoke(ktui, arguments, input=typing)

    def json(self, *words: str) -> Any:
        result = self.call("status", *words, "--json")
        assert result.exit_code == 0, (result.output, result.exception)
        return json.loads(result.stdout)

    def lines(self, verb: str, *words: str) -> list[str]:
        """Return what a call prints, with single blanks."""
        result = self.call(verb, *words)
        assert result.exit_code == 0, (result.output, result.exception)
        return [" ".join(line.split()) for line in result.stdout.splitlines()]

    def refusal(self, verb: str, *words: str) -> str:
        """Return the error of a call that must not have left a change."""
        before = self.settings
        result = self.call(verb, *words)
        assert result.exception is not None, result.output
        assert not isinstance(result.exception, SystemExit), result.output
        assert self.settings == before
        return str(result.exception)

    @property
    def settings(self) -> dict[str, str]:
        """The cordons that are set dynamically, by broker."""
        of = self.simulated.controller.configs.of
        values = {str(b): of(broker_resource(b)).get(CORDONED) for b in range(1, 6)}
        return {broker: value for broker, value in values.items() if value is not None}

    @property
    def layout(self) -> dict[str, tuple[Replicas, int | None]]:
        """The replicas in order and the leader of each partition, as the controller has them."""
        topics = self.simulated.controller.topics
        return {
            f"{name}-{n}": (each.replicas, each.leader)
            for name, topic in topics.items()
            for n, each in enumerate(topic.partitions)
        }

    @property
    def environment(self) -> dict[str, str]:
        return {"KTUI_STATE_DIR": str(self.state.path)}

    @property
    def fixed(self) -> dict[str, str]:
        return {str(self.state.path): "STATE"}

    @property
    def condition(self) -> dict[str, str]:
        """Cordons, registrations, runs and partitions."""
        partitions = {
            name: f"{','.join(map(str, replicas))}, led by {leader}"
            for name, (replicas, leader) in self.layout.items()
        }
        return {
            "cordons": ", ".join(f"{value} on {b}" for b, value in self.settings.items()) or "none",
            "registered": str(sorted(self.simulated.controller.registered)),
            "runs": " ".join(run.name for run in self.state.run_dirs()),
            **partitions,
        }

    def added(self, count: int) -> Sequence[tuple[int, ...]]:
        """Let somebody add partitions to orders, placed by Kafka; return the new ones."""
        known = len(self.simulated.controller.topics["orders"].partitions)
        self.simulated.controller.create_partitions("orders", known + count, None)
        partitions = self.simulated.controller.topics["orders"].partitions
        return [each.replicas for each in partitions[known:]]


_CLOCKED = (
    "ktui.cli.broker.remove",
    "ktui.cli.broker.runs",
    "ktui.cli.context.cluster",
    "ktui.cli.process",
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
        self.engines: list[str] = []  # the runs for which an engine was started, in order
        self.meanwhile: Callable[[str], None] = lambda _run: None
        """Called with each run before its engine begins."""
        self.until_s = 10_000.0  # seconds after which an engine is left, if its run has not ended
        super().__init__(folder, monkeypatch)
        monkeypatch.setattr("ktui.cli.process.start_engine", self._engine)
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
        return self.file().load()

    def file(self) -> RemovalFile:
        return RemovalFile(self.state, self.simulated.spec.name, 3)

    def on_broker(self) -> list[str]:
        """Return the partitions with a replica on broker 3."""
        return [name for name, (replicas, _) in self.layout.items() if 3 in replicas]
