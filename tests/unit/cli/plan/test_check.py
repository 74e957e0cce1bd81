"""`ktui plan check`: what it says, and the steps that it lists."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from ktui.cli.context.errors import BadInput
from ktui.cli.main import ktui
from ktui.cli.plan.command import check as check_command
from ktui.cluster.ports import ConfigChange, ConfigOp
from ktui.cluster.settings import CORDONED, EVERY, broker_resource
from ktui.simulated import layout
from support.cli.start_sandbox import PlanSandbox, answer, check, found
from support.simulated.moving_clusters import a_cluster, throttle, wait

SIZE = 1_000_000_000
"""Bytes in each partition."""
DISK = 1_000 * 1024**3
CORPUS = Path(__file__).parents[2] / "planning" / "corpus"
EXPECTED = dict(
    entry.split("\n", 1) for entry in (CORPUS / "problems.txt").read_text().strip().split("\n\n")
)


@pytest.fixture
def nobody_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object) -> None:
        raise AssertionError("a bad plan needs no cluster")

    monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", connect)


@pytest.mark.usefixtures("nobody_connects")
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_bad_plan_is_refused_with_all_its_mistakes_before_ktui_connects(
    name: str,
) -> None:
    result = check(str(CORPUS / name))

    output = [line.strip() for line in EXPECTED[name].splitlines()]
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        line if line.startswith("and ") else f"{CORPUS / name}:{line}" for line in output
    ]


@pytest.mark.usefixtures("nobody_connects")
def test_a_bad_plan_from_standard_input_is_called_stdin() -> None:
    result = check("-", read=b'{"version": 2,\n "partitions": []}')

    assert result.exit_code == 2
    assert [line.split(": ")[:2] for line in result.stderr.splitlines()] == [
        ["<stdin>:1:13", "version"],
        ["<stdin>:2:16", "partitions"],
    ]


@pytest.mark.usefixtures("nobody_connects")
def test_a_missing_plan_is_named(tmp_path: Path) -> None:
    result = check(str(tmp_path / "plan.json"))

    assert result.exit_code == 2
    assert result.stderr == f"{tmp_path / 'plan.json'}: cannot be read: No such file or directory\n"


def test_a_plan_from_a_closed_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)

    with pytest.raises(BadInput, match="there is no standard input"):
        check_command.main(["-"], standalone_mode=False)


def test_a_sound_plan_is_summarised(plan_sandbox: PlanSandbox) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3), (2, 3, 1), (3, 1, 2), (4, 5, 6)]}))
    plan = plan_sandbox.plan(
        orders_0=(4, 2, 3), orders_1=(3, 2, 5), orders_2=(3, 1, 2), orders_3=(4, 7, 8)
    )

    result = check(plan)

    assert result.exit_code == 0
    assert result.stdout == (
        f"{plan}:4:3: note: 1 of 4 partitions are at their target already\n"
        "\n"
        "partitions in the plan         4\n"
        "already at their target        1\n"
        "replica movements              4\n"
        "leader movements               2\n"
        "to be copied             3.7 GiB\n"
        "batches, about                 4\n"
        "\n"
        "BROKER  GAINS  LOSES       IN      OUT  ROOM NOW    AFTER  AT PEAK\n"
        "     1      0      2      0 B  1.9 GiB   997 GiB  999 GiB  997 GiB\n"
        "     4      1      0  954 MiB      0 B   999 GiB  998 GiB  998 GiB\n"
        "     5      1      1  954 MiB  954 MiB   999 GiB  999 GiB  998 GiB\n"
        "     6      0      1      0 B  954 MiB   999 GiB  1.0 TiB  999 GiB\n"
        "     7      1      0  954 MiB      0 B   1.0 TiB  999 GiB  999 GiB\n"
        "     8      1      0  954 MiB      0 B   1.0 TiB  999 GiB  999 GiB\n"
        "\n"
        "                        gentle, in force  kip-435\n"
        "alters                  7                 6\n"
        "elections               1                 2\n"
        "leader epoch bumps      4                 6\n"
        "extra replicas at peak  4                 3\n"
        "most of one partition   5                 4\n"
        "until they are dropped, monitors see the extra replicas as a higher factor\n"
        "\n"
        "time  about 62 s (32 to 152), assumed; broker 4 copies the most under W\n"
        "\n"
        "No problem.\n"
    )


def test_a_plan_may_come_from_a_named_pipe(plan_sandbox: PlanSandbox, tmp_path: Path) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    pipe, plan = tmp_path / "pipe", Path(plan_sandbox.plan(orders_0=(4, 2, 3))).read_bytes()
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(plan,))
    writer.start()

    result = check(str(pipe), "--json")

    writer.join()
    assert answer(result)["plan"] == str(pipe)


def test_the_plan_that_is_meant_in_saved_output_is_named(
    plan_sandbox: PlanSandbox, tmp_path: Path
) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    plan = Path(plan_sandbox.plan(orders_0=(4, 2, 3))).read_text()
    saved = tmp_path / "saved.txt"
    saved.write_text(f"Current partition replica assignment\n\n{plan}\n\nSave this to use as")

    result = check(str(saved))

    assert result.exit_code == 2
    saved.write_text(
        f"Current partition replica assignment\n\n{plan}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback\n"
    )

    result = check(str(saved))

    assert result.exit_code == 0, result.output
    assert f"{saved}: this is the output of --execute" in result.stderr


def test_a_plan_may_come_from_standard_input(plan_sandbox: PlanSandbox) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    plan = Path(plan_sandbox.plan(orders_0=(4, 2, 3))).read_bytes()

    result = check("-", "--json", read=plan)

    assert answer(result)["plan"] == "<stdin>"


def test_each_problem_is_reported_with_its_line_and_fails_the_check(
    plan_sandbox: PlanSandbox,
) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3)], "payments": [(1, 2, 3)]}))
    plan = plan_sandbox.plan(order_0=(1, 2, 3), orders_0=(1, 2, 77), payments_0=(1, 2))

    result = check(plan)

    assert result.exit_code == 2
    lines = result.stdout.splitlines()
    assert lines[:3] == [
        f"{plan}:2:12: problem: the cluster has no topic order; did you mean orders?",
        f"{plan}:3:51: problem: the cluster has no broker 77, only 1 to 9; named for orders-0",
        (
            f"{plan}:4:48: problem: the replication factor changes from 3 to 2: payments-0; "
            "--allow-replication-factor-change allows it"
        ),
    ]
    assert "not on this cluster                   1" in lines
    assert "replication factor from 3 to 2        1" in lines
    assert lines[-1] == "3 problems: the plan cannot be started."


def test_findings_of_one_severity_are_in_the_order_of_the_file(plan_sandbox: PlanSandbox) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3), (1, 2, 3)]}))

    output = answer(check(plan_sandbox.plan(orders_0=(1, 2), order_0=(1, 2, 77)), "--json"), 2)

    assert [(p["place"]["line"], p["kind"]) for p in found(output, "problem")] == [
        (2, "replication factor change"),
        (3, "topic unknown"),
        (3, "broker unknown"),
    ]


def test_an_allowed_problem_becomes_a_warning(plan_sandbox: PlanSandbox) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}, configs={"min.insync.replicas": "2"}))
    plan = plan_sandbox.plan(orders_0=(1,))

    assert check(plan).exit_code == 2
    assert check(plan, "--allow-replication-factor-change").exit_code == 2
    result = check(plan, "--allow-replication-factor-change", "--allow-below-min-isr")

    assert result.exit_code == 0
    assert "; allowed by --allow-below-min-isr\n" in result.stdout
    assert result.stdout.endswith("\nNo problem, 1 warning.\n")


def test_a_plan_already_at_its_targets_has_nothing_to_do(plan_sandbox: PlanSandbox) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3), (2, 3, 1)]}))

    result = check(plan_sandbox.plan(orders_0=(1, 2, 3), orders_1=(2, 3, 1)))

    assert result.exit_code == 0
    assert "nothing to do: every partition is at its target already (2)" in result.stdout
    assert result.stdout.endswith("\nNothing to do.\n")


def test_someone_elses_move_is_warned_of_and_counted_from_its_original_replicas(
    plan_sandbox: PlanSandbox,
) -> None:
    plan_sandbox.cluster(a_cluster(moving=["orders-0"]))  # from 1, 2 and 3 to 4, 2 and 3

    output = answer(check(plan_sandbox.plan(orders_0=(4, 2, 3)), "--json"))

    assert [warning["kind"] for warning in found(output, "warning")] == ["foreign reassignment"]
    changes = {each["broker"]: (each["gains"], each["loses"]) for each in output["brokers"]}
    assert {b: change for b, change in changes.items() if any(change)} == {1: (0, 1), 4: (1, 0)}


def test_topics_that_may_not_be_described_are_problems_of_unreadable_topics(
    plan_sandbox: PlanSandbox,
) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    cluster.do(layout.Deny("describe_topics"))
    plan_sandbox.cluster(cluster)

    output = answer(check(plan_sandbox.plan(orders_0=(4, 2, 3)), "--json", "--steps"), 2)

    assert [problem["kind"] for problem in found(output, "problem")] == ["topic unreadable"]
    assert output["summary"]["unknown"] == 1
    assert output["partitions"] == [{"topic": "orders", "partition": 0, "steps": None}]


def test_an_unknown_topic_is_reported_even_without_permission_to_list_topics(
    plan_sandbox: PlanSandbox,
) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    cluster.do(layout.Deny("scan_topics"))
    plan_sandbox.cluster(cluster)

    output = answer(check(plan_sandbox.plan(order_0=(4, 2, 3)), "--json"), 2)
    (problem,) = found(output, "problem")

    assert problem["sentence"] == "the cluster has no topic order"


def test_rate_sets_the_rate_of_the_time_estimate(plan_sandbox: PlanSandbox) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    plan = plan_sandbox.plan(orders_0=(4, 2, 3))

    output = answer(check(plan, "--json", "--rate", "10MB/s"))["how_long"]

    assert output["basis"]["source"] == "given"
    assert output["time_s"] == {"low": 101.0, "middle": 101.0, "high": 101.0}
    assert answer(check(plan, "--json", "--rate", "1000000"))["how_long"]["time_s"] == {
        **dict.fromkeys(("low", "middle", "high"), 1001.0)
    }


@pytest.mark.usefixtures("nobody_connects")
@pytest.mark.parametrize("rate", ["fast", "0", "-1MB/s", "10 parsecs/s", "0MB/s"])
def test_a_malformed_rate_is_refused_with_its_option_before_ktui_connects(
    rate: str,
) -> None:
    result = check("plan.json", "--rate", rate)

    assert isinstance(result.exception, BadInput)
    assert str(result.exception).startswith("--rate: ")


def test_the_throttle_of_a_broker_is_the_rate_into_it(plan_sandbox: PlanSandbox) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    cluster.do(throttle("follower", 4, 5_000_000))
    plan_sandbox.cluster(cluster)

    result = check(plan_sandbox.plan(orders_0=(4, 2, 3)))

    assert "time  about 5.6 min (2.4 to 9.6), assumed; broker 4 receives" in result.stdout
    assert "throttled already: 5.0 MB/s into broker 4\n" in result.stdout


def test_unreadable_log_dirs_leave_the_time_and_bytes_unknown(plan_sandbox: PlanSandbox) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    cluster.do(layout.Deny("log_dirs"))
    plan_sandbox.cluster(cluster)
    plan = plan_sandbox.plan(orders_0=(4, 2, 3))

    result, output = check(plan), answer(check(plan, "--json"))

    assert result.exit_code == 0
    (warning,) = found(output, "warning")
    assert warning["kind"] == "disks unreadable"
    assert "broker 1, broker 2, broker 3 and 1 more could not be read" in warning["sentence"]
    assert output["how_long"] is None
    assert output["brokers"][3]["bytes_in"] is None
    assert result.stdout.endswith("\nNo problem, 1 warning.\n")


def test_a_disk_that_would_be_full_is_a_warning(plan_sandbox: PlanSandbox) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    cluster.do(layout.FillDisk(4, leave=SIZE // 2))
    plan_sandbox.cluster(cluster)

    output = answer(check(plan_sandbox.plan(orders_0=(4, 2, 3)), "--json"))

    assert [(w["kind"], w["place"]) for w in found(output, "warning")] == [("disk full", None)]


def test_a_hostile_file_name_is_shown_escaped(plan_sandbox: PlanSandbox, tmp_path: Path) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    plan = Path(plan_sandbox.plan(orders_0=(4, 2, 3))).rename(tmp_path / "\x1b[31m\udcff.json")

    assert answer(check(str(plan), "--json"))["plan"] == f"{tmp_path}/\\x1b[31m\\udcff.json"


@pytest.mark.parametrize("arguments", [["plan", "--help"], ["plan", "check", "-h"]])
def test_help_of_the_verb_is_printed(arguments: list[str]) -> None:
    result = CliRunner().invoke(ktui, arguments)

    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")


@pytest.mark.parametrize(
    ("version", "code", "severity"), [("4.3", 0, "warning"), ("4.4", 2, "problem")]
)
def test_a_target_on_a_cordoned_broker_is_a_warning_on_4_3_and_fails_the_check_on_4_4(
    plan_sandbox: PlanSandbox, version: str, code: int, severity: str
) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]}, version=version)
    cluster.configure([ConfigChange(broker_resource(4), CORDONED, ConfigOp.SET, EVERY)])
    plan_sandbox.cluster(cluster)

    result = check(plan_sandbox.plan(orders_0=(4, 2, 3)))

    assert result.exit_code == code
    assert f"{severity}: broker 4 is cordoned" in result.output
    assert "lift the cordon with ktui broker uncordon 4" in result.output


Steps = list[tuple[list[int], int | None]]


def planned_steps(plan_sandbox: PlanSandbox, *limits: str) -> Steps:
    """Return the steps of orders-0 from 1, 2 and 3 to 4, 5 and 6."""
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    expected = answer(check(plan_sandbox.plan(orders_0=(4, 5, 6)), "--json", "--steps", *limits))
    (partition,) = expected["partitions"]
    assert list(partition) == ["topic", "partition", "steps"]
    assert all(list(step) == ["replicas", "elect"] for step in partition["steps"])
    return [(step["replicas"], step["elect"]) for step in partition["steps"]]


def test_steps_without_limits_add_one_replica_at_a_time_and_cut_all_together(
    plan_sandbox: PlanSandbox,
) -> None:
    assert planned_steps(plan_sandbox) == [
        ([1, 2, 3, 4], None),
        ([1, 2, 3, 4, 5], None),
        ([1, 2, 3, 4, 5, 6], None),
        ([4, 5, 6], None),
    ]


def test_the_kip_435_shape_moves_the_leader_first(plan_sandbox: PlanSandbox) -> None:
    assert planned_steps(plan_sandbox, "--shape", "kip-435", "--replicas", "2") == [
        ([4, 1, 2, 3], 4),
        ([4, 5, 3], None),
        ([4, 5, 6], None),
    ]


def test_steps_keep_to_the_limit_of_extra_replicas(plan_sandbox: PlanSandbox) -> None:
    assert [
        len(replicas) for replicas, _ in planned_steps(plan_sandbox, "--extra-replicas", "1")
    ] == [*(4, 3, 4, 3, 4, 3)]


def test_a_limit_that_is_lifted_leaves_one_step(plan_sandbox: PlanSandbox) -> None:
    assert planned_steps(plan_sandbox, "--replicas", "none") == [([4, 5, 6], 4)]


def test_steps_of_a_partition_that_others_move_start_from_its_original_replicas(
    plan_sandbox: PlanSandbox,
) -> None:
    plan_sandbox.cluster(a_cluster(moving=["orders-0"]))  # from 1, 2 and 3 to 4, 2 and 3

    expected = answer(check(plan_sandbox.plan(orders_0=(5, 2, 3)), "--json", "--steps"))

    assert sorted(expected["partitions"][0]["steps"][-1]["replicas"]) == [2, 3, 5]
    assert all(4 not in step["replicas"] for step in expected["partitions"][0]["steps"])


def test_a_broker_that_is_down_is_a_warning_and_the_steps_are_still_shown(
    plan_sandbox: PlanSandbox,
) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    cluster.do(layout.Shutdown(4))
    wait(cluster, 5.0)
    plan_sandbox.cluster(cluster)

    expected = answer(check(plan_sandbox.plan(orders_0=(1, 2, 4)), "--json", "--steps"))

    assert [warning["kind"] for warning in found(expected, "warning")] == ["broker down"]
    assert [step["replicas"] for step in expected["partitions"][0]["steps"]] == [
        [1, 2, 3, 4],
        [1, 2, 4],
    ]


def test_steps_are_printed_one_per_line_without_partitions_at_their_target(
    plan_sandbox: PlanSandbox,
) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3), (1, 2, 3)]}))

    result = check(plan_sandbox.plan(orders_0=(2, 1, 3), orders_1=(1, 2, 3)), "--steps")

    assert (
        "\n\nsteps, gentle shape, 1 at a time:\norders-0\n  1  2,1,3  elect 2\n\n" in result.stdout
    )


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (("--replicas", "0"), "--replicas: 0 is too small. Use a whole number from 1, or none"),
        (("--per-broker", "many"), "--per-broker: 'many' is not a whole number"),
        (("--shape", "soft"), "--shape: 'soft' is not a valid value. Use gentle or kip-435"),
        (
            ("--shape", "kip-435", "--cut-together", "2"),
            "--cut-together: it has no effect in shape kip-435",
        ),
    ],
)
def test_an_invalid_limit_is_refused_with_the_valid_values(
    plan_sandbox: PlanSandbox, limit: tuple[str, ...], expected: str
) -> None:
    result = check(plan_sandbox.plan(orders_0=(1, 2, 3)), *limit)

    assert isinstance(result.exception, BadInput)
    assert expected in str(result.exception)


def test_every_limit_has_an_option_of_its_name(plan_sandbox: PlanSandbox) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    given = {
        "replicas": 2,
        "partitions": 3,
        "per_rack": 13,
        "leader_movements": 4,
        "replica_movements": 5,
        "per_broker": 6,
        "per_leader": 7,
        "cuts_per_minute": 8,
        "bytes_in_flight": 11,
        "bytes_per_broker": 12,
        "extra_replicas": 9,
        "cut_together": 10,
        "shape": "gentle",
        "mode": "wave",
        "order": "plan",
        "internal": "first",
    }
    options = [x for k, v in given.items() for x in (f"--{k.replace('_', '-')}", str(v))]

    limits = answer(check(plan_sandbox.plan(orders_0=(4, 2, 3)), "--json", *options))["limits"]

    assert limits == {**given, "brokers": []}


def test_steps_leave_a_cordoned_broker_at_once_where_kafka_takes_no_list_that_names_it(
    plan_sandbox: PlanSandbox,
) -> None:
    def steps(version: str) -> list[list[int]]:
        cluster = a_cluster({"orders": [(1, 2, 4)]}, version=version)
        cluster.configure([ConfigChange(broker_resource(4), CORDONED, ConfigOp.SET, EVERY)])
        plan_sandbox.cluster(cluster)
        expected = answer(check(plan_sandbox.plan(orders_0=(1, 2, 3)), "--json", "--steps"))
        return [step["replicas"] for step in expected["partitions"][0]["steps"]]

    assert steps("4.4") == [[1, 2, 3]]
    assert steps("4.3") == [[1, 2, 4, 3], [1, 2, 3]]


def test_it_is_a_warning_if_too_few_would_be_in_sync_without_a_cordoned_broker(
    plan_sandbox: PlanSandbox,
) -> None:
    configs = {"min.insync.replicas": "2"}
    cluster = a_cluster({"orders": [(1, 4)]}, version="4.4", configs=configs)
    cluster.configure([ConfigChange(broker_resource(4), CORDONED, ConfigOp.SET, EVERY)])
    plan_sandbox.cluster(cluster)

    expected = answer(check(plan_sandbox.plan(orders_0=(1, 3)), "--json", "--steps"))

    assert expected["partitions"][0]["steps"] == []
    (warning,) = found(expected, "warning")
    assert warning["sentence"] == (
        "broker 4 is cordoned, and without it fewer would be in sync than min.insync.replicas: the "
        "run waits with orders-0 until you lift the cordon with ktui broker uncordon 4"
    )
