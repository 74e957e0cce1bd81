"""A broker is removed from real clusters, whatever it holds, through a kill at every stage."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # its documented name

from ktui.execution.run.events import CancelAsked, StepBegun
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.workload import admin_client, create_topic, delete_topics, fill
from ktui.lab.layout import Lab
from ktui.lab.nodes import wait_for
from ktui.lab.up import LabRequest
from support.cli.shell import LIMIT_S, Shell
from support.kafka.labs import a_lab

REMOVED = 4
VERB = ("broker", "remove", str(REMOVED), "--until-empty", "--yes")
REMOVE = (*VERB, "--throttle", "300kB", "--partitions", "2", "--poll", "0.3s")
ORDER = {
    "4.4.0": ["demote", "drain", "cordon", "empty"],
    "4.3.1": ["cordon", "demote", "drain", "empty"],
}
LAYOUTS = {
    "leaders": [[4, 1, 2], [4, 2, 3], [4, 3, 5], [4, 5, 1], [1, 2, 3]],
    "followers": [[1, 4, 2], [2, 3, 4], [3, 4, 5], [5, 1, 4]],
    "single": [[4], [4], [4], [1]],
    "pairs": [[4, 1], [2, 4], [4, 5], [3, 4]],
    "racks": [[4, 2, 3], [2, 4, 3], [3, 5, 4], [1, 2, 3]],
}

Layout = dict[str, tuple[tuple[int, ...], int | None]]


@pytest.fixture(scope="module", params=ORDER)
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Five brokers on three racks: 1 and 4 are on one of them, 2 and 5 on another."""
    yield from a_lab(tmp_path_factory.mktemp("lab"), LabRequest(version=request.param))


class Removed:
    """Topics with replicas on the broker, and the command that removes it."""

    def __init__(self, lab: Lab, shell: Shell, name: str) -> None:
        self.connection = Connection.to(lab.bootstrap_servers)
        self.shell, self.name, self.topics = shell, name, [name]
        self.order = ORDER[lab.layout.kafka_version]
        self.racks = {node.id: node.rack for node in lab.brokers}

    def fill(self, replicas: list[list[int]]) -> None:
        create_topic(self.connection, self.name, replicas)
        fill(self.connection, self.name, range(len(replicas)), bytes_each=300_000)

    def killed_at_every_stage(self, *words: str) -> list[str]:
        """Call the command until it ends by itself, and kill it when it first comes to a stage.

        Returns:
            The stages in the order in which the command came to them.
        """
        seen: list[str] = []
        while True:
            process = self.shell.begin(*REMOVE, *words)
            assert process.stdout is not None
            lines: list[str] = []
            for line in process.stdout:
                lines.append(line)
                stage = line.split(":")[0].rpartition(" ")[2]
                if line[1:3] != "/6" or stage in (*seen, "stop"):
                    continue
                seen.append(stage)
                if (run := line.split(": ")[1]).startswith("run drain"):
                    self.shell.wait_for(run.removeprefix("run "), StepBegun)
                process.kill()
                break
            out, err = process.communicate(timeout=LIMIT_S)
            if process.returncode != -9:
                assert process.returncode == 0, (lines, out, err)
                return seen

    def layout(self) -> Layout:
        """Return the replicas in order and the leader of each partition of the topic."""
        return {
            name: each
            for name, each in asyncio.run(self._layout()).items()
            if name.rpartition("-")[0] == self.name
        }

    def on_broker(self) -> list[str]:
        """Return all partitions of the cluster with a replica on the broker."""
        found = asyncio.run(self._layout()).items()
        return [name for name, (replicas, _) in found if REMOVED in replicas]

    async def _layout(self) -> Layout:
        reader = KafkaReader(self.connection)
        try:
            return {
                str(tp): (state.replicas, state.leader)
                async for page in reader.scan_topics(fresh=True)
                for tp, state in page.partitions.items()
            }
        finally:
            await reader.aclose()

    def create_another(self) -> None:
        """Create a topic on brokers of Kafka's choice."""
        admin = admin_client(self.connection)
        name = f"{self.name}-later"
        admin.create_topics([NewTopic(name, 20, 2)])[name].result(LIMIT_S)
        self.topics.append(name)


@pytest.fixture
def removed(lab: Lab, topic_name: str, shell: Shell) -> Iterator[Removed]:
    removed = Removed(lab, shell, topic_name[-12:])
    yield removed
    ended(shell, "broker", "uncordon", str(REMOVED))
    delete_topics(removed.connection, removed.topics)


def ended(shell: Shell, *words: str) -> None:
    done = shell.ktui(*words)
    assert done.returncode == 0, (done.stdout, done.stderr)


@pytest.mark.soak
@pytest.mark.parametrize("kind", LAYOUTS)
def test_a_broker_is_emptied_whatever_it_holds_through_a_kill_at_every_stage(
    removed: Removed, kind: str
) -> None:
    removed.fill(LAYOUTS[kind])
    before = removed.layout()

    assert removed.killed_at_every_stage() == removed.order

    after = removed.layout()
    assert removed.on_broker() == []
    for name, (replicas, _) in before.items():
        moved = after[name][0]
        racks = [{removed.racks[b] for b in each} for each in (replicas, moved)]
        assert len(moved) == len(replicas), (name, moved)
        assert len(racks[1]) >= len(racks[0]), (name, moved)
    removed.create_another()
    assert removed.on_broker() == []


@pytest.mark.soak
def test_with_the_cordon_first_nothing_lands_on_the_broker_while_it_is_drained(
    removed: Removed,
) -> None:
    removed.fill(LAYOUTS["leaders"])
    first = ["demote", "cordon", "drain", "empty"]

    seen = removed.killed_at_every_stage("--cordon-first")

    assert seen == (removed.order if removed.order[0] == "cordon" else first)
    assert removed.on_broker() == []
    assert removed.shell.ktui("runs").stdout.count("drain-4") == 1


@pytest.mark.soak
def test_a_broker_that_somebody_has_cordoned_is_emptied(removed: Removed) -> None:
    removed.fill(LAYOUTS["followers"])
    ended(removed.shell, "broker", "cordon", str(REMOVED))

    ended(removed.shell, *REMOVE)

    assert removed.on_broker() == []


@pytest.mark.soak
def test_a_removal_is_undone_byte_by_byte_through_a_kill(removed: Removed) -> None:
    removed.fill(LAYOUTS["leaders"])
    before = removed.layout()
    ended(removed.shell, *REMOVE)
    assert removed.on_broker() == []

    undoing = removed.shell.begin(*VERB, "--undo")
    begun = wait_for(
        lambda: bool(removed.shell.events("drain-4", CancelAsked)) or undoing.poll() is not None,
        seconds=LIMIT_S,
    )
    assert begun
    undoing.kill()
    undoing.communicate()
    ended(removed.shell, *VERB, "--undo")

    assert removed.layout() == before
    assert "no cordon" in removed.shell.ktui("broker", "uncordon", "4").stdout
