"""Plans are read, and bad ones are told where they are bad."""

import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktui.cluster.partition import TopicPartition
from ktui.planning import read as planfile
from ktui.planning.json_cursor import MOST_TOLD, BadPlan, Problem
from ktui.planning.plan import PartitionTarget, Plan, plan_as_json
from ktui.planning.read import find_problems, read_plan

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


def test_an_endless_pipe_is_read_only_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
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
    monkeypatch.setattr("ktui.planning.read.MOST_PARTITIONS", 3)
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


CORPUS = Path(__file__).parent / "corpus"
EXPECTED = dict(
    entry.split("\n", 1) for entry in (CORPUS / "problems.txt").read_text().strip().split("\n\n")
)


def _expected(name: str) -> list[str]:
    return [line.strip() for line in EXPECTED[name].splitlines()]


def test_every_bad_plan_of_the_corpus_has_its_expected_mistakes() -> None:
    assert {file.name for file in CORPUS.glob("*.json")} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_bad_plan_is_refused_with_every_mistake_and_its_place(name: str) -> None:
    with pytest.raises(BadPlan) as bad:
        read_plan((CORPUS / name).read_bytes())
    assert str(bad.value).splitlines() == _expected(name)
    assert bad.value.problems
    assert all(problem.place is not None for problem in bad.value.problems)


def test_each_mistake_of_a_plan_is_reported_with_the_file_name() -> None:
    file = CORPUS / "partition-three-times.json"
    with pytest.raises(BadPlan) as bad:
        read_plan(file)
    lines = str(bad.value).splitlines()
    assert [line.split(": ")[0].rpartition("/")[2] for line in lines] == [
        "partition-three-times.json:5:5",
        "partition-three-times.json:6:5",
    ]


EACH = 15
Change = Callable[[random.Random, dict[str, Any]], object]
Break = Callable[[random.Random, bytes], bytes]


def _good(chance: random.Random) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for number in range(chance.randint(1, 12)):
        replicas = chance.sample(range(20), chance.randint(1, 5))
        row: dict[str, Any] = {"topic": "orders", "partition": number, "replicas": replicas}
        if chance.random() < 0.5:
            row["log_dirs"] = ["any"] * len(replicas)
        if chance.random() < 0.5:
            row["original_replicas"] = chance.sample(range(20), 3)
        rows.append(row)
    return {"version": 1, "partitions": rows}


