"""What a broker holds, and when it counts as empty."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ktui.cluster.errors import ClusterError, Failure, Operation, TimedOut
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterReader, TopicsAnswer
from ktui.execution import RunProblem
from ktui.execution.host.ownership import own_run
from ktui.simulated.layout import BrokerSpec
from support.cli.broker_sandbox import BrokerSandbox
from support.journals.journals import step
from support.simulated.moving_clusters import move


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BrokerSandbox:
    return BrokerSandbox(tmp_path, monkeypatch)


class Passing:
    """A reader that passes every call on, to be changed in some."""

    def __init__(self, reader: ClusterReader) -> None:
        self._reader = reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


def reads(sandbox: BrokerSandbox, reader: Callable[[ClusterReader], Any]) -> None:
    """Let the cluster be read this way."""
    sandbox.reader = lambda: reader(sandbox.simulated.reader())


def not_empty(sandbox: BrokerSandbox, broker: str) -> str:
    result = sandbox.call("empty", broker)
    assert result.exit_code == 3, (result.output, result.exception)
    (line,) = result.stdout.splitlines()
    return line


def not_known(sandbox: BrokerSandbox, broker: str) -> str:
    error = sandbox.call("empty", broker).exception
    assert isinstance(error, RunProblem | ClusterError), error
    return str(error)


def test_metadata_that_nobody_proves_to_be_current_is_no_proof(sandbox: BrokerSandbox) -> None:
    class Stale(Passing):
        async def scan_topics(self, *, fresh: bool) -> AsyncIterator[TopicsAnswer]:
            if fresh:
                raise TimedOut("waiting for fresh metadata", answer="none within 5 s")
            async for page in self._reader.scan_topics():
                yield page

    reads(sandbox, Stale)

    assert "waiting for fresh metadata: no answer in time" in not_known(sandbox, "5")


def test_a_topic_that_cannot_be_described_leaves_it_unknown(sandbox: BrokerSandbox) -> None:
    class Partly(Passing):
        async def scan_topics(self, *, fresh: bool) -> AsyncIterator[TopicsAnswer]:
            async for page in self._reader.scan_topics(fresh=fresh):
                yield page
            failure = Failure(Operation.METADATA, "LEADER_NOT_AVAILABLE", topic="odd")
            yield TopicsAnswer({}, failures=(failure,))

    reads(sandbox, Partly)

    assert not_known(sandbox, "5") == (
        "broker 5 is not known to be empty: the metadata names no replica on it, but topic odd: "
        "metadata: LEADER_NOT_AVAILABLE"
    )
    assert "not all could be read: topic odd" in not_empty(sandbox, "3")


def test_a_replica_on_the_disk_that_no_metadata_names_is_found(sandbox: BrokerSandbox) -> None:
    class Forgetful(Passing):
        async def scan_topics(self, *, fresh: bool) -> AsyncIterator[TopicsAnswer]:
            async for page in self._reader.scan_topics(fresh=fresh):
                kept = {tp: s for tp, s in page.partitions.items() if tp.topic != "audit"}
                yield TopicsAnswer(kept)

    reads(sandbox, Forgetful)
    for name in ("orders-0", "orders-1", "orders-2"):
        sandbox.do(move(name, 1, 2, 4))
    sandbox.wait(60.0)

    assert not_empty(sandbox, "3") == (
        "broker 3 holds 1 replica of 1 topic, 1.0 MiB: 1 only on its disk, unknown to the metadata"
    )


def test_a_replica_that_moves_between_log_dirs_is_held(sandbox: BrokerSandbox) -> None:
    sandbox.cluster(log_dirs=2)
    tp = TopicPartition("audit", 0)
    held = sandbox.simulated.replication.replica_dir(tp, 3)
    assert held is not None
    (other,) = {*BrokerSpec(id=3, log_dirs=2).log_dir_paths} - {held.path}
    sandbox.simulated.replication.alter_log_dir(tp, 3, other)

    line = sandbox.call("empty", "3").stdout  # in the same moment

    assert "1 moving to another of its log dirs" in line


def whys(sandbox: BrokerSandbox, broker: str = "3") -> dict[str, int]:
    counted: dict[str, int] = sandbox.json(broker)["whys"]
    return {why: count for why, count in counted.items() if count}


def test_moves_of_a_run_and_of_somebody_else_are_told_apart(sandbox: BrokerSandbox) -> None:
    run = sandbox.a_run(2, step(0))
    sandbox.do(move("orders-0", 1, 2, 4))
    sandbox.do(move("orders-2", 5, 1, 2))
    sandbox.do(move("orders-3", 1, 2, 3))

    with own_run(run):
        row = next(line for line in sandbox.lines("status", "3") if line.startswith("orders"))

    assert row.endswith(
        "1 being moved away by somebody else, 1 being moved away by run drain, "
        "1 being moved here by somebody else, 1 in the plan of run drain, to leave"
    )
    assert whys(sandbox) == {"leaving": 2, "arriving": 1, "planned": 1, "unplanned": 1}


def test_a_run_that_brings_a_replica_keeps_it(sandbox: BrokerSandbox) -> None:
    sandbox.a_run(4)

    assert whys(sandbox, "4") == {"kept": 1}
