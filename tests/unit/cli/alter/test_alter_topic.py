"""`ktui alter-topic` adds partitions, and moves replicas in a run, after every check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from ktui.cluster.clock import SystemClock
from ktui.cluster.ports import ClusterReader, ConfigChange, ConfigOp, Verdict, WriteResult
from ktui.cluster.settings import CORDONED, EVERY, broker_resource
from ktui.execution.errors import RunProblem
from ktui.execution.host.ownership import CancelGateFile, own_run
from ktui.planning.check.snapshot import read_pool
from ktui.planning.replication_factor import BrokerPool
from ktui.simulated import layout
from ktui.simulated.layout import TopicSpec
from ktui.simulated.writer import SimulatedWriter
from support.cli.alter_sandbox import ORDERS, AlterSandbox
from support.cli.start_sandbox import PlanSandbox
from support.journals.journals import planned, started, written
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

    monkeypatch.setattr("ktui.cli.process.launch.start_engine", start)
    return AlterSandbox(tmp_path, monkeypatch, plan_sandbox)


def assert_started(result: Result) -> None:
    assert str(result.exception) == "no engine is to be started", result.output


def test_partitions_are_added_after_a_warning(sandbox: AlterSandbox) -> None:
    result = sandbox.alter(*SIX, "--yes")

    assert result.exit_code == 0, result.output
    assert result.stdout == "orders: 3 partitions added. It has 6 partitions now\n"
    assert result.stderr.splitlines() == ["orders: 3 partitions to add, 6 in all", WARNING]
    assert sandbox.replicas[:3] == ORDERS
    assert [len(replicas) for replicas in sandbox.replicas] == [2] * 6
    assert sandbox.runs == []


def test_added_partitions_are_reported_as_json_with_their_replicas(sandbox: AlterSandbox) -> None:
    (line,) = sandbox.alter(*SIX, "--yes", "--json").stdout.splitlines()

    assert json.loads(line) == {
        "schema_version": 1,
        "event": "partitions_added",
        "topic": "orders",
        "partitions_before": 3,
        "partitions": 6,
        "added": [{"partition": n, "replicas": [*sandbox.replicas[n]]} for n in (3, 4, 5)],
    }


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
    "words",
    [
        ("--partitions", "3"),
        ("--replication-factor", "2"),
        ("--partitions", "3", "--replication-factor", "2"),
        ("--replica-assignment", "1:2,2:3,3:1"),
    ],
)
def test_a_topic_that_is_as_requested_is_left_alone(
    sandbox: AlterSandbox, words: tuple[str, ...]
) -> None:
    result = sandbox.alter("orders", *words)

    assert result.exit_code == 0, result.output
    assert result.stderr == "nothing to do: orders is as requested (3 partitions)\n"
    assert (sandbox.replicas, sandbox.runs) == (ORDERS, [])
    shape = json.loads(sandbox.alter("orders", *words, "--dry-run", "--json").stdout)
    assert (shape["partitions"], shape["added"], shape["run"]) == (3, [], None)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "there is nothing to alter. Give --partitions N, --replication-factor N or "),
        (("--partitions", "2"), "--partitions 2: orders has 3 partitions, and Kafka cannot take "),
        (
            ("--partitions", "10004"),
            "adds at most 10,000 at once. Give at most 10003, and repeat",
        ),
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


def test_an_unknown_topic_is_refused_with_the_one_probably_meant(sandbox: AlterSandbox) -> None:
    refusal = sandbox.alter_refusal("order", "--partitions", "6")

    assert refusal == "the cluster has no topic order; did you mean orders?"
    assert "no topic can be named" in sandbox.alter_refusal("or/ders", "--partitions", "6")


def test_a_topic_whose_partitions_count_for_kafka_keeps_their_number(sandbox: AlterSandbox) -> None:
    name = "__consumer_offsets"
    sandbox.simulated.do(layout.CreateTopic(TopicSpec(name=name, replicas=((1,),))))

    assert "and would lose them" in sandbox.alter_refusal(name, "--partitions", "2")
    assert_started(sandbox.alter(name, "--replication-factor", "3"))


def test_a_missing_permission_is_named_before_anyone_is_asked(sandbox: AlterSandbox) -> None:
    sandbox.use(sandbox.simulated, not_granted=[("orders", "Alter")])
    questions = sandbox.asked(lambda _: True)

    assert "Alter on the topic orders is not granted" in sandbox.alter_refusal(*SIX)
    assert questions == []


def test_a_permission_that_was_withdrawn_meanwhile_is_named_as_well(sandbox: AlterSandbox) -> None:
    sandbox.simulated.do(layout.Deny("create_partitions"))

    assert "Alter on the topic" in sandbox.alter_refusal(*SIX, "--yes")


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


def test_a_read_only_context_refuses_an_alteration(sandbox: AlterSandbox) -> None:
    sandbox.use(sandbox.simulated, read_only=True)

    assert "is read_only" in sandbox.alter_refusal(*SIX, "--yes")


def test_a_higher_factor_gives_new_replicas_to_the_emptiest_brokers_in_a_run(
    sandbox: AlterSandbox,
) -> None:
    result = sandbox.alter("orders", "--replication-factor", "3")

    assert_started(result)
    assert "orders: 3 partitions to move, to 3 replicas each" in result.stderr.splitlines()
    assert {n: part.target for n, part in sandbox.planned.items()} == {
        0: (1, 2, 4), 1: (2, 3, 4), 2: (3, 1, 2),
    }  # fmt: skip
    assert sandbox.replicas == ORDERS


def test_a_lower_factor_drops_the_last_replicas_but_keeps_a_live_one_for_a_dead(
    sandbox: AlterSandbox,
) -> None:
    sandbox.simulated.do(layout.Kill(3))
    wait(sandbox.simulated, 20.0)

    assert_started(sandbox.alter("orders", "--replication-factor", "1"))

    targets = {n: part.target for n, part in sandbox.planned.items()}
    assert targets == {0: (1,), 1: (2,), 2: (1,)}


def test_a_factor_below_min_isr_has_to_be_allowed(sandbox: AlterSandbox) -> None:
    sandbox.use(a_cluster({"orders": ORDERS}, configs={"min.insync.replicas": "2"}))
    words = ("orders", "--replication-factor", "1")

    refused = sandbox.alter(*words)

    assert refused.exit_code == 2
    assert "--allow-below-min-isr allows it" in refused.stderr
    assert sandbox.runs == []
    assert_started(sandbox.alter(*words, "--allow-below-min-isr"))


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


def test_new_partitions_that_have_the_factor_at_once_are_left_out_of_the_run(
    sandbox: AlterSandbox,
) -> None:
    result = sandbox.alter("orders", "--partitions", "4", "--replication-factor", "2", "--yes")

    assert result.exit_code == 0, result.output
    assert sandbox.replicas[3][0] == 4
    assert sandbox.runs == []


def test_new_partitions_with_a_lower_factor_begin_with_the_present_one(
    sandbox: AlterSandbox,
) -> None:
    assert_started(
        sandbox.alter("orders", "--partitions", "4", "--replication-factor", "1", "--yes")
    )

    assert len(sandbox.replicas[3]) == 2
    assert sandbox.planned[3].target == sandbox.replicas[3][:1]


def test_an_assignment_places_every_partition_as_kafka_topics_would(sandbox: AlterSandbox) -> None:
    assert_started(sandbox.alter("orders", "--replica-assignment", "1:2, 3:2 ,3:4,4:1", "--yes"))

    assert sandbox.replicas[3] == (4, 1)
    assert {n: part.target for n, part in sandbox.planned.items()} == {1: (3, 2), 2: (3, 4)}


def test_a_broker_that_is_down_gets_no_replica_but_may_keep_one(sandbox: AlterSandbox) -> None:
    sandbox.simulated.do(layout.Kill(3))
    wait(sandbox.simulated, 20.0)

    refusal = sandbox.alter_refusal("orders", "--replica-assignment", "1:3,2:3,3:1")

    assert "broker 3 would get replicas, and is down. Start it, or name another" in refusal
    assert_started(sandbox.alter("orders", "--replica-assignment", "1:4,2:3,3:1"))


def test_new_partitions_name_no_cordoned_broker_where_kafka_refuses_that(
    sandbox: AlterSandbox,
) -> None:
    by_hand = "1:2,2:3,3:1,2:4"
    for version in ("4.3", "4.4"):
        sandbox.use(a_cluster({"orders": ORDERS}, brokers=range(1, 5), version=version))
        cordon = ConfigChange(broker_resource(4), CORDONED, ConfigOp.SET, EVERY)
        sandbox.simulated.configure([cordon])
        if version == "4.4":
            refusal = sandbox.alter_refusal("orders", "--replica-assignment", by_hand)
            assert (
                "broker 4 would get new partitions, and is cordoned, so Kafka refuses them. Lift "
                "the cordon with ktui broker uncordon 4, or name another" in refusal
            )
            assert len(sandbox.replicas) == 3
        else:
            sandbox.alter("orders", "--replica-assignment", by_hand, "--yes")
            assert sandbox.replicas[3] == (2, 4)


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

    monkeypatch.setattr("ktui.cli.alter.command.read_pool", read_later)
    result = sandbox.alter("orders", "--partitions", "4", "--replication-factor", "2", "--yes")

    assert_started(result)
    assert sandbox.replicas[3] == (4,)


def test_a_dry_run_shows_everything_and_changes_nothing(sandbox: AlterSandbox) -> None:
    words = ("orders", "--partitions", "4", "--replication-factor", "3", "--dry-run")

    text, shape = sandbox.alter(*words), json.loads(sandbox.alter(*words, "--json").stdout)
    only_added = sandbox.alter(*SIX, "--dry-run")

    lines = text.stdout.splitlines()
    assert lines[:2] == [
        "orders: 1 partition to add, 4 in all",
        "orders: 4 partitions to move, to 3 replicas each",
    ]
    assert lines[-1] == "Nothing was sent."
    assert shape["added"] == [{"partition": 3, "replicas": [4, 1]}]
    assert {step["partition"] for batch in shape["run"]["batches"] for step in batch["steps"]} == {
        0, 1, 2, 3,
    }  # fmt: skip
    assert only_added.stdout == "orders: 3 partitions to add, 6 in all\n\nNothing was sent.\n"
    assert (sandbox.replicas, sandbox.runs) == (ORDERS, [])


@pytest.mark.parametrize("moving", ["orders-0", "orders-1"])
def test_while_a_partition_of_the_topic_moves_none_are_added(
    sandbox: AlterSandbox, moving: str
) -> None:
    sandbox.simulated.do(move(moving, 4, 2))
    wait(sandbox.simulated, 1.0)

    for more in ((), ("--replication-factor", "3")):
        refusal = sandbox.alter_refusal(*SIX, "--yes", *more)

        assert f"{moving} is being reassigned" in refusal
        assert "the longer list of replicas that a partition has meanwhile" in refusal


@pytest.mark.parametrize("more", [(), ("--replication-factor", "3")])
def test_none_are_added_to_partitions_that_differ_in_their_number_of_replicas(
    sandbox: AlterSandbox, more: tuple[str, ...]
) -> None:
    sandbox.use(a_cluster({"orders": [(1, 2), (2, 3, 4), (3, 1)]}))

    refusal = sandbox.alter_refusal(*SIX, "--yes", *more)

    assert refusal == (
        "orders has 2 partitions with 2 replicas and 1 partition with 3 replicas. Kafka gives new "
        "partitions as many replicas as one of these has, and does not say which one. Give all of "
        "them the same number first: ktui alter-topic orders --replication-factor N"
    )
    assert_started(sandbox.alter("orders", "--replication-factor", "3"))


def test_a_factor_counts_from_the_target_of_somebody_elses_move(sandbox: AlterSandbox) -> None:
    sandbox.simulated.do(move("orders-0", 4, 2))
    wait(sandbox.simulated, 1.0)

    result = sandbox.alter("orders", "--replication-factor", "3")

    assert_started(result)
    assert "someone else is reassigning orders-0" in result.stderr
    assert sandbox.planned[0].target[:2] == (4, 2)


def test_a_shut_cancel_gate_keeps_partitions_from_being_added(sandbox: AlterSandbox) -> None:
    gate = CancelGateFile(sandbox.state, sandbox.cluster_id)
    gate.shut(SystemClock().now(), "ada@ops1", "everything on the cluster")

    for more in ((), ("--replication-factor", "3")):
        assert "nothing new is begun" in sandbox.alter_refusal(*SIX, "--yes", *more)


def test_a_live_run_keeps_partitions_of_another_run_from_being_added(sandbox: AlterSandbox) -> None:
    run = sandbox.state.create_run("other")
    written(run.journal, [started(1, sandbox.cluster_id), planned(1)]).close()

    with own_run(run):
        refused = sandbox.alter(*SIX, "--replication-factor", "3", "--yes")

    assert "another run is live on this cluster" in str(refused.exception)
    assert (sandbox.replicas, sandbox.runs) == (ORDERS, ["other"])


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


def test_the_throttle_and_the_limits_of_the_context_hold_for_the_run(sandbox: AlterSandbox) -> None:
    sandbox.use(sandbox.simulated, limits={"partitions": 1}, throttle="20MB")

    text = sandbox.alter("orders", "--replication-factor", "3", "--dry-run", "--json").stdout

    run = json.loads(text)["run"]
    assert run["limits"]["partitions"] == 1
    assert run["throttle"] == {
        "every": 20_000_000,
        "brokers": [],
        "budget": None,
        "objective": None,
    }
    assert len(run["batches"]) == 3


def test_an_interrupted_request_is_named(
    sandbox: AlterSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ktui.cli.alter.command.PartitionAdder.add", interrupted)

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
