"""`ktui alter-topic` adds partitions, and moves replicas in a run, after every check."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from ktui.cluster.ports import ClusterReader, Verdict, WriteResult
from ktui.execution import RunProblem
from ktui.planning.check.snapshot import read_pool
from ktui.planning.replication_factor import BrokerPool
from ktui.simulated import layout
from ktui.simulated.writer import SimulatedWriter
from support.cli.alter_sandbox import ORDERS, AlterSandbox
from support.cli.start_sandbox import PlanSandbox
from support.simulated.moving_clusters import a_cluster, move, wait

WARNING = (
    "warning: records with a key go to other partitions of orders from then on, and Kafka cannot "
    "take partitions away again"
)
SIX = ("orders", "--partitions", "6")


@pytest.fixture
def sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan_sandbox: PlanSandbox
) -> AlterSandbox:
    def start(*_: object) -> None:
        raise AssertionError("no engine is to be started")

    monkeypatch.setattr("ktui.cli.process.start_engine", start)
    return AlterSandbox(tmp_path, monkeypatch, plan_sandbox)


def assert_started(result: Result) -> None:
    assert str(result.exception) == "no engine is to be started", result.output


def test_a_person_is_asked_before_partitions_are_added(sandbox: AlterSandbox) -> None:
    questions = sandbox.asked(lambda _: False)
    declined = sandbox.alter(*SIX)

    assert (declined.exit_code, sandbox.replicas) == (2, ORDERS)
    assert declined.stderr.splitlines()[-2:] == [WARNING, "nothing was sent"]

    sandbox.asked(lambda _: True)
    assert sandbox.alter(*SIX).exit_code == 0
    assert questions == ["Add 3 partitions to orders?"]
    assert len(sandbox.replicas) == 6


def test_a_script_has_to_say_yes(sandbox: AlterSandbox) -> None:
    expected = "nothing was sent: ktui cannot ask without a terminal. Give --yes"

    assert sandbox.alter_refusal(*SIX) == expected
    sandbox.asked(lambda _: True)
    assert sandbox.alter_refusal(*SIX, "--json") == expected


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "there is nothing to alter. Give --partitions N, --replication-factor N or "),
        (("--partitions", "2"), "--partitions 2: orders has 3 partitions, and Kafka cannot take "),
        (("--partitions", "10004"), "adds at most 10,000 at once. Give at most 10003, and repeat"),
        (("--replication-factor", "5"), "orders-0 cannot have 5 replicas: 4 brokers are online"),
        (("--replica-assignment", "1:2,2:3"), "Kafka cannot take partitions away. List all of "),
        (("--replica-assignment", "1:2,2:x,3:1"), "partition 1: 'x' is not a broker id. Give the "),
        (("--replica-assignment", ""), "partition 0: '' is not a broker id"),
        (("--replica-assignment", "1:2,2:3,3:3"), "partition 2 has broker 3 twice. Name each once"),
        (("--replica-assignment", "1:2,2:3,3"), "partition 2 has 1 replica, and partition 0 has 2"),
        (("--replica-assignment", "1:2,2:9,3:8"), "1, 2, 3 and 4, no brokers 8 and 9"),
        (
            ("--replica-assignment", "1:2,2:3,3:1", "--replication-factor", "2"),
            "--replica-assignment names every replica already. Give it without",
        ),
        (
            ("--replica-assignment", "1:2,2:3,3:1", "--partitions", "4"),
            "--partitions 4: --replica-assignment has 3 partitions. Leave --partitions out",
        ),
    ],
)
def test_an_impossible_request_is_refused_with_the_option_and_the_fix(
    sandbox: AlterSandbox, words: tuple[str, ...], problem: str
) -> None:
    assert problem in sandbox.alter_refusal("orders", *words, "--yes")


def test_partitions_are_asked_for_once_as_a_quota_charges_each_request(
    sandbox: AlterSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    code, wait = (
        "THROTTLING_QUOTA_EXCEEDED",
        "the quota controller_mutation_rate is used up for 9 s",
    )

    async def over_quota(_: object, __: str, count: int, *___: object, **____: object) -> Any:
        asked.append(count)
        return WriteResult(Verdict.REFUSED, code, wait)

    monkeypatch.setattr(SimulatedWriter, "create_partitions", over_quota)
    dry_run = sandbox.alter(*SIX, "--dry-run")
    asked_by_dry_run = list(asked)

    refusal = sandbox.alter_refusal(*SIX, "--yes")

    assert refusal == (
        f"nothing was changed: Kafka does not add partitions to orders: {code}: {wait}. Then "
        "repeat the command"
    )
    assert (dry_run.exit_code, asked_by_dry_run, asked) == (0, [], [6])


def test_a_policy_against_so_many_partitions_is_told_with_the_next_command(
    sandbox: AlterSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "Excessively large number of additional partitions per request."

    async def refused(*_: object, **__: object) -> WriteResult:
        return WriteResult(Verdict.REFUSED, "POLICY_VIOLATION", words)

    monkeypatch.setattr(SimulatedWriter, "create_partitions", refused)

    assert sandbox.alter_refusal(*SIX, "--yes") == (
        f"nothing was changed: Kafka does not add partitions to orders: POLICY_VIOLATION: {words} "
        "Kafka adds at most 10,000 in one request, and a cluster may allow fewer: repeat the "
        "command with a lower --partitions"
    )


def test_new_partitions_are_placed_by_ktui_and_get_the_new_factor_in_the_same_run(
    sandbox: AlterSandbox,
) -> None:
    result = sandbox.alter("orders", "--partitions", "5", "--replication-factor", "3", "--yes")

    assert_started(result)
    added = {n: part for n, part in sandbox.planned.items() if n >= 3}
    assert [part.original for part in added.values()] == sandbox.replicas[3:]
    assert [part.target[:2] for part in added.values()] == sandbox.replicas[3:]
    counts = [b for part in sandbox.planned.values() for b in part.target]
    assert sorted(map(counts.count, range(1, 5))) == [3, 4, 4, 4]


def test_new_partitions_with_a_lower_factor_begin_with_the_present_one(
    sandbox: AlterSandbox,
) -> None:
    assert_started(
        sandbox.alter("orders", "--partitions", "4", "--replication-factor", "1", "--yes")
    )

    assert len(sandbox.replicas[3]) == 2
    assert sandbox.planned[3].target == sandbox.replicas[3][:1]


def test_a_broker_that_comes_up_meanwhile_may_get_all_of_a_new_partition(
    sandbox: AlterSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.use(a_cluster({"orders": [(1,), (2,), (3,)]}, brokers=range(1, 5)))
    sandbox.simulated.do(layout.Kill(4))
    wait(sandbox.simulated, 20.0)

    async def read_later(reader: ClusterReader) -> BrokerPool:
        sandbox.simulated.do(layout.Start(4))
        wait(sandbox.simulated, 20.0)
        return await read_pool(reader)

    monkeypatch.setattr("ktui.cli.alter.read_pool", read_later)
    result = sandbox.alter("orders", "--partitions", "4", "--replication-factor", "2", "--yes")

    assert_started(result)
    assert sandbox.replicas[3] == (4,)


def test_a_change_during_the_question_is_noticed(sandbox: AlterSandbox) -> None:
    def meanwhile(_: str) -> bool:
        sandbox.simulated.do(move("orders-1", 4, 3))
        return True

    sandbox.asked(meanwhile)
    refused = sandbox.alter(*SIX, "--replication-factor", "3")

    assert "orders has changed since ktui read it. Repeat the command" in str(refused.exception)
    assert len(sandbox.replicas) == 3
    assert sandbox.runs == []


@pytest.mark.parametrize("fault", [layout.LoseAnswer(), layout.DelayRequest(by_s=40.0)])
def test_a_lost_answer_is_settled_by_counting_the_partitions(
    sandbox: AlterSandbox, fault: layout.LoseAnswer | layout.DelayRequest
) -> None:
    def meanwhile(_: str) -> bool:
        sandbox.simulated.do(fault)
        return True

    sandbox.asked(meanwhile)
    result = sandbox.alter(*SIX)

    assert result.stdout == "orders: 3 partitions added. It has 6 partitions now\n"
    assert len(sandbox.replicas) == 6


def test_a_lost_request_is_not_repeated_and_no_run_is_made(sandbox: AlterSandbox) -> None:
    def meanwhile(_: str) -> bool:
        sandbox.simulated.do(layout.LoseRequest())
        return True

    sandbox.asked(meanwhile)
    result = sandbox.alter(*SIX, "--replication-factor", "3")

    assert isinstance(result.exception, RunProblem)
    assert "orders still has 3 partitions after 60 s" in str(result.exception)
    assert (sandbox.replicas, sandbox.runs) == (ORDERS, [])


def test_an_interrupted_request_is_named(
    sandbox: AlterSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ktui.cli.alter.PartitionAdder.add", interrupted)

    assert "interrupted: the request may have been sent" in sandbox.alter(*SIX, "--yes").stderr


def test_none_are_added_where_another_partition_begins_to_move_during_the_question(
    sandbox: AlterSandbox,
) -> None:
    def meanwhile(_: str) -> bool:
        sandbox.simulated.do(move("orders-1", 4, 3))
        return True

    sandbox.asked(meanwhile)

    assert "orders has changed since ktui read it" in str(sandbox.alter(*SIX).exception)
    assert len(sandbox.replicas) == 3
