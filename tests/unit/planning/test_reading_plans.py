"""Reading plans, and the limits of reading."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import msgspec
import pytest

from ktui.cluster.partition import TopicPartition
from ktui.planning.plan import PartitionTarget, Plan, plan_as_json
from ktui.planning.read import read as planfile
from ktui.planning.read.json_cursor import MOST_TOLD, BadPlan, Problem
from ktui.planning.read.read import find_problems, read_plan

PRINTED_BY_KAFKA = (
    b'{"version":1,"partitions":['
    b'{"topic":"foo","partition":0,"replicas":[1,2],"log_dirs":["any","any"]},'
    b'{"topic":"foo","partition":1,"replicas":[2,3],"log_dirs":["any","any"]}]}'
)
OF_KIP_236 = b"""{"version":1,
 "partitions":[{"topic": "foo1",
                "partition": 0,
                "replicas": [1,2,4],
                "original_replicas": [1,2,3]
               }]
}
"""


def _refused(source: bytes | Path) -> BadPlan:
    with pytest.raises(BadPlan) as bad:
        read_plan(source)
    return bad.value


def _row(partition: int, replicas: str = "[1, 2]") -> str:
    return f'{{"topic": "orders", "partition": {partition}, "replicas": {replicas}}}'


def _file(rows: list[str]) -> bytes:
    return f'{{"version": 1, "partitions": [{", ".join(rows)}]}}'.encode()


def test_the_output_of_kafkas_tool_is_a_plan() -> None:
    plan = read_plan(PRINTED_BY_KAFKA)
    assert plan.partitions == (
        PartitionTarget("foo", 0, (1, 2), ("any", "any")),
        PartitionTarget("foo", 1, (2, 3), ("any", "any")),
    )
    assert plan.partitions[1].tp == TopicPartition("foo", 1)


def test_original_replicas_are_kept_for_comparison() -> None:
    assert read_plan(OF_KIP_236).partitions == (
        PartitionTarget("foo1", 0, (1, 2, 4), original_replicas=(1, 2, 3)),
    )


def test_the_order_of_keys_and_whitespace_do_not_matter() -> None:
    odd = (
        b' {"partitions" :\r\n[{"replicas":[ 7 ],\t"topic":"a_b-c.d","partition":-0}],"version":1} '
    )
    assert read_plan(odd).partitions == (PartitionTarget("a_b-c.d", 0, (7,)),)


def test_escapes_in_a_name_are_decoded() -> None:
    escaped = (
        rb'{"version":1,"partitions":[{"topi\u0063":"\u006frders","partition":0,"replicas":[1]}]}'
    )
    assert read_plan(escaped).partitions == (PartitionTarget("orders", 0, (1,)),)


def test_the_largest_numbers_are_read() -> None:
    largest = 2**31 - 1
    plan = read_plan(_file([_row(largest, f"[0, {largest}]")]))
    assert plan.partitions == (PartitionTarget("orders", largest, (0, largest)),)


def test_a_plan_is_read_from_its_path(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(PRINTED_BY_KAFKA)
    assert read_plan(file) == read_plan(PRINTED_BY_KAFKA)


@pytest.mark.parametrize("name", ["missing.json", ".", "with\0nul", "plan\x1b[31m.json"])
def test_a_path_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    bad = _refused(tmp_path / name)
    assert len(bad.problems) == 1
    assert "cannot be read" in str(bad)
    assert str(bad).isprintable()


def test_a_file_that_is_too_large_is_refused_with_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planfile, "MOST_BYTES", 2 * 1024**2)
    bad = _refused(PRINTED_BY_KAFKA.ljust(2 * 1024**2 + 1))
    assert bad.problems == (
        Problem(None, "larger than 2 MiB, the most that is read: split the plan"),
    )


def test_an_endless_pipe_is_read_only_up_to_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planfile, "MOST_BYTES", 4)
    read, write = os.pipe()
    try:
        os.write(write, b"     ")
        assert "larger than 0 MiB" in str(_refused(Path(f"/dev/fd/{read}")))
    finally:
        os.close(read)
        os.close(write)


def test_a_plan_with_too_many_partitions_is_refused_with_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ktui.planning.read.read.MOST_PARTITIONS", 3)
    monkeypatch.setattr(planfile, "MOST_PARTITIONS", 3)
    assert len(read_plan(_file([_row(n) for n in range(3)])).partitions) == 3
    bad = _refused(_file([_row(n) for n in range(4)]))
    assert [problem.sentence for problem in bad.problems] == [
        "more than 3 partitions: split the plan"
    ]
    assert bad.problems[0].place is not None
    assert bad.problems[0].place.path == "partitions[3]"


def test_mistakes_beyond_the_first_hundred_are_counted() -> None:
    bad = _refused(_file([_row(n, f"[{n}, {n}]") for n in range(3220)]))
    assert len(bad.problems) == MOST_TOLD == 100
    assert bad.more == 3120
    lines = str(bad).splitlines()
    assert lines[-1] == "and 3,120 more"
    assert lines[99].startswith("1:")
    assert "partitions[99].replicas[1]: broker 99 is named twice" in lines[99]


def test_one_mistake_in_every_partition_is_reported_once_and_counted() -> None:
    bad = _refused(_file([_row(n, "[1, 1]") for n in range(42)]))

    assert [problem.sentence for problem in bad.problems] == [
        "broker 1 is named twice, first at [0]; keep one; and 41 more like it"
    ]


def test_up_to_three_mistakes_alike_are_all_shown() -> None:
    bad = _refused(_file([_row(n, "[1, 1]") for n in range(3)]))

    assert len(bad.problems) == 3
    assert "more like it" not in str(bad)


CURRENT = """Current partition replica assignment

