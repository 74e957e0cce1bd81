"""A broker is removed from a real cluster under load, through kills and all the way back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # its documented name

from ktui.execution.run.events import CancelAsked, StepBegun
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.workload import admin_client, create_topic, delete_topics, fill
from ktui.lab.layout import Lab
from ktui.lab.nodes import wait_for
from support.cli.shell import LIMIT_S, Shell
from support.kafka.acked_messages import AckedMessages
from support.kafka.labs import Outage

REMOVED = 5
ORDERS = [[n % 5 + 1, (n + 1) % 5 + 1, (n + 2) % 5 + 1] for n in range(10)]
VERB = ("broker", "remove", str(REMOVED))
REMOVE = (*VERB, "--throttle", "300kB", "--partitions", "2", "--poll", "0.3s")
WAITS = 3

Layout = dict[str, tuple[tuple[int, ...], int | None]]


class Topics:
    """Topics with data, one of them with a single replica, and others that come meanwhile."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.connection = Connection.to(lab.bootstrap_servers)
        self.name, self.single = name, f"{name}-single"
        self.later: list[str] = []
        create_topic(self.connection, self.name, ORDERS)
        create_topic(self.connection, self.single, [[REMOVED]])
        fill(self.connection, self.name, range(len(ORDERS)), bytes_each=300_000)
        fill(self.connection, self.single, [0], bytes_each=300_000)

    @contextmanager
    def created_meanwhile(self) -> Iterator[None]:
        """Create topics within the block, on brokers of Kafka's choice."""
        ended, admin = threading.Event(), admin_client(self.connection)

        def create() -> None:
            while not ended.wait(3.0):
                name = f"{self.name}-{len(self.later)}"
                admin.create_topics([NewTopic(name, 3, 2)])[name].result(LIMIT_S)
                self.later.append(name)

        thread = threading.Thread(target=create)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def layout(self) -> Layout:
        """Return the replicas in order and the leader of each partition of the first topics."""
        return {
            name: each
            for name, each in asyncio.run(_layout(self.connection)).items()
            if name.rpartition("-")[0] in {self.name, self.single}
        }

    def on_broker(self) -> list[str]:
        """Return all partitions of the cluster with a replica on the broker."""
        found = asyncio.run(_layout(self.connection)).items()
        return [name for name, (replicas, _) in found if REMOVED in replicas]


async def _layout(connection: Connection) -> Layout:
    reader = KafkaReader(connection)
    try:
        return {
            str(tp): (state.replicas, state.leader)
            async for page in reader.scan_topics(fresh=True)
            for tp, state in page.partitions.items()
        }
    finally:
        await reader.aclose()


@pytest.fixture
def topics(lab: Lab, topic_name: str, outage: Outage, shell: Shell) -> Iterator[Topics]:
    topics = Topics(lab, topic_name[-12:])
    yield topics
    outage.mend()  # the broker registers again, with its cordon
    assert shell.ktui("broker", "uncordon", str(REMOVED)).returncode == 0
    delete_topics(topics.connection, [topics.name, topics.single, *topics.later])


def killed_when(shell: Shell, due: Callable[[], bool], *words: str) -> None:
    """Call ktui, and kill -9 it as soon as something is the case; its engines go on."""
    process = shell.begin(*words)
    came = wait_for(lambda: due() or process.poll() is not None, seconds=LIMIT_S)
    assert came, "it is not the case"
    assert process.poll() is None, process.communicate()
    process.kill()
    process.communicate()


def ended(shell: Shell, exit_code: int, *words: str) -> str:
    done = shell.ktui(*words)
    assert done.returncode == exit_code, (done.stdout, done.stderr)
    return done.stdout


@pytest.mark.soak
def test_a_broker_is_removed_under_load_through_kills_and_all_the_way_back(
    topics: Topics, shell: Shell, outage: Outage
) -> None:
    before = topics.layout()

    def begun(run: str, kind: type[Any]) -> Callable[[], bool]:
        return lambda: bool(shell.events(run, kind))

    with AckedMessages(topics.connection, topics.name, len(ORDERS), every_s=0.02) as written:
        with topics.created_meanwhile():
            killed_when(shell, lambda: any((shell.state.path / "removals").glob("*")), *REMOVE)
            killed_when(shell, begun("demote-5", StepBegun), *REMOVE)
            killed_when(shell, begun("drain-5", StepBegun), *REMOVE)
            killed_when(shell, begun("drain-5", CancelAsked), *VERB, "--undo")
            ended(shell, 0, *VERB, "--undo")
            assert topics.layout() == before

            ended(shell, WAITS, *REMOVE)
            assert topics.on_broker() == []
            count = len(topics.later)
            assert wait_for(lambda: len(topics.later) > count + 1, seconds=LIMIT_S)
            assert topics.on_broker() == []
        outage.kill(REMOVED)

        def is_unregistered() -> bool:
            return shell.ktui(*VERB, "--unregister").returncode == 0

        assert wait_for(is_unregistered, seconds=LIMIT_S)
    assert "removed already" in ended(shell, 0, *VERB)
    assert written.missing == set()