def _any_row(chance: random.Random, plan: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = chance.choice(plan["partitions"])
    return row


def _no_number(chance: random.Random) -> object:
    odd: list[object] = [
        -1,
        2**31,
        10**30,
        0.0,
        1.5,
        1e300,
        True,
        False,
        None,
        "1",
        "",
        [],
        [1],
        {},
    ]
    return chance.choice([*odd, float("nan"), float("inf"), -float("inf")])


def _no_name(chance: random.Random) -> object:
    odd = ["", ".", "..", "a b", "a/b", "ä", "\x1b[0m", "\n", "a\0b", "x" * 250, "a:b", '"', "{"]
    return chance.choice([*odd, "\ud800", None, 1, True, [], {"topic": "orders"}])


def _no_list(chance: random.Random) -> object:
    return chance.choice([[], None, "1,2", 1, True, {}, {"0": 1}, [[1]], [None], [1, "2"]])


def _drop_key(chance: random.Random, plan: dict[str, Any]) -> None:
    where = chance.choice([plan, _any_row(chance, plan)])
    del where[chance.choice([key for key in where if key in _NEEDED])]


_NEEDED = {"version", "partitions", "topic", "partition", "replicas"}


def _misspell_key(chance: random.Random, plan: dict[str, Any]) -> None:
    where = chance.choice([plan, _any_row(chance, plan)])
    key = chance.choice(list(where))
    at = chance.randrange(len(key))
    where[key[:at] + chance.choice("xyz_") + key[at + 1 :]] = where.pop(key)


def _add_key(chance: random.Random, plan: dict[str, Any]) -> None:
    where = chance.choice([plan, _any_row(chance, plan)])
    where[chance.choice(["", "brokers", "throttle", "\x1b", "ä"])] = _no_name(chance)


def _repeat_replica(chance: random.Random, plan: dict[str, Any]) -> None:
    row = _any_row(chance, plan)
    row.pop("log_dirs", None)
    row["replicas"].insert(chance.randint(0, len(row["replicas"])), row["replicas"][0])


def _replace_replica(chance: random.Random, plan: dict[str, Any]) -> None:
    replicas = _any_row(chance, plan)["replicas"]
    replicas[chance.randrange(len(replicas))] = _no_number(chance)


def _repeat_partition(chance: random.Random, plan: dict[str, Any]) -> None:
    rows = plan["partitions"]
    rows.insert(chance.randint(0, len(rows)), {**_any_row(chance, plan)})


def _lengthen_log_dirs(chance: random.Random, plan: dict[str, Any]) -> None:
    row = _any_row(chance, plan)
    wrong = [n for n in range(8) if n != len(row["replicas"])]
    row["log_dirs"] = ["any"] * chance.choice(wrong)


def _choose_log_dir(chance: random.Random, plan: dict[str, Any]) -> None:
    row = _any_row(chance, plan)
    row["log_dirs"] = ["any"] * len(row["replicas"])
    row["log_dirs"][chance.randrange(len(row["replicas"]))] = chance.choice(
        ["data", "", "ANY", 1, None, "any ", "/a:b", "/a{", "/ä"]
    )


CHANGES: dict[str, Change] = {
    "a key is missing": _drop_key,
    "a key is misspelt": _misspell_key,
    "a key too many": _add_key,
    "a version that is not 1": lambda r, p: p.update(version=r.choice([0, 2, "1", 1.0, True, []])),
    "a replica twice": _repeat_replica,
    "a replica that is not a broker id": _replace_replica,
    "replicas that are no list": lambda r, p: _any_row(r, p).update(replicas=_no_list(r)),
    "original replicas that are no list": (
        lambda r, p: _any_row(r, p).update(original_replicas=_no_list(r))
    ),
    "a partition twice": _repeat_partition,
    "a partition that is no number": lambda r, p: _any_row(r, p).update(partition=_no_number(r)),
    "a topic that can be none": lambda r, p: _any_row(r, p).update(topic=_no_name(r)),
    "log dirs of another length": _lengthen_log_dirs,
    "a log dir that is no path": _choose_log_dir,
    "partitions that are no list": lambda r, p: p.update(partitions=_no_list(r)),
}


def _cut(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.randrange(len(data))]


def _append(chance: random.Random, data: bytes) -> bytes:
    return data + chance.choice([b"x", b"{}", b"]", b"\0", b"\xff", b"\xef\xbb\xbf", b"//", data])


def _prepend(chance: random.Random, data: bytes) -> bytes:
    return chance.choice([b"\xef\xbb\xbf", b"\xff\xfe", b"\0", b",", b"#!", b"\x0c", b"["]) + data


def _break_structure(chance: random.Random, data: bytes) -> bytes:
    at = chance.choice([i for i, byte in enumerate(data) if byte in b'{}[]:"'])
    return data[:at] + chance.choice([b"", b"'", b";", b"\0", b"\xc3", b"("]) + data[at + 1 :]


def _repeat_key(chance: random.Random, data: bytes) -> bytes:
    return chance.choice(
        [
            data.replace(b'"topic"', b'"topic": "orders", "topic"', 1),
            data.replace(b'"partition"', b'"partition": 0, "partition"', 1),
            data.replace(b'"replicas"', b'"replicas": [1], "replicas"', 1),
            data.replace(b'"version"', b'"version": 1, "version"', 1),
            data[:-1] + b', "partitions": []}',
        ]
    )


def _stray_comma(chance: random.Random, data: bytes) -> bytes:
    at = chance.choice([i for i, byte in enumerate(data) if byte in b"}]"])
    return data[:at] + b"," + data[at:]


BREAKS: dict[str, Break] = {
    "cut off": _cut,
    "something behind it": _append,
    "something before it": _prepend,
    "a broken bracket, colon or quote": _break_structure,
    "a key twice": _repeat_key,
    "a stray comma": _stray_comma,
    "another encoding": lambda r, data: data.decode().encode(r.choice(["utf-16", "utf-32"])),
    "nested too deep": lambda r, data: data.replace(b"[", b"[" * r.choice([2, 33, 9000]), 1),
}


def _seeded(name: str) -> random.Random:
    return random.Random(f"435 {name}")  # noqa: S311 - the same plans in every run


def _must_be_refused(data: bytes) -> None:
    with pytest.raises(BadPlan) as bad:
        read_plan(data)
    assert bad.value.problems, data
    for problem in bad.value.problems:
        assert problem.place is not None, data
        assert problem.place.line >= 1
        assert problem.place.column >= 1
    assert all(line.isprintable() for line in str(bad.value).splitlines())


def test_there_are_at_least_three_hundred_mutated_plans() -> None:
    assert EACH * (len(CHANGES) + len(BREAKS)) >= 300


@pytest.mark.parametrize("change", CHANGES)
def test_a_plan_with_one_wrong_value_is_refused_with_places(change: str) -> None:
    chance = _seeded(change)
    for _ in range(EACH):
        plan = _good(chance)
        CHANGES[change](chance, plan)
        _must_be_refused(json.dumps(plan, indent=chance.choice([None, 2])).encode())


@pytest.mark.parametrize("broken", BREAKS)
def test_a_plan_that_is_broken_as_text_is_refused_with_places(broken: str) -> None:
    chance = _seeded(broken)
    for _ in range(EACH):
        data = json.dumps(_good(chance), indent=chance.choice([None, 2])).encode()
        assert read_plan(data).partitions
        _must_be_refused(BREAKS[broken](chance, data))
