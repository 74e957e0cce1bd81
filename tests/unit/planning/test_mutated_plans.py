"""Sound plans broken in many ways, with a fixed seed: each is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from ktui.planning.read.json_cursor import BadPlan
from ktui.planning.read.read import read_plan

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
