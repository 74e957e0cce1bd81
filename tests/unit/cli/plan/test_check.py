"""`ktui plan check`: what it says, and the steps that it lists."""

import os
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from ktui.cli.context.terminal import BadInput
from ktui.cli.main import ktui
from support.cli.start_sandbox import PlanSandbox, answer, check, found
from support.simulated.moving_clusters import a_cluster

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
def test_a_bad_plan_is_refused_with_all_its_mistakes_before_ktui_connects(name: str) -> None:
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


def test_a_plan_from_a_closed_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)

    with pytest.raises(BadInput, match="there is no standard input"):
        ktui.main(["plan", "check", "-"], standalone_mode=False)


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


def test_findings_of_one_severity_are_in_the_order_of_the_file(plan_sandbox: PlanSandbox) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3), (1, 2, 3)]}))

    output = answer(check(plan_sandbox.plan(orders_0=(1, 2), order_0=(1, 2, 77)), "--json"), 2)

    assert [(p["place"]["line"], p["kind"]) for p in found(output, "problem")] == [
        (2, "replication factor change"),
        (3, "topic unknown"),
        (3, "broker unknown"),
    ]


def test_someone_elses_move_is_warned_of_and_counted_from_its_original_replicas(
    plan_sandbox: PlanSandbox,
) -> None:
    plan_sandbox.cluster(a_cluster(moving=["orders-0"]))  # from 1, 2 and 3 to 4, 2 and 3

    output = answer(check(plan_sandbox.plan(orders_0=(4, 2, 3)), "--json"))

    assert [warning["kind"] for warning in found(output, "warning")] == ["foreign reassignment"]
    changes = {each["broker"]: (each["gains"], each["loses"]) for each in output["brokers"]}
    assert {b: change for b, change in changes.items() if any(change)} == {1: (0, 1), 4: (1, 0)}


@pytest.mark.usefixtures("nobody_connects")
@pytest.mark.parametrize("rate", ["fast", "0", "-1MB/s", "10 parsecs/s", "0MB/s"])
def test_a_malformed_rate_is_refused_with_its_option_before_ktui_connects(rate: str) -> None:
    result = check("plan.json", "--rate", rate)

    assert isinstance(result.exception, BadInput)
    assert str(result.exception).startswith("--rate: ")


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
