"""What a broker holds, and when it counts as empty."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ktui.cli.context.errors import BadInput
from ktui.cluster.errors import ClusterError, Failure, Operation, TimedOut
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterReader, TopicsAnswer
from ktui.execution.errors import RunProblem
from ktui.execution.host.ownership import own_run
from ktui.planning.throttle_rates import canary_topic
from ktui.simulated import layout
from ktui.simulated.layout import MIB, BrokerSpec, TopicSpec
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


def test_a_broker_without_replicas_is_empty(sandbox: BrokerSandbox) -> None:
    assert sandbox.lines("empty", "5") == [
        "broker 5 is empty: it holds no replica, and none is being moved to it"
    ]


def test_a_broker_with_replicas_is_not_and_says_how_many_and_which_are_on_their_way(
    sandbox: BrokerSandbox,
) -> None:
    assert not_empty(sandbox, "3") == "broker 3 holds 4 replicas of 2 topics, 301 MiB"

    sandbox.do(move("orders-0", 1, 2, 4))

    line = "broker 3 holds 4 replicas of 2 topics, 301 MiB: 1 leaving"
    assert not_empty(sandbox, "3") == line


def test_a_replica_that_is_still_to_come_keeps_a_broker_from_being_empty(
    sandbox: BrokerSandbox,
) -> None:
    sandbox.simulated.do(move("orders-0", 1, 2, 5))

    assert "holds 1 replica of 1 topic" in not_empty(sandbox, "5")
    assert "1 arriving" in not_empty(sandbox, "5")


def test_a_broker_is_empty_only_once_the_last_move_has_ended(sandbox: BrokerSandbox) -> None:
    for name in ("orders-0", "orders-1", "orders-2"):
        sandbox.do(move(name, 1, 2, 4))
    sandbox.do(move("audit-0", 5))
    assert "leaving" in not_empty(sandbox, "3")

    sandbox.wait(60.0)

    assert sandbox.call("empty", "3").exit_code == 0


def test_a_canary_is_named_and_counts(sandbox: BrokerSandbox) -> None:
    sandbox.do(layout.CreateTopic(TopicSpec(name=canary_topic("drain"), replicas=((5, 4),))))

    assert not_empty(sandbox, "5").endswith("1 left by the canary of run drain")

    sandbox.a_run(1)
    assert not_empty(sandbox, "5").endswith("1 of the canary of run drain, which goes with it")


def test_metadata_that_nobody_proves_to_be_current_is_no_proof(sandbox: BrokerSandbox) -> None:
    class Stale(Passing):
        async def scan_topics(self, *, fresh: bool) -> AsyncIterator[TopicsAnswer]:
            if fresh:
                raise TimedOut("waiting for fresh metadata", answer="none within 5 s")
            async for page in self._reader.scan_topics():
                yield page

    reads(sandbox, Stale)

    assert "waiting for fresh metadata: no answer in time" in not_known(sandbox, "5")


def test_a_topic_that_was_created_in_this_moment_is_found(sandbox: BrokerSandbox) -> None:
    sandbox.cluster(metadata_lag_s=3.0)
    assert sandbox.call("empty", "5").exit_code == 0

    sandbox.simulated.do(layout.CreateTopic(TopicSpec(name="new", replicas=((5, 1),))))

    assert "holds 1 replica of 1 topic" in not_empty(sandbox, "5")


def test_a_cluster_that_does_not_report_the_age_of_its_metadata_proves_nothing(
    sandbox: BrokerSandbox,
) -> None:
    sandbox.do(layout.Deny("describe_quorum"))

    assert "not supported by this cluster" in not_known(sandbox, "5")


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


def test_a_broker_that_is_down_is_not_known_to_be_empty(sandbox: BrokerSandbox) -> None:
    sandbox.do(layout.Kill(5))
    sandbox.wait(30.0)

    assert "describing log dirs (broker 5)" in not_known(sandbox, "5")


def test_a_broker_whose_log_dir_is_offline_is_not_known_to_be_empty(
    sandbox: BrokerSandbox,
) -> None:
    sandbox.cluster(log_dirs=2)
    path = BrokerSpec(id=5, log_dirs=2).log_dir_paths[1]
    sandbox.do(layout.FailLogDir(5, path))

    assert f"log dir {path} is offline" in not_known(sandbox, "5")


def test_a_principal_that_may_not_see_the_topics_or_the_log_dirs_gets_no_empty_broker(
    sandbox: BrokerSandbox,
) -> None:
    sandbox.do(layout.Deny("scan_topics"))
    assert "4 only on its disk, unknown to the metadata" in not_empty(sandbox, "3")

    sandbox.do(layout.Deny("log_dirs"))
    assert "not authorized" in not_known(sandbox, "3")


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


def test_an_unknown_broker_is_bad_input(sandbox: BrokerSandbox) -> None:
    assert isinstance(sandbox.call("empty", "9").exception, BadInput)


def whys(sandbox: BrokerSandbox, broker: str = "3") -> dict[str, int]:
    counted: dict[str, int] = sandbox.json(broker)["whys"]
    return {why: count for why, count in counted.items() if count}


def test_the_replicas_of_a_broker_are_shown_by_topic_with_the_largest_first(
    sandbox: BrokerSandbox,
) -> None:
    lines = sandbox.lines("status", "3")

    assert lines == [
        "broker 3: alive, rack r3",
        "holds 4 replicas, 301 MiB; leads 2, is the preferred leader of 2",
        "4 of them stay unless a plan takes them away",
        "",
        "LOG DIR STATE FREE OF",
        "/var/lib/kafka/data open 1.0 TiB 1.0 TiB",
        "",
        "TOPIC REPLICAS SIZE LEADS PREFERRED WHY THEY ARE THERE",
        "orders 3 300 MiB 1 1 3 in no plan",
        "audit 1 1.0 MiB 1 1 1 in no plan; 1 the only in sync",
    ]


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


def test_a_run_without_an_engine_is_named_with_the_command_that_goes_on_with_it(
    sandbox: BrokerSandbox,
) -> None:
    sandbox.a_run(2)

    assert "run drain has no engine. Go on with it: ktui resume drain" in sandbox.lines(
        "status", "3"
    )
    assert sandbox.json("3")["without_engine"] == ["drain"]


def test_a_run_that_brings_a_replica_keeps_it(sandbox: BrokerSandbox) -> None:
    sandbox.a_run(4)

    assert whys(sandbox, "4") == {"kept": 1}


def test_the_canary_of_a_run_is_named_and_whether_the_run_still_has_it(
    sandbox: BrokerSandbox,
) -> None:
    sandbox.do(layout.CreateTopic(TopicSpec(name=canary_topic("drain"), replicas=((5, 4),))))

    before = sandbox.lines("status", "5")
    sandbox.a_run(1)
    after = sandbox.lines("status", "5")

    assert any(line.endswith("1 left by the canary of run drain") for line in before)
    assert "kafka-topics.sh --delete --topic ktui-canary-drain" in before[-1]
    assert any(line.endswith("1 of the canary of run drain, which goes with it") for line in after)
    assert after[-1] == "run drain has no engine. Go on with it: ktui resume drain"


def test_a_broker_that_is_down_is_fenced_and_what_it_holds_is_shown_all_the_same(
    sandbox: BrokerSandbox,
) -> None:
    sandbox.do(layout.Kill(3))
    sandbox.wait(30.0)

    result = sandbox.json("3")
    lines = sandbox.lines("status", "3")

    assert (result["alive"], result["log_dirs"], result["replicas"]) == (False, None, 4)
    assert result["bytes"] is None
    assert lines[0] == "broker 3: fenced, rack r3, its log dirs cannot be read"
    assert any(line.startswith("audit") and "1 without a leader" in line for line in lines)
    assert lines[-1].startswith("could not read: describing log dirs (broker 3)")


def test_cordoned_and_offline_log_dirs_are_shown(sandbox: BrokerSandbox) -> None:
    sandbox.cluster(log_dirs=3)
    paths = BrokerSpec(id=3, log_dirs=3).log_dir_paths
    sandbox.cordon(3, paths[2])
    sandbox.do(layout.FailLogDir(3, paths[1]))

    lines = sandbox.lines("status", "3")

    assert lines[0] == "broker 3: alive, rack r3, 1 of 3 log dirs cordoned, 1 log dir offline"
    assert [line.split()[1] for line in lines[5:8]] == ["open", "offline:", "cordoned"]
    assert lines[-1].startswith(f"could not read: log dir {paths[1]} is offline")


def test_the_first_topics_are_shown_and_the_others_counted(sandbox: BrokerSandbox) -> None:
    for n in range(30):
        topic = TopicSpec(name=f"small-{n:02}", replicas=((3, 1),), bytes_each=MIB // 2)
        sandbox.simulated.do(layout.CreateTopic(topic))
    sandbox.wait(1.0)

    short, every = sandbox.lines("status", "3"), sandbox.lines("status", "3", "--all")

    assert short[-1] == "and 12 topics more: 12 replicas, 6.0 MiB. All of them: --all"
    assert sum(line.startswith("small-") for line in every) == 30
    assert len(sandbox.json("3")["topics"]) == 32


def test_the_json_names_each_partition_and_whether_it_leaves(sandbox: BrokerSandbox) -> None:
    sandbox.a_run(1)

    orders = sandbox.json("3")["topics"][0]

    assert orders["topic"] == "orders"
    assert [(each["partition"], each["leaves"]) for each in orders["replicas"]] == [
        (0, True),
        (1, False),
        (2, False),
    ]
    assert orders["replicas"][0] == {
        "partition": 0,
        "bytes": 100 * MIB,
        "why": "planned",
        "run": "drain",
        "leaves": True,
        "leads": False,
        "preferred": False,
        "only_in_sync": False,
        "offline": False,
        "moves_dirs": False,
    }


def test_a_broker_that_the_cluster_does_not_have_is_bad_input(sandbox: BrokerSandbox) -> None:
    result = sandbox.call("status", "9")

    assert isinstance(result.exception, BadInput)
    assert "no broker 9" in str(result.exception)
