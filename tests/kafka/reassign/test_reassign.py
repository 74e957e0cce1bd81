"""`ktui reassign` on a real cluster does what Apache's tool did, but for named differences."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigOp, ConfigScope
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS
from ktui.execution.run.events import Answered, Ended, Owned, Started, StepBegun
from ktui.kafka.connection.connection import Connection
from ktui.lab.layout import Lab
from ktui.lab.nodes import wait_for
from ktui.pacing.limits import Shape
from support.cli.shell import LIMIT_S, Done, Shell, ended
from support.contract.world import RealWorld, setting
from support.kafka.real_runs import MESSAGE_BYTES, changed, others_set
from support.kafka.slow_topic import filled_topic
from support.reassign_tool.compare import assert_as_recorded
from support.reassign_tool.flows import FLOWS, Flow, Where
from support.reassign_tool.ktui_flows import play_with_ktui
from support.reassign_tool.recording import load

MIB = 1024 * 1024
Replicas = Sequence[int]
SCRIPT = """
set -eu
tool() { "$PYTHON" -m ktui reassign --bootstrap-server "$1" "${@:2}"; }
echo "{\\"topics\\": [{\\"topic\\": \\"$2\\"}], \\"version\\": 1}" > topics.json
tool "$1" --generate --topics-to-move-json-file topics.json --broker-list 4,5 > generated
sed -n '/^Proposed/{n;p}' generated > move.json
tool "$1" --execute --reassignment-json-file move.json --throttle 20000000
while true; do
  tool "$1" --verify --reassignment-json-file move.json > verified
  if ! grep -q 'still in progress' verified; then break; fi
  sleep 0.5