{"version":1,"partitions":[{"topic":"foo","partition":0,"replicas":[1,2],\
"log_dirs":["/data/a","/data/b"]}]}

""".replace("\\\n", "")
EXECUTED = (
    f"{CURRENT}Save this to use as the --reassignment-json-file option during rollback\n"
    "Successfully started partition reassignment for foo-0\n"
)
GENERATED = f"""{CURRENT}Proposed partition reassignment configuration
{{"version":1,"partitions":[{{"topic":"foo","partition":0,"replicas":[3,2],\
"log_dirs":["any","any"]}}]}}
""".replace("\\\n", "")


def test_the_way_back_that_kafkas_tool_prints_with_log_dirs_is_a_plan() -> None:
    text = CURRENT.splitlines()[2].encode()

    (target,) = read_plan(text).partitions

    assert target == PartitionTarget("foo", 0, (1, 2), ("/data/a", "/data/b"))
    assert [*target.named_log_dirs] == [(1, "/data/a"), (2, "/data/b")]


@pytest.mark.parametrize(
    ("printed", "replicas", "note"),
    [
        (EXECUTED, (1, 2), "the output of --execute: the plan is its current assignment"),
        (GENERATED, (3, 2), "the output of --generate: the plan is its proposed assignment"),
        (f"WARN an old setting\n{EXECUTED}", (1, 2), "the output of --execute"),
        (EXECUTED.replace("\n", "\r\n"), (1, 2), "the output of --execute"),
    ],
)
def test_saved_output_of_kafkas_tool_is_the_plan_that_it_is_meant_for(
    printed: str, replicas: tuple[int, ...], note: str
) -> None:
    plan = read_plan(printed.encode())

    assert [target.replicas for target in plan.partitions] == [replicas]
    assert note in plan.note


def test_a_mistake_in_saved_output_has_the_line_that_it_has_in_the_file() -> None:
    bad = _refused(GENERATED.replace("[3,2]", "[3,3]").encode())

    (problem,) = bad.problems
    assert problem.place is not None
    assert (problem.place.line, problem.place.path) == (6, "partitions[0].replicas[1]")


def test_distant_mistakes_each_have_their_own_line() -> None:
    rows = [_row(n) for n in range(5000)]
    rows[4] = _row(4, "[]")
    rows[4000] = _row(3, "[2]")
    rows[4999] = _row(4999, "[-1]")
    bad = _refused(_file(rows).replace(b", {", b",\n{"))
    places = [problem.place for problem in bad.problems]
    assert [place and (place.line, place.path) for place in places] == [
        (5, "partitions[4].replicas"),
        (4001, "partitions[4000]"),
        (5000, "partitions[4999].replicas[0]"),
    ]
    assert "first on line 4 as partitions[3]" in bad.problems[1].sentence


def test_a_column_counts_characters_and_not_bytes() -> None:
    bad = _refused('{"ä€😀": 1, "version": 2, "partitions": []}'.encode())
    columns = [problem.place and problem.place.column for problem in bad.problems]
    assert columns == [2, 23, 40]


def test_no_problem_is_found_in_a_sound_plan() -> None:
    assert find_problems(PRINTED_BY_KAFKA) is None
    assert find_problems(OF_KIP_236) is None


def test_a_plan_is_written_as_kafkas_json_with_one_partition_per_line() -> None:
    plan = Plan(
        (
            PartitionTarget("orders", 0, (1, 2), original_replicas=(3, 4)),
            PartitionTarget("orders", 1, (2, 3), ("any", "any")),
        )
    )
    assert plan_as_json(plan) == (
        '{"version": 1, "partitions": [\n'
        '  {"topic":"orders","partition":0,"replicas":[1,2],"original_replicas":[3,4]},\n'
        '  {"topic":"orders","partition":1,"replicas":[2,3],"log_dirs":["any","any"]}\n'
        "]}\n"
    )


def test_an_empty_plan_is_written_as_json() -> None:
    assert json.loads(plan_as_json(Plan(()))) == {"version": 1, "partitions": []}


def test_a_mistake_that_only_the_fast_reader_finds_is_still_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Refusing:
        def decode(self, _data: bytes) -> None:
            raise msgspec.DecodeError("something is odd")

    monkeypatch.setattr(planfile, "_DECODER", Refusing())
    assert re.fullmatch("something is odd", str(_refused(PRINTED_BY_KAFKA)))
