"""`ktui rehearse --context`: a plan on a twin of the cluster as it is now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ktui.cli.context.config import Context
from ktui.cli.context.errors import BadInput
from ktui.cli.main import ktui
from ktui.cluster.ports import ConfigChange, ConfigOp
from ktui.cluster.settings import CORDONED, EVERY, broker_resource
from ktui.insights.insights import encode
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import MIB, BrokerSpec, ClusterSpec, TopicSpec
from support.cli.named_cluster import NamedCluster
from support.pipeline.insights import insights

CLUSTER = ClusterSpec(
    name="prod-id",
    brokers=tuple(BrokerSpec(id=b) for b in range(1, 6)),
    topics=(
        TopicSpec(name="orders", replicas=((1, 2), (2, 3)), bytes_each=200 * MIB, inbound=1e6),
    ),
)
PLAN = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 4]}]}


class Rehearsing:
    """A cluster that is named on the command line, with a plan for it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.state = folder / "state"
        monkeypatch.setenv("KTUI_STATE_DIR", str(self.state))
        monkeypatch.chdir(folder)
        (folder / "plan.json").write_text(json.dumps(PLAN), encoding="utf-8")
        clock = VirtualClock(leaping=True)
        self.cluster = SimulatedCluster(CLUSTER, clock)
        monkeypatch.setattr("ktui.cli.twin.snapshot.SystemClock", lambda: clock)
        self.use(Context())

    def use(self, context: Context) -> None:
        named = NamedCluster(reader=self.cluster.reader, context=context)
        self._monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)

    def rehearse(self, *words: str) -> Result:
        return CliRunner().invoke(ktui, ["rehearse", "plan.json", *words])

    def answer(self, *words: str) -> Any:
        result = self.rehearse("--json", *words)
        assert result.exit_code == 0, (result.output, result.exception)
        return json.loads(result.stdout)


@pytest.fixture
def rehearsing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rehearsing:
    return Rehearsing(tmp_path, monkeypatch)


def test_a_plan_is_rehearsed_on_the_cluster_as_it_is_and_nothing_is_sent(
    rehearsing: Rehearsing,
) -> None:
    found = rehearsing.answer("--context", "prod-eu")

    assert (found["twin"], found["cluster_id"]) == ("prod-eu", "simulated-prod-id")
    assert found["rates"]["from"] == "assumed"
    assert [twin["summary"]["done"] for twin in found["twins"]] == [1, 1, 1]
    assert rehearsing.cluster.controller.topics["orders"].partitions[0].replicas == (1, 2)


def test_its_rates_are_those_of_recorded_runs(rehearsing: Rehearsing) -> None:
    rehearsing.state.mkdir()
    known = insights("prod-id")
    (rehearsing.state / "insights.json").write_bytes(encode(known))

    found = rehearsing.answer("--measure", "0")

    assert found["rates"]["from"] == "recorded"


def test_the_throttle_of_the_context_holds_as_for_a_start(rehearsing: Rehearsing) -> None:
    free = rehearsing.answer("--rate", "100MB/s")
    rehearsing.use(Context(throttle="5MB/s"))
    throttled = rehearsing.answer("--rate", "100MB/s")

    times = [found["twins"][0]["summary"]["time_s"] for found in (free, throttled)]
    assert times[1] > 2 * times[0]


def test_a_file_and_a_cluster_exclude_each_other(rehearsing: Rehearsing) -> None:
    for words in (("--context", "prod-eu"), ("--measure", "10s")):
        refused = rehearsing.rehearse("--on", "twin.yaml", *words)

        assert isinstance(refused.exception, BadInput)
        assert f"{words[0]}: with --on, nothing is read" in str(refused.exception)


def test_a_target_on_a_cordoned_broker_is_refused_by_the_twin_of_a_cluster_that_refuses_it(
    rehearsing: Rehearsing,
) -> None:
    cordon = ConfigChange(broker_resource(4), CORDONED, ConfigOp.SET, EVERY)
    rehearsing.cluster.configure([cordon])

    result = rehearsing.rehearse("--measure", "0")

    assert result.exit_code == 2
    assert "problem: broker 4 is cordoned, and Kafka refuses every target that" in result.stderr