done
cat verified
"""
"""A script as operators have them for kafka-reassign-partitions.sh."""
WARNING = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the "
    "throttle is removed."
)


class Tool:
    """Calls `ktui reassign` on a lab, with plans for one topic."""

    def __init__(self, shell: Shell, topic: str) -> None:
        self._shell = shell
        self.topic = topic

    def call(self, action: str, targets: Mapping[int, Replicas], *words: str) -> Done:
        return ended(self.begin(action, targets, *words))

    def begin(
        self, action: str, targets: Mapping[int, Replicas], *words: str
    ) -> subprocess.Popen[str]:
        plan = self._plan(targets)
        server = self._shell.environment["KTUI_BOOTSTRAP_SERVER"]
        file = ("--reassignment-json-file", plan) if targets else ()
        where = () if "--bootstrap-controller" in words else ("--bootstrap-server", server)
        return self._shell.begin("reassign", *where, f"--{action}", *file, *words)

    def done(self, action: str, targets: Mapping[int, Replicas], *words: str) -> list[str]:
        """Call an action that succeeds, and return its lines, with the topic as T."""
        done = self.call(action, targets, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.replace(self.topic, "T").splitlines()

    def progress(self, targets: Mapping[int, Replicas]) -> Any:
        """Return the output of `ktui progress --json` for a plan."""
        done = self._shell.ktui("progress", self._plan(targets), "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def outcomes(self, targets: Mapping[int, Replicas]) -> list[str]:
        """Return the outcome of each partition of a plan that is not complete."""
        done = self._shell.ktui("verify", self._plan(targets), "--json")
        assert done.returncode == 3, done.stderr
        return [row["outcome"] for row in json.loads(done.stdout)["partitions"]]

    def _plan(self, targets: Mapping[int, Replicas]) -> str:
        rows = [
            {"topic": self.topic, "partition": n, "replicas": list(to)} for n, to in targets.items()
        ]
        return self._shell.plan("plan", rows)

    @property
    def runs(self) -> list[str]:
        return [folder.name for folder in self._shell.state.run_dirs()]


@pytest.fixture
def tool(lab: Lab, shell: Shell, topic_name: str) -> Iterator[Tool]:
    """The tool, and a topic of four partitions with data on brokers 1 to 3."""
    connection = Connection.to(lab.bootstrap_servers)
    replicas = [[1, 2], [2, 3], [3, 1], [1, 3]]
    with filled_topic(connection, topic_name, replicas, bytes_each=4 * MIB):
        yield Tool(shell, topic_name)
        shell.close()


async def test_a_script_for_kafkas_tool_runs_unchanged(
    lab: Lab, shell: Shell, tool: Tool, world: RealWorld, tmp_path: Path
) -> None:
    before = await others_set(world)
    done = await asyncio.to_thread(
        subprocess.run,
        ["bash", "-c", SCRIPT, "script", lab.bootstrap_servers, tool.topic],
        env=shell.environment | {"PYTHON": sys.executable},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.replace(tool.topic, "T").splitlines()
    assert lines[0] == "Current partition replica assignment"
    assert lines[4:7] == [
        "Save this to use as the --reassignment-json-file option during rollback",
        WARNING,
        "The inter-broker throttle limit was set to 20000000 B/s",
    ]
    assert lines[7] == "Successfully started partition reassignments for T-0,T-1,T-2,T-3"
    assert lines[8] == "Status of partition reassignment:"
    assert lines[9:13] == [f"Reassignment of partition T-{n} is completed." for n in range(4)]
    rows = json.loads(lines[2])["partitions"]
    assert [row["replicas"] for row in rows] == [[1, 2], [2, 3], [3, 1], [1, 3]]
    assert not changed(world.connection, before)


async def test_a_moving_partition_is_sent_elsewhere_at_another_rate_then_cancelled(
    tool: Tool, world: RealWorld
) -> None:
    before = await others_set(
        world,
        setting(ConfigScope.TOPIC, tool.topic, FOLLOWER_REPLICAS, ConfigOp.SET, "7:9"),
        setting(ConfigScope.BROKER, "4", FOLLOWER_RATE, ConfigOp.SET, "70000000"),
    )
    tool.done("execute", {0: (4, 2), 1: (4, 3)}, "--throttle", "100000")
    refused = tool.call("execute", {0: (5, 2)}, "--throttle", "200000")
    again = tool.done("execute", {0: (5, 2)}, "--throttle", "200000", "--additional")
    listed = tool.done("list", {})
    (behind,) = (row for row in tool.progress({0: (5, 2)})["replicas"] if row["broker"] == 5)
    verified = tool.done("verify", {0: (5, 2), 1: (4, 3)})
    cancelled = tool.done("cancel", {0: (5, 2), 1: (4, 3)})
    outcomes = tool.outcomes({0: (5, 2), 1: (4, 3), 2: (3, 1), 3: (3, 1), 9: (1, 2)})

    assert outcomes == ["cancelled", "cancelled", "completed", "different", "absent"]
    assert refused.returncode == 1
    assert refused.stdout.startswith("Cannot execute because there is an existing")
    assert json.loads(again[2])["partitions"][0]["replicas"] == [1, 2]
    assert listed == [
        "Current partition reassignments:",
        "T-0: replicas: 5,2,1. adding: 5. removing: 1.",
        "T-1: replicas: 4,3,2. adding: 4. removing: 2.",
    ]
    assert behind["status"] == "Behind"
    assert 0 < behind["messages"] <= 4 * MIB // MESSAGE_BYTES
    assert verified[1:] == [
        "Reassignment of partition T-0 is still in progress.",
        "Reassignment of partition T-1 is still in progress.",
        "",
    ]
    assert cancelled[0] == "Successfully cancelled partition reassignments for: T-0,T-1"
    assert "Clearing topic-level throttles on topic T" in cancelled
    assert len(tool.runs) == 1
    assert not changed(world.connection, before)


def test_batches_begin_in_the_order_of_topics_and_partitions_and_the_last_is_not_awaited(
    tool: Tool, shell: Shell
) -> None:
    targets = {2: (3, 4), 0: (4, 2), 1: (2, 4)}
    words = ("--reassignment-batch-size", "2", "--reassignment-poll-interval-ms", "200")

    lines = tool.done("execute", targets, *words)

    assert lines[-1] == "Successfully started partition reassignments for T-0,T-1,T-2"
    (run,) = tool.runs
    begun = [(step.batch, step.partition) for step in shell.events(run, StepBegun)]
    assert begun == [(1, 0), (1, 1), (2, 2)]
    assert shell.unowned(run)


def test_what_a_killed_call_had_not_begun_is_begun_by_no_other(tool: Tool, shell: Shell) -> None:
    slow = ("--throttle", "100000", "--reassignment-batch-size", "1")
    process = tool.begin("execute", {0: (4, 2), 1: (4, 3), 2: (4, 1)}, *slow)
    assert wait_for(lambda: bool(tool.runs), seconds=LIMIT_S)
    (run,) = tool.runs
    shell.wait_for(run, Answered)
    os.kill(shell.owner(run).pid, signal.SIGKILL)
    killed = ended(process)

    tool.done("execute", {3: (4, 3)}, "--additional")

    assert killed.returncode == 1
    assert "has died" in killed.stderr
    assert [step.partition for step in shell.events(run, StepBegun)] == [0, 3]
    tool.done("cancel", {0: (4, 2), 3: (4, 3)})
    assert tool.outcomes({0: (4, 2), 1: (4, 3), 2: (4, 1)}) == ["cancelled"] * 3


def test_as_a_run_the_same_file_is_paced_and_followed_to_its_end(tool: Tool, shell: Shell) -> None:
    tool.done("execute", {0: (4, 2), 1: (4, 3)}, "--as-run", "--reassignment-batch-size", "1")

    (run,) = tool.runs
    assert shell.events(run, Started)[0].limits.shape is Shape.GENTLE
    steps = [step.partition for step in shell.events(run, StepBegun)]
    assert steps in ([0, 0, 1, 1], [1, 1, 0, 0])
    assert shell.events(run, Ended)
    assert tool.done("verify", {0: (4, 2), 1: (4, 3)})[1:3] == [
        f"Reassignment of partition T-{n} is completed." for n in (0, 1)
    ]


def test_a_partition_of_a_live_run_and_a_shut_gate_refuse_with_the_reason_beside_the_output(
    tool: Tool, shell: Shell
) -> None:
    rows = [{"topic": tool.topic, "partition": 0, "replicas": [4, 2]}]
    shell.begin("start", shell.plan("live", rows), "--throttle", "50kB", "--headless")
    shell.wait_for("live", Owned)
    shell.wait_for("live", StepBegun)

    live = tool.call("execute", {0: (5, 2)}, "--additional")
    shell.ktui("cancel", "--cluster", "--stop", "--all")
    gate = tool.call("execute", {1: (5, 2)}, "--additional")
    opened = tool.done("remove-cancel", {})
    tp = TopicPartition(tool.topic, 0)

    for refused in (live, gate):
        assert refused.returncode == 1
        assert refused.stdout.startswith("Current partition replica assignment")
    assert live.stderr.startswith("run live, owned by")
    assert f"moves {tp}" in live.stderr
    assert "the cancel gate of cluster" in gate.stderr
    assert opened[0].startswith("Opened: the cancel gate of cluster")


def test_controllers_list_and_cancel_and_leave_the_throttle_for_verify(
    lab: Lab, tool: Tool
) -> None:
    controller = ("--bootstrap-controller", f"127.0.0.1:{lab.controller.port}")
    tool.done("execute", {0: (4, 2), 1: (4, 3)}, "--throttle", "100000")

    listed = tool.done("list", {}, *controller)
    cancelled = tool.call("cancel", {0: (4, 2)}, *controller)
    rest = tool.done("cancel-all", {}, *controller)
    verified = tool.done("verify", {0: (4, 2), 1: (4, 3)})

    assert listed[1].startswith("T-0: replicas: 4,2,1. adding: 4.")
    assert "Successfully cancelled partition reassignment for: " in cancelled.stdout
    assert "throttles stay as they are" in cancelled.stderr
    assert rest == ["Successfully cancelled partition reassignment for: T-1"]
    assert "Clearing topic-level throttles on topic T" in verified


RECORDED = {flow.name: flow.outcomes for flow in load().flows}
PLAIN = [
    pytest.param(flow, id=flow.name, marks=() if flow.in_every_run else pytest.mark.soak)
    for flow in FLOWS
    if flow.where is Where.PLAIN
]


def _in_soak(where: Where) -> list[ParameterSet]:
    flows = [flow for flow in FLOWS if flow.where is where]
    return [pytest.param(flow, id=flow.name, marks=pytest.mark.soak) for flow in flows]


@pytest.mark.parametrize("flow", PLAIN)
async def test_flows_in_the_clear(reassign_lab: Lab, files: Path, flow: Flow) -> None:
    await _played_as_recorded(reassign_lab, files, flow)


@pytest.mark.parametrize("flow", _in_soak(Where.SECURED))
async def test_flows_on_a_secured_cluster(
    secured_reassign_lab: Lab, files: Path, flow: Flow
) -> None:
    await _played_as_recorded(secured_reassign_lab, files, flow)


@pytest.mark.parametrize("flow", _in_soak(Where.LOG_DIRS))
async def test_flows_between_log_dirs(dirs_reassign_lab: Lab, files: Path, flow: Flow) -> None:
    await _played_as_recorded(dirs_reassign_lab, files, flow)


async def _played_as_recorded(lab: Lab, files: Path, flow: Flow) -> None:
    outcomes = await play_with_ktui(lab, files, files / "state", flow)

    assert_as_recorded(flow, outcomes, RECORDED[flow.name])
