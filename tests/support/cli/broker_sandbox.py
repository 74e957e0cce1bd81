"""A simulated cluster, a state directory with runs, and `ktui broker` on them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ktui.cli.context.config import Context
from ktui.cli.main import ktui
from ktui.cluster.group_claim import GroupClaim
from ktui.cluster.ownership import ClusterOwner
from ktui.cluster.ports import ClusterReader, ConfigChange, ConfigOp
from ktui.cluster.settings import CORDONED, broker_resource
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.run.events import AnyRunEvent
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import MIB, BrokerSpec, ClusterSpec, TopicSpec
from support.cli.named_cluster import NamedCluster
from support.journals.journals import planned, started, written

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
        self._monkeypatch.setattr("ktui.cli.broker.cordon.SystemClock", lambda: clock)
        self.wait(1.0)

    def _chosen(self, *_: object) -> NamedCluster:
        return NamedCluster(
            reader=self.reader,
            writer=self.writer,
            groups=self.simulated.memberships,
            context=self.context,
        )

    def writer(self) -> Any:
        """Return a writer of the cluster."""
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
        """Let somebody else cordon a broker."""
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
        """Let another state directory own the cluster."""
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
        """Return the status as JSON."""
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

    def added(self, count: int) -> Sequence[tuple[int, ...]]:
        """Let somebody add partitions to orders, placed by Kafka; return the new ones."""
        known = len(self.simulated.controller.topics["orders"].partitions)
        self.simulated.controller.create_partitions("orders", known + count, None)
        partitions = self.simulated.controller.topics["orders"].partitions
        return [each.replicas for each in partitions[known:]]
