"""Whatever the plan and the limits, a preflight agrees with the steps that it forecasts."""

from collections import Counter

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from ktui.pacing.limits import Limits, Mode, Order, Shape
from ktui.pacing.situation import Situation
from ktui.pacing.steps import all_steps
from ktui.preview.facts import situations, steps_of
from support.cli.start_sandbox import GB, Way, a_plan, a_snapshot, how_long, preflight
from support.runs.pacing import broker_limits, replica_lists

BROKERS = range(1, 8)
some_replicas = replica_lists(BROKERS, 4)
ways = st.lists(st.tuples(some_replicas, some_replicas), min_size=1, max_size=8)
sizes = st.lists(st.integers(0, 20 * GB), min_size=8, max_size=8)
few = st.none() | st.integers(1, 3)
limits = st.builds(
    Limits,
    replicas=few,
    partitions=few,
    leader_movements=few,
    replica_movements=few,
    per_broker=few,
    per_leader=few,
    bytes_per_broker=st.none() | st.integers(1, 20 * GB),
    bytes_in_flight=st.none() | st.integers(1, 40 * GB),
    mode=st.sampled_from(Mode),
    order=st.sampled_from(Order),
    brokers=broker_limits(BROKERS),
) | st.builds(Limits, replicas=few, partitions=few, extra_replicas=few, cut_together=few)
shapes = st.sampled_from(Shape)
min_isrs = st.integers(1, 3)


def in_shape(drawn: Limits, shape: Shape) -> Limits:
    if shape is Shape.GENTLE:
        return drawn
    return msgspec.structs.replace(drawn, shape=shape, extra_replicas=None, cut_together=None)


@given(ways, limits, shapes, min_isrs)
def test_partitions_that_look_alike_take_the_steps_each_would_take_alone(
    some: list[Way], limits: Limits, shape: Shape, min_isr: int
) -> None:
    plan, snapshot = a_plan(*some), a_snapshot(*some, min_isr=min_isr)
    limits = in_shape(limits, shape)

    forecast = steps_of(plan, snapshot, limits)

    for known, partition in zip(situations(plan, snapshot), forecast, strict=True):
        assert known.situation is not None
        assert partition.steps is not None
        alone = all_steps(known.situation, limits)
        assert [(step.replicas, step.elect) for step in partition.steps] == [
            (step.target, step.elects) for step in alone
        ]


@given(ways, limits, shapes, min_isrs)
def test_preflight_counts_alters_elections_and_epochs_as_the_steps_do(
    some: list[Way], limits: Limits, shape: Shape, min_isr: int
) -> None:
    plan, snapshot = a_plan(*some), a_snapshot(*some, min_isr=min_isr)
    limits = in_shape(limits, shape)

    forecast = preflight(plan, snapshot, limits).in_force

    alters = elections = bumps = 0
    most = 0
    for known in situations(plan, snapshot):
        now = known.situation
        assert now is not None
        leader, held = now.leader, now.replicas
        steps = all_steps(now, limits)
        most = max(most, len(held) if steps else 0)
        for step in steps:
            alters += step.alters
            elections += step.elects is not None
            takes_leader = leader in step.drops
            bumps += bool(step.drops) + (step.elects is not None and not takes_leader)
            leader = now.target[0] if step.moves_leader else leader
            most = max(most, len({*held, *step.target}))
            held = step.target
    assert (forecast.alters, forecast.elections, forecast.leader_epoch_bumps) == (
        alters,
        elections,
        bumps,
    )
    assert forecast.most_replicas == most


@given(ways, sizes, limits, shapes)
@example([((7,), (7, 4, 6, 1))], [16_683_334] * 8, Limits(replicas=1), Shape.WHOLE)
def test_every_plan_takes_at_least_as_long_as_its_busiest_broker_needs(
    some: list[Way], sizes: list[int], limits: Limits, shape: Shape
) -> None:
    forecast = preflight(a_plan(*some), a_snapshot(*some, sizes=sizes), in_shape(limits, shape))

    assert (
        how_long(forecast).time_s.low
        <= how_long(forecast).time_s.middle
        <= how_long(forecast).time_s.high
    )
    bound = how_long(forecast).pacesetter
    if bound is not None:
        assert how_long(forecast).time_s.middle >= bound.time_s.middle - 1e-3
    assert (how_long(forecast).batches > 0) == (
        forecast.in_force.alters + forecast.in_force.elections > 0
    )


@given(ways, sizes, limits, shapes)
def test_bytes_follow_the_replicas_and_peak_usage_is_at_least_final_usage(
    some: list[Way], sizes: list[int], limits: Limits, shape: Shape
) -> None:
    rooms = dict.fromkeys(BROKERS, (200 * GB, 100 * GB))
    snapshot = a_snapshot(*some, sizes=sizes, rooms=rooms)
    forecast = preflight(a_plan(*some), snapshot, in_shape(limits, shape))

    come: Counter[int] = Counter()
    go: Counter[int] = Counter()
    for (before, after), size in zip(some, sizes, strict=False):
        come.update(dict.fromkeys({*after} - {*before}, size))
        go.update(dict.fromkeys({*before} - {*after}, size))
    for load in forecast.brokers:
        assert (load.bytes_in, load.bytes_out) == (come[load.broker], go[load.broker])
        assert load.room_after_bytes is not None
        assert load.room_at_peak_bytes is not None
        assert load.room_at_peak_bytes <= max(100 * GB, load.room_after_bytes)
        assert load.room_at_peak_bytes >= 100 * GB - come[load.broker]
        if load.room_after_bytes < 100 * GB:
            assert load.room_at_peak_bytes <= load.room_after_bytes
    assert forecast.bytes_to_copy == come.total()


@given(ways, limits)
def test_gentle_begins_at_most_one_epoch_per_partition_and_election(
    some: list[Way], limits: Limits
) -> None:
    limits = msgspec.structs.replace(limits, replicas=1, extra_replicas=None)

    forecast = preflight(a_plan(*some), a_snapshot(*some), limits).in_force

    assert forecast.leader_epoch_bumps <= len(some) + forecast.elections


def test_a_situation_combines_the_plan_and_the_cluster() -> None:
    some: list[Way] = [((1, 2), (3, 2))]

    (known,) = situations(a_plan(*some), a_snapshot(*some, min_isr=2))

    assert known.situation == Situation(
        replicas=(1, 2),
        isr=(1, 2),
        leader=1,
        target=(3, 2),
        online=frozenset({1, 2, 3}),
        min_insync_replicas=2,
    )
