"""Plan files read or refused; the sums before and after a plan; and its undo."""

import json
from datetime import UTC, datetime
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.run.events import (
    AnyRunEvent,
    JournalEntry,
    Planned,
    PlannedPart,
    StateEntered,
    StepBegun,
    StepOver,
)
from ktui.execution.run.plans import undo_plan
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.planning.intents.layout import Layout, before_after
from ktui.planning.json_cursor import BadPlan
from ktui.planning.plan import ANY_LOG_DIR, LARGEST, PartitionTarget, Plan, plan_as_json
from ktui.planning.read import find_problems, read_plan
from ktui.planning.replication_factor import BrokerPool

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


BROKERS = range(1, 7)
LISTS = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True).map(tuple)
SIZES = st.none() | st.integers(0, 10**12)
PARTITIONS = st.lists(st.tuples(LISTS, st.none() | LISTS, SIZES), max_size=12)
"""Of each partition the replicas, those of the plan if it has the partition, and the size."""


@settings(max_examples=200)
@given(PARTITIONS, st.lists(st.sampled_from([None, "a", "b"]), min_size=6, max_size=6))
def test_the_sums_of_brokers_and_racks_are_those_of_the_replica_lists(
    partitions: list[tuple[tuple[int, ...], tuple[int, ...] | None, int | None]],
    racks: list[str | None],
) -> None:
    tps = [TopicPartition("orders", number) for number in range(len(partitions))]
    known = dict(zip(tps, partitions, strict=True))
    of_brokers = dict(zip(BROKERS, racks, strict=True))
    layout = Layout(
        partitions={
            tp: PartitionState(tp, None, now, now, now[0]) for tp, (now, _, _) in known.items()
        },
        pool=BrokerPool(online=frozenset(BROKERS), racks=of_brokers),
        known=frozenset(BROKERS),
        sizes={tp: size for tp, (_, _, size) in known.items() if size is not None},
    )
    targets = {tp: target for tp, (_, target, _) in known.items() if target is not None}

    found = before_after(
        layout,
        Plan(tuple(PartitionTarget(tp.topic, tp.partition, to) for tp, to in targets.items())),
    )

    now = {tp: replicas for tp, (replicas, _, _) in known.items()}
    for lists, held in (
        (now, [each.before for each in found.brokers]),
        ({**now, **targets}, [each.after for each in found.brokers]),
    ):
        assert sum(each.replicas for each in held) == sum(map(len, lists.values()))
        assert sum(each.leaders for each in held) == len(lists)
        assert sum(each.bytes for each in held) == sum(
            layout.size(tp) * len(brokers) for tp, brokers in lists.items()
        )
    for rack in found.racks:
        mine = [each for each in found.brokers if each.rack == rack.rack]
        assert rack.after.bytes == sum(each.after.bytes for each in mine)
        assert rack.before.replicas == sum(each.before.replicas for each in mine)
    assert {each.rack for each in found.racks} == {*racks} - {None}
    assert found.bytes == sum(
        layout.size(tp) * len({*to} - {*now[tp]}) for tp, to in targets.items()
    )


AT = datetime(2026, 11, 21, tzinfo=UTC)
Replicas = tuple[int, ...]

lists = st.lists(st.integers(1, 5), min_size=1, max_size=3, unique=True).map(tuple)


@st.composite
def moves(draw: st.DrawFn) -> tuple[Replicas, Replicas, Replicas, Replicas, bool, bool]:
    """Draw a partition: before, target, now, what is being added, whether begun, whether there."""
    before, target, others = draw(lists), draw(lists), draw(lists)
    now = draw(st.sampled_from((before, target, others)))
    adding = draw(st.sampled_from(((), (), (6,))))
    return before, target, now, adding, draw(st.booleans()), draw(st.integers(0, 5)) > 0


@given(st.lists(moves(), max_size=8))
def test_every_partition_that_the_run_changed_goes_back_or_is_named_or_is_as_before(
    drawn: list[tuple[Replicas, Replicas, Replicas, Replicas, bool, bool]],
) -> None:
    run, partitions, absent = Run("run"), {}, set()
    back, left = {}, set()
    for n, (before, target, now, adding, begun, there) in enumerate(drawn):
        tp = TopicPartition("orders", n)
        _fold(run, n, before, target, begun=begun)
        if there:
            partitions[tp] = PartitionState(tp, "id", (*now, *adding), now, now[0], adding=adding)
        else:
            absent.add(tp)
        if not begun or (there and not adding and now == before):
            continue
        if there and not adding and now == target:
            back[tp] = before
        else:
            left.add(tp)

    undo = undo_plan(run, _seen(partitions, absent))

    assert {each.tp: each.replicas for each in undo.plan.partitions} == back
    assert {each.tp for each in undo.left} == left
    assert all(each.why for each in undo.left)


def _fold(run: Run, n: int, before: Replicas, target: Replicas, *, begun: bool) -> None:
    planned = Planned("orders", n, "id", target, before, before[0])
    events: list[AnyRunEvent] = [PlannedPart(partitions=(planned,))]
    if begun:
        step = StepBegun(
            topic="orders",
            partition=n,
            batch=1,
            replicas=target,
            adding=tuple(set(target) - set(before)),
            removing=tuple(set(before) - set(target)),
            elect=None,
            before=before,
            leader=before[0],
        )
        over = StepOver(topic="orders", partition=n, replicas=target, leader=target[0])
        done = StateEntered(topic="orders", partition=n, state=State.DONE)
        events += [step, over, done]
    for event in events:
        run.apply(JournalEntry(run.seq + 1, AT, event))


def _seen(
    partitions: dict[TopicPartition, PartitionState], absent: set[TopicPartition]
) -> Observation:
    return Observation(
        cluster_id="id",
        controller=1,
        brokers={},
        partitions=partitions,
        absent=frozenset(absent),
        at=AT,
        monotonic_s=0.0,
        took_s=0.0,
    )
