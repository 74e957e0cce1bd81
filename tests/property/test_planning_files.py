"""Any plan file is read as written or refused with the places of its problems."""

from __future__ import annotations

import json
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.planning.plan import ANY_LOG_DIR, LARGEST, PartitionTarget, Plan, plan_as_json
from ktui.planning.read.json_cursor import BadPlan
from ktui.planning.read.read import find_problems, read_plan

NAME = "abcXYZ019._-"
topics = st.text(NAME, min_size=1, max_size=249).filter(lambda name: name not in {".", ".."})
numbers = st.integers(0, LARGEST)
brokers = st.lists(numbers, min_size=1, max_size=6, unique=True).map(tuple)


@st.composite
def targets(draw: st.DrawFn) -> PartitionTarget:
    replicas = draw(brokers)
    log_dirs: tuple[Literal["any"], ...] = ()
    if draw(st.booleans()):
        log_dirs = tuple(ANY_LOG_DIR for _ in replicas)
    original = draw(st.just(()) | brokers)
    return PartitionTarget(draw(topics), draw(numbers), replicas, log_dirs, original)


plans = st.lists(targets(), min_size=1, max_size=8, unique_by=lambda target: target.tp).map(
    lambda found: Plan(tuple(found))
)
PIECES = [
    *'{}[]:,"\\ \n\t-019.eE',
    *("version", "partitions", "topic", "partition", "replicas", "log_dirs", "any", "NaN", "true"),
    *("null", "\ufeff", "ä", "\x00", '"x":', "[[", "1,1", "//", "\\u00", "Infinity", "{}"),
]


def _read_or_refused(data: bytes) -> Plan | BadPlan:
    try:
        return read_plan(data)
    except BadPlan as bad:
        return bad


def _agree(data: bytes) -> None:
    """Check that the fast reader and the one that finds places agree."""
    answer = _read_or_refused(data)
    slow = find_problems(data)
    if isinstance(answer, Plan):
        assert slow is None
        assert [json.loads(plan_as_json(answer))] == [json.loads(data)]
    else:
        assert slow is not None, answer
        assert answer.problems == slow.problems
        assert all(problem.place is not None for problem in answer.problems)
        assert str(answer)


@given(plans)
def test_a_plan_survives_writing_and_reading(plan: Plan) -> None:
    text = plan_as_json(plan)
    assert read_plan(text.encode()).partitions == plan.partitions
    assert find_problems(text.encode()) is None


@given(plans, st.sampled_from([None, 0, 3]), st.booleans())
def test_a_plan_is_the_same_in_any_layout(plan: Plan, indent: int | None, reverse: object) -> None:
    rows = json.loads(plan_as_json(plan))["partitions"]
    if reverse:
        rows = [dict(reversed(row.items())) for row in rows]
    text = json.dumps({"partitions": rows, "version": 1}, indent=indent)
    assert read_plan(text.encode()).partitions == plan.partitions


@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_refused_as_a_bad_plan(data: bytes) -> None:
    with pytest.raises(BadPlan) as bad:
        read_plan(data)
    assert bad.value.problems


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_pieces_of_json_in_any_order_are_read_the_same_by_both_readers(text: str) -> None:
    _agree(text.encode())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
rows = st.fixed_dictionaries(
    {},
    optional={
        "topic": topics | json_values,
        "partition": numbers | json_values,
        "replicas": brokers | st.lists(st.integers(-1, 3)) | json_values,
        "log_dirs": st.lists(st.just("any") | json_values, max_size=3) | json_values,
        "original_replicas": brokers | json_values,
    },
)
files = st.fixed_dictionaries(
    {"version": st.just(1) | json_values, "partitions": st.lists(rows, max_size=4) | json_values}
)


@given(files, st.sampled_from([None, 2]))
def test_json_of_any_shape_is_read_the_same_by_both_readers(
    file: object, indent: int | None
) -> None:
    _agree(json.dumps(file, indent=indent).encode())


@given(plans, st.data())
def test_a_plan_with_some_bytes_changed_is_read_the_same_by_both_readers(
    plan: Plan, data: st.DataObject
) -> None:
    text = plan_as_json(plan).encode()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 4)))
    piece = data.draw(st.sampled_from([b"", *(p.encode() for p in PIECES)]) | st.binary(max_size=3))
    _agree(text[:start] + piece + text[end:])
