"""Plan files to check, and the simulated cluster to check them on."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ktui.cli.main import ktui
from ktui.planning.plan import PartitionTarget, Plan, plan_as_json
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from support.cli.named_cluster import NamedCluster
from support.simulated.moving_clusters import Replicas

CLUSTER = "prod-eu"


def check(*arguments: str, read: bytes | None = None) -> Result:
    """Run `ktui plan check`; `read` is the standard input."""
    return CliRunner().invoke(ktui, ["plan", "check", *arguments], input=read)


def answer(result: Result, exit_code: int = 0) -> Any:
    """Parse the JSON that was printed."""
    assert result.exit_code == exit_code, result.output
    assert result.stderr == ""
    return json.loads(result.stdout)


def found(preview: Any, severity: str) -> list[Any]:
    """Return the findings of one severity in the JSON of a preview."""
    return [each for each in preview["findings"] if each["severity"] == severity]


class PlanSandbox:
    """A folder for plans, and a cluster to check them on."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._monkeypatch = monkeypatch

    def cluster(
        self, cluster: SimulatedCluster, not_granted: Collection[tuple[str, str]] = ()
    ) -> None:
        """Use this cluster as the one that is named on the command line.

        A second passes first, in which changes to the cluster are applied. Then its clock leaps:
        nobody advances it while brokers have yet to learn something.
        """
        assert isinstance(cluster.clock, VirtualClock)
        cluster.clock.pass_time(1.0)
        cluster.clock._leaping = True
        named = NamedCluster(
            name=CLUSTER, reader=cluster.reader, not_granted=frozenset(not_granted)
        )
        self._monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)

    def plan(self, **targets: Replicas) -> str:
        """Write a plan: `orders_0=(1, 2, 3)` is one partition, each on a line of its own."""
        named = ((*name.rpartition("_"), replicas) for name, replicas in targets.items())
        partitions = (PartitionTarget(topic, int(n), replicas) for topic, _, n, replicas in named)
        path = self._folder / "plan.json"
        path.write_text(plan_as_json(Plan(tuple(partitions))), encoding="ascii")
        return str(path)
