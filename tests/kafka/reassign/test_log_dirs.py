"""`ktui reassign` moves replicas between the log dirs of a real broker, until one of them fails."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import LogDirsAnswer
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.lab.layout import Lab
from ktui.lab.log_dirs import break_dir
from support.cli.shell import LIMIT_S, Done, Shell
from support.contract.world import until
from support.kafka.filled_topic import filled_topic

MIB = 1024 * 1024
PARTITIONS, BYTES_EACH = 4, 4 * MIB
SLOW = ("--replica-alter-log-dirs-throttle", "200000")
"""A move takes twenty seconds, which nobody waits for."""
FAST = ("--replica-alter-log-dirs-throttle", "1000000000")
ONE = ("--log-dir-moves", "1", "--reassignment-poll-interval-ms", "200")
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

    def interrupted(self, to: Mapping[int, str], *words: str) -> tuple[int, str]:
        """Execute, interrupt once a move has begun; return the exit code and the notes."""
        process = self.shell.begin(*self.words("execute", to, *words))
        assert process.stdout is not None
        assert any(line.startswith(STARTED) for line in process.stdout)
        process.send_signal(signal.SIGINT)
        _, notes = process.communicate(timeout=LIMIT_S)
        return process.returncode, notes

    def begun(self, stdout: str) -> list[int]:
        """Return the partitions whose moves have begun, in order."""
        lines = [line for line in stdout.splitlines() if line.startswith(STARTED)]
        return [int(line.split(f"{self._topic}-")[1].split()[0]) for line in lines]

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
    """Four partitions of 4 MiB on broker 1, all in its first log dir."""
    shell = Shell(jbod_lab, tmp_path)
    connection = Connection.to(jbod_lab.bootstrap_servers)
    with filled_topic(connection, topic_name, [[1]] * PARTITIONS, bytes_each=BYTES_EACH):
        dirs = Dirs(jbod_lab, shell, topic_name)
        put = dirs.call(
            "execute", dict.fromkeys(range(PARTITIONS), dirs.first), "--log-dir-moves=9"
        )
        assert put.returncode == 0, put.stdout + put.stderr
        yield dirs
        shell.close()


async def test_paced_moves_go_on_after_ctrl_c_and_end_when_all_are_there(dirs: Dirs) -> None:
    wanted = dict.fromkeys((2, 0, 1), dirs.second)

    code, notes = dirs.interrupted(wanted, *ONE, *SLOW)
    done = dirs.call("execute", wanted, *ONE, *FAST, "--one-broker-at-a-time")
    verified = dirs.call("verify", wanted)

    assert code == 130
    assert "goes on by itself: " in notes
    assert "has not begun: " in notes
    assert done.returncode == 0, done.stderr
    assert dirs.begun(done.stdout) == [1, 2]
    assert done.stderr.splitlines()[-1] == "complete: 3 moves between log dirs"
    assert await dirs.paths() == [dirs.second] * 3 + [dirs.first]
    assert verified.stdout.count("completed successfully") == 3


async def test_a_log_dir_that_fails_ends_what_has_not_begun_and_is_refused_from_then_on(
    dirs: Dirs,
) -> None:
    """The last test: the log dir stays broken."""
    wanted = dict.fromkeys((0, 1), dirs.second)
    words = dirs.words("execute", wanted, *ONE, *SLOW)
    process = dirs.shell.begin(*words)
    assert process.stdout is not None
    assert any(line.startswith(STARTED) for line in process.stdout)

    break_dir(Path(dirs.second))
    _, notes = process.communicate(timeout=LIMIT_S)

    failed = f"log dir {dirs.second} of broker 1 has failed (KAFKA_STORAGE_ERROR)"
    assert process.returncode == 1
    assert f"warning: {failed}. Nothing more begins on this broker" in notes
    assert f"was not begun: {failed}" in notes

    async def noticed() -> bool:
        return any(each.error for each in (await dirs.read()).log_dirs)

    await until(noticed)
    again = dirs.call("execute", wanted)
    assert again.returncode == 1
    assert again.stderr.endswith("Nothing was sent\n")
    assert "is offline (KAFKA_STORAGE_ERROR)" in again.stderr
    (rows,) = [line for line in again.stdout.splitlines() if line.startswith("{")]
    assert {*json.loads(rows)["partitions"][0]["log_dirs"]} == {dirs.first}
