"""`ktui plan check` tells what is wrong with a plan, and what it would do, before it is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ktui.cli.context.errors import BadInput
from ktui.cli.main import ktui
from ktui.cli.plan.command import check as check_command
from ktui.simulated import events
from support.cli.plan_desk import Desk, answer, check
from support.simulated.moving_clusters import a_cluster, throttle, wait

SIZE = 1_000_000_000
"""Of each partition."""
DISK = 1_000 * 1024**3
CORPUS = Path(__file__).parents[2] / "planning" / "corpus"
TOLD = dict(
    entry.split("\n", 1) for entry in (CORPUS / "told.txt").read_text().strip().split("\n\n")
)


@pytest.fixture
def nobody_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object) -> None:
        raise AssertionError("a bad plan needs no cluster")

    monkeypatch.setattr("ktui.cli.plan.command.choose_cluster", connect)


@pytest.mark.usefixtures("nobody_connects")
@pytest.mark.parametrize("name", sorted(TOLD))
def test_a_bad_plan_is_refused_with_all_its_mistakes_before_anything_is_connected_to(
    name: str,
) -> None:
    result = check(str(CORPUS / name))

    told = [line.strip() for line in TOLD[name].splitlines()]
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        line if line.startswith("and ") else f"{CORPUS / name}:{line}" for line in told
    ]


@pytest.mark.usefixtures("nobody_connects")
def test_a_bad_plan_from_standard_input_is_named_so() -> None:
    result = check("-", read=b'{"version": 2,\n "partitions": []}')

    assert result.exit_code == 2
    assert [line.split(": ")[:2] for line in result.stderr.splitlines()] == [
        ["<stdin>:1:13", "version"],
        ["<stdin>:2:16", "partitions"],
    ]


@pytest.mark.usefixtures("nobody_connects")
def test_a_plan_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = check(str(tmp_path / "plan.json"))

    assert result.exit_code == 2
    assert result.stderr == f"{tmp_path / 'plan.json'}: cannot be read: No such file or directory\n"


def test_a_closed_standard_input_holds_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)

    with pytest.raises(BadInput, match="there is no standard input"):
        check_command.main(["-"], standalone_mode=False)


def test_a_sound_plan_is_summed_up(desk: Desk) -> None:
    desk.cluster(a_cluster({"orders": [(1, 2, 3), (2, 3, 1), (3, 1, 2), (4, 5, 6)]}))
    plan = desk.plan(orders_0=(4, 2, 3), orders_1=(3, 2, 5), orders_2=(3, 1, 2), orders_3=(4, 7, 8))

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
        "\n"
        "time  42 s (22 s-1m 42s), in about 3 batches\n"
        "      at least 20 s (10 s-50 s), as broker 8 gets 954 MiB\n"
        "      at 50 MB/s (20 MB/s to 100 MB/s) into each broker (assumed)\n"
        "\n"
        "No problem.\n"
    )


def test_a_plan_may_come_from_standard_input(desk: Desk) -> None:
    desk.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    plan = Path(desk.plan(orders_0=(4, 2, 3))).read_bytes()

    result = check("-", "--json", read=plan)

    assert answer(result)["plan"] == "<stdin>"


def test_each_problem_is_told_with_its_line_and_the_plan_is_not_fit(desk: Desk) -> None:
    desk.cluster(a_cluster({"orders": [(1, 2, 3)], "payments": [(1, 2, 3)]}))
    plan = desk.plan(order_0=(1, 2, 3), orders_0=(1, 2, 77), payments_0=(1, 2))

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


def test_findings_of_one_severity_stand_in_the_files_order(desk: Desk) -> None:
    desk.cluster(a_cluster({"orders": [(1, 2, 3), (1, 2, 3)]}))

    told = answer(check(desk.plan(orders_0=(1, 2), order_0=(1, 2, 77)), "--json"), 2)

    assert [(p["place"]["line"], p["kind"]) for p in told["problems"]] == [
        (2, "replication factor change"),
        (3, "topic unknown"),
        (3, "broker unknown"),
    ]


def test_what_is_allowed_is_a_problem_no_more(desk: Desk) -> None:
    desk.cluster(a_cluster({"orders": [(1, 2, 3)]}, configs={"min.insync.replicas": "2"}))
    plan = desk.plan(orders_0=(1,))

    assert check(plan).exit_code == 2
    assert check(plan, "--allow-replication-factor-change").exit_code == 2
    result = check(plan, "--allow-replication-factor-change", "--allow-below-min-isr")

    assert result.exit_code == 0
    assert "; allowed by --allow-below-min-isr\n" in result.stdout
    assert result.stdout.endswith("\nNo problem, 1 warning.\n")


def test_a_plan_that_is_carried_out_already_says_so(desk: Desk) -> None:
    desk.cluster(a_cluster({"orders": [(1, 2, 3), (2, 3, 1)]}))

    result = check(desk.plan(orders_0=(1, 2, 3), orders_1=(2, 3, 1)))

    assert result.exit_code == 0
    assert "nothing to do: every partition is at its target already (2)" in result.stdout
    assert result.stdout.endswith("\nNothing to do.\n")


def test_someone_elses_move_is_warned_of_and_counted_from_where_it_began(desk: Desk) -> None:
    desk.cluster(a_cluster(moving=["orders-0"]))  # from 1, 2 and 3 to 4, 2 and 3

    told = answer(check(desk.plan(orders_0=(4, 2, 3)), "--json"))

    assert [warning["kind"] for warning in told["warnings"]] == ["foreign reassignment"]
    assert told["summary"]["brokers"] == [
        {"broker": 1, "gains": 0, "loses": 1},
        {"broker": 4, "gains": 1, "loses": 0},
    ]


def test_topics_that_may_not_be_described_are_told_with_kafkas_words(desk: Desk) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    cluster.do(events.Deny("describe_topics"))
    desk.cluster(cluster)

    told = answer(check(desk.plan(orders_0=(4, 2, 3)), "--json", "--steps"), 2)

    assert [problem["kind"] for problem in told["problems"]] == ["topic unreadable"]
    assert told["summary"]["unknown"] == 1
    assert told["partitions"] == [{"topic": "orders", "partition": 0, "steps": None}]


def test_an_unknown_topic_is_told_even_where_names_may_not_be_read(desk: Desk) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    cluster.do(events.Deny("scan_topics"))
    desk.cluster(cluster)

    (problem,) = answer(check(desk.plan(order_0=(4, 2, 3)), "--json"), 2)["problems"]

    assert problem["sentence"] == "the cluster has no topic order"


def test_the_json_of_a_check_has_every_field_of_the_contract(desk: Desk) -> None:
    desk.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    plan = desk.plan(orders_0=(4, 2, 3, 5))

    told = answer(check(plan, "--json"), 2)

    assert list(told.items()) == [
        ("schema_version", 1),
        ("plan", plan),
        ("cluster", "prod-eu"),
        (
            "problems",
            [
                {
                    "place": {"line": 2, "column": 46, "path": "partitions[0].replicas"},
                    "kind": "replication factor change",
                    "partitions": [{"topic": "orders", "partition": 0}],
                    "sentence": "the replication factor changes from 3 to 4: orders-0",
                    "option": "--allow-replication-factor-change",
                }
            ],
        ),
        ("warnings", []),
        ("notes", []),
        (
            "summary",
            {
                "partitions": 1,
                "unknown": 0,
                "at_target": 0,
                "replica_movements": 2,
                "leader_movements": 1,
                "brokers": [
                    {"broker": 1, "gains": 0, "loses": 1},
                    {"broker": 4, "gains": 1, "loses": 0},
                    {"broker": 5, "gains": 1, "loses": 0},
                ],
                "replication_factor_changes": [{"from": 3, "to": 4, "partitions": 1}],
            },
        ),
        (
            "limits",
            {
                "replicas": 1,
                "partitions": 9,
                "leader_movements": None,
                "replica_movements": None,
                "per_broker": None,
                "extra_replicas": None,
                "cut_together": None,
                "shape": "gentle",
                "mode": "rolling",
                "order": "topic",
            },
        ),
        ("throttle", {"every": None, "brokers": []}),
        ("throttle_leaders", False),
        (
            "preflight",
            {
                "bytes_to_copy": 2 * SIZE,
                "sizes_unknown": 0,
                "brokers": [
                    load(1, loses=1, room=SIZE),
                    load(4, gains=1),
                    load(5, gains=1),
                ],
                "shapes": [
                    shape("gentle", alters=3, elections=0, bumps=1, most=5),
                    shape("kip-435", alters=2, elections=1, bumps=2, most=5),
                ],
                "batches": 3,
                "time_s": {"low": 21.0, "middle": 41.0, "high": 101.0},
                "bound": {"broker": 5, "time_s": {"low": 10.0, "middle": 20.0, "high": 50.0}},
                "rates": {
                    "assumed_bytes_s": {"low": 20e6, "middle": 50e6, "high": 100e6},
                    "throttles": [],
                },
            },
        ),
    ]


def load(broker: int, *, gains: int = 0, loses: int = 0, room: int = 0) -> dict[str, int]:
    """Give the figures of a broker that now has so many bytes of the disk less."""
    return {
        "broker": broker,
        "gains": gains,
        "loses": loses,
        "bytes_in": gains * SIZE,
        "bytes_out": loses * SIZE,
        "disk_bytes": DISK,
        "room_bytes": DISK - room,
        "room_after_bytes": DISK - room + (loses - gains) * SIZE,
        "room_at_peak_bytes": DISK - room - gains * SIZE,
    }


def shape(name: str, *, alters: int, elections: int, bumps: int, most: int) -> dict[str, Any]:
    return {
        "shape": name,
        "alters": alters,
        "elections": elections,
        "leader_epoch_bumps": bumps,
        "most_replicas": most,
        "peak_extra_replicas": most - 4,
    }


def test_the_assumed_rate_is_taken_by_its_option(desk: Desk) -> None:
    desk.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    plan = desk.plan(orders_0=(4, 2, 3))

    told = answer(check(plan, "--json", "--assume-rate", "10MB/s"))["preflight"]

    assert told["time_s"] == {"low": 101.0, "middle": 101.0, "high": 101.0}
    assert answer(check(plan, "--json", "--assume-rate", "1000000"))["preflight"]["time_s"] == {
        **dict.fromkeys(("low", "middle", "high"), 1001.0)
    }


@pytest.mark.usefixtures("nobody_connects")
@pytest.mark.parametrize("rate", ["fast", "0", "-1MB/s", "10 parsecs/s", "0MB/s"])
def test_a_rate_that_is_none_is_named_with_its_option_before_anything_is_connected_to(
    rate: str,
) -> None:
    result = check("plan.json", "--assume-rate", rate)

    assert isinstance(result.exception, BadInput)
    assert str(result.exception).startswith("--assume-rate: ")


def test_a_throttle_of_a_broker_is_the_rate_into_it(desk: Desk) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    cluster.do(throttle("follower", 4, 5_000_000))
    desk.cluster(cluster)

    result = check(desk.plan(orders_0=(4, 2, 3)))

    assert "time  3m 21s (3m 21s-6m 41s), in" in result.stdout
    assert "5.0 MB/s into broker 4, which is throttled\n" in result.stdout


def test_log_dirs_that_may_not_be_read_leave_the_figures_open(desk: Desk) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    cluster.do(events.Deny("log_dirs"))
    desk.cluster(cluster)
    plan = desk.plan(orders_0=(4, 2, 3))

    result, told = check(plan), answer(check(plan, "--json"))

    assert result.exit_code == 0
    (warning,) = told["warnings"]
    assert warning["kind"] == "disks unreadable"
    assert "broker 1, broker 2, broker 3 and 1 more could not be read" in warning["sentence"]
    assert told["preflight"]["time_s"] is None
    assert told["preflight"]["brokers"][1]["bytes_in"] is None
    assert result.stdout.endswith("\nNo problem, 1 warning.\n")


def test_a_disk_that_would_be_full_is_a_warning(desk: Desk) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    cluster.do(events.FillDisk(4, leave=SIZE // 2))
    desk.cluster(cluster)

    told = answer(check(desk.plan(orders_0=(4, 2, 3)), "--json"))

    assert [(w["kind"], w["place"]) for w in told["warnings"]] == [("disk full", None)]


def test_brokers_that_are_down_take_no_part_in_the_limits(desk: Desk) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    cluster.do(events.Shutdown(9))
    wait(cluster, 5.0)
    desk.cluster(cluster)

    told = answer(check(desk.plan(orders_0=(4, 2, 3)), "--json"))

    assert told["limits"]["partitions"] == 8


def test_a_hostile_file_name_is_shown_escaped(desk: Desk, tmp_path: Path) -> None:
    desk.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    plan = Path(desk.plan(orders_0=(4, 2, 3))).rename(tmp_path / "\x1b[31m\udcff.json")

    assert answer(check(str(plan), "--json"))["plan"] == f"{tmp_path}/\\x1b[31m\\udcff.json"


@pytest.mark.parametrize("arguments", [["plan", "--help"], ["plan", "check", "-h"]])
def test_it_explains_itself(arguments: list[str]) -> None:
    result = CliRunner().invoke(ktui, arguments)

    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")
