"""`ktui reassign --cancel` and `--verify` say what became of a plan, and what is not known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ktui.cli.reassign.command import command
from ktui.cluster.partition import Reassignment
from ktui.simulated import layout
from ktui.simulated.cluster import SimulatedCluster
from support.cli.named_cluster import NamedCluster
from support.simulated.moving_clusters import a_cluster, tp, wait


class Tool:
    """Calls `ktui reassign` on a simulated cluster, with a plan for orders-0."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, of: SimulatedCluster) -> None:
        self._folder = folder
        named = NamedCluster(reader=of.reader, writer=of.writer)
        monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)

    def call(self, action: str, *words: str, **more: list[str]) -> Result:
        rows = [{"topic": "orders", "partition": 0, "replicas": [4, 2, 3], **more}]
        plan = self._folder / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": rows}), encoding="utf-8")
        where = ["--bootstrap-server", "a:9092", "--state-dir", str(self._folder / "state")]
        file = ["--reassignment-json-file", str(plan)]
        return CliRunner().invoke(command, [action, *where, *file, *words])


def test_a_partition_that_was_over_before_its_cancel_is_not_called_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = a_cluster({"orders": [(4, 2, 3)]})
    tool = Tool(tmp_path, monkeypatch, cluster)
    listed = {tp("orders-0"): Reassignment((4, 2, 3, 1), (4,), (1,))}  # until a moment ago
    monkeypatch.setattr(
        "ktui.cli.reassign.cancel._read", lambda _choice: (cluster.spec.name, listed)
    )

    done = tool.call("--cancel")

    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "Error cancelling partition reassignment for:",
        "orders-0: No partition reassignment is in progress.",
    ]


def test_a_broker_that_is_down_is_named_since_it_may_keep_its_throttles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = a_cluster({"orders": [(4, 2, 3)]})
    cluster.do(layout.Kill(7))
    wait(cluster, 15.0)

    done = Tool(tmp_path, monkeypatch, cluster).call("--verify")

    assert done.exit_code == 0
    assert done.stderr == "throttles may stay on broker 7: it is down\n"


def test_a_broker_that_does_not_say_what_moves_between_its_log_dirs_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = a_cluster({"orders": [(4, 2, 3)]})
    cluster.do(layout.Kill(4))
    wait(cluster, 15.0)
    tool = Tool(tmp_path, monkeypatch, cluster)

    done = tool.call("--cancel", "--preserve-throttles", log_dirs=["/data-2", "any", "any"])

    assert done.exit_code == 1
    assert "None of the specified partition moves are active." not in done.stdout
    assert done.stderr.startswith("broker 4 did not say what moves between its log dirs: nothing")
