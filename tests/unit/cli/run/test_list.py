"""The table of `ktui list`: an unknown figure is a question mark, never made up."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from ktui.cli.context.errors import BadInput
from ktui.cli.main import ktui
from ktui.cli.run.list import _print_table
from ktui.progress.fold import fold
from ktui.progress.timeline import Progress
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import TopicSpec
from support.cli.named_cluster import NamedCluster
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
    cluster.do(layout.Deny("describe_topics"))

    (_, row) = table(capsys, cluster)

    assert row[:6] == ["orders-0", "4,2,3,1", "4", "1", "?", "?"]


def test_a_partition_without_a_leader_has_leader_none(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = a_cluster({"orders": [(1,)]}, version="3.9")
    cluster.do(move("orders-0", 4))
    cluster.do(layout.Shutdown(1))
    wait(cluster, 1.0)

    (_, row) = table(capsys, cluster)

    assert row[4:6] == ["1", "none"]


def test_a_target_that_is_down_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = a_cluster(moving=["orders-0"])
    cluster.do(layout.Shutdown(4))
    wait(cluster, 1.0)

    (header, row) = table(capsys, cluster)

    assert header[-1] == "TROUBLE"
    assert " ".join(row).endswith("broker 4 is down")


def name_cluster(monkeypatch: pytest.MonkeyPatch, cluster: SimulatedCluster) -> None:
    named = NamedCluster(reader=cluster.reader, writer=cluster.writer, groups=cluster.memberships)
    monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)
    monkeypatch.setattr("ktui.cli.run.list.SystemClock", lambda: cluster.clock)


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (("--topic", "ordres"), "topic 'ordres' (did you mean 'orders'?)"),
        (("--partition", "ordres:0"), "topic 'ordres' (did you mean 'orders'?)"),
        (("--partition", "orders:9"), "partition 9 of topic 'orders'"),
        (("--topic", "orders", "--topic", "zzz", "--json"), "topic 'zzz'"),
    ],
)
def test_what_the_cluster_does_not_have_is_named_and_does_not_read_as_if_all_is_well(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], missing: str
) -> None:
    name_cluster(monkeypatch, a_cluster({"orders": [(1, 2, 3)]}))

    refused = CliRunner().invoke(ktui, ["list", *words])

    assert isinstance(refused.exception, BadInput)
    assert str(refused.exception) == f"the cluster does not have {missing}"
    found = CliRunner().invoke(ktui, ["list", "--topic", "orders"])
    assert found.stdout == "Nothing of what you asked for is being reassigned.\n"


@pytest.mark.parametrize("denied", ["", "describe_quorum"])
@pytest.mark.parametrize("words", [("--topic", "new"), ("--partition", "new:0")])
def test_a_topic_that_brokers_have_yet_to_learn_of_is_asked_for_again_and_not_called_missing(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], denied: str
) -> None:
    cluster = SimulatedCluster(a_cluster().spec, VirtualClock(leaping=True))
    cluster.do(layout.CreateTopic(TopicSpec(name="new", replicas=((1, 2, 3),))))
    cluster.do(layout.Deny(denied))  # without it a cluster does not prove how old metadata is
    name_cluster(monkeypatch, cluster)

    found = CliRunner().invoke(ktui, ["list", *words], catch_exceptions=False)

    assert found.stdout == "Nothing of what you asked for is being reassigned.\n"
