"""Plan files, a cluster with its context, and `ktui start` on them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ktui.cli.context.config import Context
from ktui.cli.context.errors import BadInput
from ktui.cli.main import ktui
from ktui.execution.errors import RunRefused
from ktui.execution.host.state_dir import StateDir
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from support.cli.named_cluster import NamedCluster
from support.cli.plan_sandbox import PlanSandbox
from support.simulated.moving_clusters import Replicas, a_cluster


class StartSandbox:
    """A plan_sandbox with plans, a state directory, and a cluster with its context."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, plan_sandbox: PlanSandbox
    ) -> None:
        self.state = StateDir(folder / "state")
        self.plan_sandbox = plan_sandbox
        self._monkeypatch = monkeypatch
        self.cluster(a_cluster({"orders": [(1, 2, 3), (1, 2, 3)]}))

    def cluster(
        self,
        cluster: SimulatedCluster,
        *,
        unverified: tuple[str, ...] = (),
        not_granted: Collection[tuple[str, str]] = (),
        canary_refusal: str = "",
        **context: Any,
    ) -> None:
        """Use this cluster as the one that is named; its clock leaps while the verb waits."""
        assert isinstance(cluster.clock, VirtualClock)
        cluster.clock._leaping = True
        module = "ktui.cli.output.cluster_facts"
        self._monkeypatch.setattr(f"{module}.SystemClock", lambda: cluster.clock)
        named = NamedCluster(
            reader=cluster.reader,
            writer=cluster.writer,
            groups=cluster.memberships,
            context=Context(**context),
            unverified=unverified,
            not_granted=frozenset(not_granted),
            canary_refusal=canary_refusal,
        )
        self._monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)
        self.cluster_id = cluster.spec.name

    def start(self, *arguments: str) -> Result:
        """Call `ktui start` where no engine may be started."""
        words = ["start", *arguments, "--state-dir", str(self.state.path)]
        return CliRunner().invoke(ktui, words, catch_exceptions=True)

    def refusal(self, *arguments: str) -> str:
        error = self.start(*arguments).exception
        assert isinstance(error, BadInput | RunRefused), error
        return str(error)

    def plan(self, **targets: Replicas) -> str:
        return self.plan_sandbox.plan(**(targets or {"orders_0": (4, 2, 3)}))

    @property
    def runs(self) -> list[str]:
        return [run.name for run in self.state.run_dirs()]
