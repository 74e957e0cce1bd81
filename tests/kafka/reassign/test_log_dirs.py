"""`ktui reassign` moves replicas between the log dirs of a real broker, until one of them fails."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import LogDirsAnswer
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.lab.control import break_dir
from ktui.lab.layout import Lab
from support.cli.shell import Done, Shell
from support.contract.world import until
from support.kafka.slow_topic import filled_topic

MIB = 1024 * 1024
PARTITIONS, BYTES_EACH = 4, 4 * MIB
SLOW = ("--replica-alter-log-dirs-throttle", "200000")  # a move takes twenty seconds
FAST = ("--replica-alter-log-dirs-throttle", "1000000000")
STARTED = "Successfully started moving log directory to "


class Dirs:
    """The log dirs of broker 1, and a topic whose partitions are in the first one."""

    def __init__(self, lab: Lab, shell: Shell, topic: str) -> None:
        self.first, self.second = map(str, lab.log_dirs(lab.node(1)))
        self._connection = Connection.to(lab.bootstrap_servers)
        self.shell = shell
        self._topic = topic

    def words(self, action: str, to: Mapping[int, str], *words: str) -> list[str]:
        rows = [
            {"topic": self._topic, "partition": n, "replicas": [1], "log_dirs": [path]}
            for n, path in to.items()
        ]
        server = self.shell.environment["KTUI_BOOTSTRAP_SERVER"]
        file = self.shell.plan("dirs", rows)
        fixed = ("--bootstrap-server", server, "--reassignment-json-file", file)
        return ["reassign", f"--{action}", *fixed, *words]

    def call(self, action: str, to: Mapping[int, str], *words: str) -> Done:
        return self.shell.ktui(*self.words(action, to, *words))

    async def read(self) -> LogDirsAnswer:
        reader = KafkaReader(self._connection)
        try:
            tps = [TopicPartition(self._topic, number) for number in range(PARTITIONS)]
            return await reader.log_dirs(1, tps)
        finally:
            await reader.aclose()

    async def paths(self) -> list[str]:
        held = (await self.read()).replicas
        return [held[tp].path for tp in sorted(held)]


@pytest.fixture
def dirs(jbod_lab: Lab, topic_name: str, tmp_path: Path) -> Iterator[Dirs]:
    """Four partitions of 4 MiB on broker 1, that go into its first log dir."""
    shell = Shell(jbod_lab, tmp_path)
    connection = Connection.to(jbod_lab.bootstrap_servers)
    with filled_topic(connection, topic_name, [[1]] * PARTITIONS, bytes_each=BYTES_EACH):
        yield Dirs(jbod_lab, shell, topic_name)
        shell.close()


async def test_moves_begin_at_once_until_a_log_dir_fails_which_is_refused_from_then_on(
    dirs: Dirs,
) -> None:
    """The last test: the log dir stays broken."""

    async def put() -> bool:
        return await dirs.paths() == [dirs.first] * PARTITIONS

    async def noticed() -> bool:
        return any(each.error for each in (await dirs.read()).log_dirs)

    begun = dirs.call("execute", dict.fromkeys(range(PARTITIONS), dirs.first), *FAST)
    await until(put)
    wanted = dict.fromkeys((0, 1), dirs.second)
    slow = dirs.call("execute", wanted, *SLOW)
    verified = dirs.call("verify", wanted)
    break_dir(Path(dirs.second))
    await until(noticed)
    again = dirs.call("execute", wanted)

    assert begun.returncode == 0, begun.stdout + begun.stderr
    assert slow.stdout.count(STARTED) == len(wanted), slow.stdout + slow.stderr
    assert verified.stdout.count("is still in progress") == len(wanted)
    assert again.returncode == 1
    assert again.stderr.endswith("Nothing was sent\n")
    assert "is offline (KAFKA_STORAGE_ERROR)" in again.stderr
    (rows,) = [line for line in again.stdout.splitlines() if line.startswith("{")]
    assert {*json.loads(rows)["partitions"][0]["log_dirs"]} == {dirs.first}
