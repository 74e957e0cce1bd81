"""The table of `ktui list`: an unknown figure is a question mark, never made up."""

from __future__ import annotations

import pytest

from ktui.cli.run.list import _print_table
from ktui.progress.fold import fold
from ktui.progress.timeline import Progress
from ktui.simulated import events
from ktui.simulated.cluster import SimulatedCluster
from support.simulated.moving_clusters import a_cluster, move, wait
from support.simulated.seen_polls import recorded


def table(capsys: pytest.CaptureFixture[str], cluster: SimulatedCluster) -> list[list[str]]:
    (observation,) = recorded(cluster)
    progress = fold(Progress(), observation)
    _print_table(observation, list(progress.timelines.values()), filtered=False)
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_a_partition_that_may_not_be_described_has_an_unknown_leader(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = a_cluster(moving=["orders-0"])
    cluster.do(events.Deny("describe_topics"))

    (_, row) = table(capsys, cluster)

    assert row[:6] == ["orders-0", "4,2,3,1", "4", "1", "?", "?"]


def test_a_partition_without_a_leader_has_leader_none(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = a_cluster({"orders": [(1,)]}, version="3.9")
    cluster.do(move("orders-0", 4))
    cluster.do(events.Shutdown(1))
    wait(cluster, 1.0)

    (_, row) = table(capsys, cluster)

    assert row[4:6] == ["1", "none"]


def test_a_target_that_is_down_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = a_cluster(moving=["orders-0"])
    cluster.do(events.Shutdown(4))
    wait(cluster, 1.0)

    (header, row) = table(capsys, cluster)

    assert header[-1] == "TROUBLE"
    assert " ".join(row).endswith("broker 4 is down")
