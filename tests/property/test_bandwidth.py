"""Whatever happens to a cluster, its data stays within what machines and throttles allow."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import TopicPartition
from ktui.max_min import max_min_rates
from ktui.simulated.data.flows import EVERYWHERE, NOWHERE, Channel, Flow, Log
from ktui.simulated.data.replication import FlowEvent
from ktui.simulated.layout import Tide
from support.simulated.witness import MB, DataPlane, broker, data_plane, topic

BROKERS = 4
RESOURCES = 5  # resources of each broker: into it, out of it, and its three throttles
PATHS = broker(0, log_dirs=2).log_dir_paths
TIGHT = 1e-6

Classes = list[tuple[tuple[int, ...], int]]


@st.composite
def demands(draw: st.DrawFn) -> tuple[list[float], Classes]:
    """Draw resources and their users; the first resource always binds."""
    capacities = draw(st.lists(st.floats(0, 1e9) | st.just(math.inf), min_size=1, max_size=8))
    capacities[0] = draw(st.floats(0, 1e9))
    used = st.sets(st.integers(0, len(capacities) - 1), max_size=3).map(lambda s: tuple({0, *s}))
    return capacities, draw(st.lists(st.tuples(used, st.integers(1, 1_000)), max_size=20))


@given(demands())
def test_rates_are_max_min_fair_within_the_capacity_of_each_resource(
    drawn: tuple[list[float], Classes],
) -> None:
    capacities, classes = drawn
    rates = max_min_rates(capacities, classes)
    taken = [
        sum(rate * count for rate, (used, count) in zip(rates, classes, strict=True) if r in used)
        for r in range(len(capacities))
    ]
    for total, capacity in zip(taken, capacities, strict=True):
        assert total <= capacity * (1 + TIGHT) + TIGHT
    for rate, (used, _) in zip(rates, classes, strict=True):
        most = [
            max(r for r, (other, _) in zip(rates, classes, strict=True) if resource in other)
            for resource in used
            if taken[resource] >= capacities[resource] * (1 - TIGHT) - TIGHT
        ]
        assert any(rate >= other * (1 - TIGHT) - TIGHT for other in most)


class Step(NamedTuple):
    """An event, and the time until the next one."""

    kind: str
    number: int
    other: int
    amount: float
    then_s: float


KINDS = (
    "add", "drop", "lead", "down", "up", "slow", "inbound", "retain", "rate", "leader_rate",
    "list", "list_leaders", "fill", "shut_out", "recreate", "log_dir", "log_dir_rate",
)  # fmt: skip

steps = st.lists(
    st.builds(
        Step,
        st.sampled_from(KINDS),
        st.integers(0, 5),
        st.integers(0, BROKERS - 1),
        st.sampled_from([0.0, 0.001, 0.1, 0.5, 1.0]),
        st.sampled_from([0.0, 0.0, 0.3, 4.0, 31.0, 200.0]),
    ),
    min_size=6,
    max_size=25,
)


def world(seed: int = 0) -> DataPlane:
    brokers = [
        broker(number, disk_bytes=100_000 * MB, log_dirs=len(PATHS)) for number in range(BROKERS)
    ]
    return data_plane(
        topic("a", (0, 1, 2), (1, 2, 3), (2, 3), bytes_each=200 * MB, inbound=1.0 * MB),
        topic("b", (3, 0), (0, 3), (1,), bytes_each=900 * MB, message_bytes=333),
        brokers=brokers,
        seed=seed,
        tide=Tide(swing=0.4, noise=0.3),
        lag_time_max_s=10.0,
    )


def act(plane: DataPlane, step: Step) -> None:  # noqa: C901, PLR0912 - one line a kind
    """Apply one step where it is possible."""
    tps = sorted(plane.records)
    tp = tps[step.number % len(tps)]
    known, replication, other = plane.records[tp], plane.replication, step.other
    match step.kind:
        case "add" if other not in known.replicas:
            plane.add(tp, other)
        case "drop" if other in known.replicas[1:] and other != known.leader:
            plane.drop(tp, other)
        case "lead":
            leader = other if other in known.replicas else None
            kept = known.isr if leader in known.isr or leader is None else (leader,)
            plane.decide(tp, leader=leader, isr=kept)
        case "down":
            replication.broker_down(other)
        case "up":
            replication.broker_up(other)
        case "slow":
            replication.slow(other, step.amount)
        case "inbound":
            replication.set_inbound(tp.topic, step.amount * 70 * MB)
        case "retain":
            keep = None if step.amount == 1 else int(step.amount * 1_000 * MB)
            replication.set_retention(tp.topic, keep)
        case "rate" | "leader_rate" | "log_dir_rate":
            rate = None if step.amount == 1 else step.amount * 100 * MB
            bound = {"rate": "follower", "leader_rate": "leader"}.get(step.kind, "log_dir")
            replication.set_throttle_rates(other, **{"follower": None, "leader": None, bound: rate})
        case "log_dir":
            replication.alter_log_dir(tp, other, PATHS[step.number % 2])
        case "list":
            listed = EVERYWHERE if step.amount else NOWHERE
            replication.set_throttled_replicas(tp.topic, followers=listed, leaders=NOWHERE)
        case "list_leaders":
            listed = EVERYWHERE if step.amount else NOWHERE
            replication.set_throttled_replicas(tp.topic, followers=NOWHERE, leaders=listed)
        case "fill":
            replication.fill_disk(other, int(step.amount * 10_000 * MB))
        case "shut_out" if other in known.isr and other != known.leader:
            plane.decide(tp, isr=tuple(b for b in known.isr if b != other))
        case "recreate":
            plane.delete("b")
            plane.create(topic("b", (other,), bytes_each=50 * MB), f"after {plane.ids}")


def logs(plane: DataPlane) -> list[Log]:
    return [log for each in plane.replication._topics.values() for log in each.logs.values()]


def flows(plane: DataPlane) -> Iterator[tuple[Flow, Channel]]:
    for log in logs(plane):
        for flow in log.flows():
            if flow.channel is not None:
                assert isinstance(flow.channel, Channel)
                yield flow, flow.channel


def room(plane: DataPlane) -> list[float]:
    """Compute what the in-step traffic leaves of each resource."""
    replication, factor = plane.replication, plane.replication._moment.factor
    left = [0.0] * (RESOURCES * BROKERS)
    for number, host in replication._hosts.items():
        open_ = [t.rate if plane.replication.now_s >= t.opens_s else 0.0 for t in host.throttles]
        first = RESOURCES * number
        left[first : first + RESOURCES] = [host.into, host.out, *open_]
    for log in logs(plane):
        rate, leader = log.inbound * factor, log.record.leader
        if leader is None or not rate:
            continue
        left[RESOURCES * leader] -= rate
        for follower in log.in_step():
            left[RESOURCES * follower] -= rate
            left[RESOURCES * leader + 1] -= rate
            left[RESOURCES * follower + 2] -= rate if log.topic.followers_listed else 0
            left[RESOURCES * leader + 3] -= rate if log.topic.leaders_listed else 0
    return left


def check_shares(plane: DataPlane) -> None:
    """Check that no capacity is exceeded, and that no flow could gain at a larger one's cost."""
    plane.replication.next_event_s()
    rooms = room(plane)
    for log in logs(plane):
        for follower in log.in_step() if log.inbound else ():
            assert rooms[RESOURCES * follower] >= -1
            assert rooms[RESOURCES * (log.record.leader or 0) + 1] >= -1
    left = [max(0.0, each) for each in rooms]
    taken = [0.0] * len(left)
    most = [0.0] * len(left)
    for _, channel in flows(plane):
        for resource in channel.resources:
            taken[resource] += channel.rate
            most[resource] = max(most[resource], channel.rate)
    for total, capacity in zip(taken, left, strict=True):
        assert total <= capacity * (1 + TIGHT) + 1
    for _, channel in flows(plane):
        assert any(
            taken[r] >= left[r] * (1 - TIGHT) - 1 and channel.rate >= most[r] * (1 - TIGHT) - 1
            for r in channel.resources
        )


def check_bytes(plane: DataPlane) -> None:
    """Check running sums against a recount, and that no replica is ahead of its leader."""
    replication = plane.replication
    for number, host in replication._hosts.items():
        replicas = [replication.replica_dir(tp, number) for tp in plane.records]
        held = sum(
            each.size + (each.future.size if each.future else 0) for each in replicas if each
        )
        assert replication.used(number) == pytest.approx(host.foreign + held, abs=100)
    for tp, known in plane.records.items():
        ends = [plane.end(tp, each) for each in known.replicas]
        if known.leader is not None:
            assert max(ends) <= plane.end(tp, known.leader)
        for each, end in zip(known.replicas, ends, strict=True):
            stands = replication.rate(tp, each) == 0
            assert stands or end >= replication.start(tp)


def check_flow(plane: DataPlane, to_s: float) -> None:
    """Check that what each replica gains over a time is its rate times that time."""
    replication = plane.replication
    next_s = min(to_s, replication.next_event_s(), replication.now_s + 1)
    next_s = min(next_s, replication._tides.next_turn_s(replication.now_s))
    took_s = next_s - replication.now_s
    rates = {
        (tp, each): (plane.end(tp, each), replication.rate(tp, each))
        for tp, known in plane.records.items()
        for each in known.replicas
    }
    if next_s < replication.next_event_s():
        replication.advance(next_s)
        for (tp, each), (end, rate) in rates.items():
            size = replication._topics[tp.topic].spec.message_bytes
            gained = (plane.end(tp, each) - end) * size
            start = replication.start(tp)
            skipped = plane.end(tp, each) == start
            assert skipped or gained == pytest.approx(rate * took_s, abs=size + 1)


@given(steps)
def test_capacities_throttles_and_byte_counts_hold_through_any_steps(drawn: list[Step]) -> None:
    plane = world()
    for step in drawn:
        act(plane, step)
        check_shares(plane)
        check_bytes(plane)
        until_s = plane.replication.now_s + step.then_s
        check_flow(plane, until_s)
        plane.run(max(until_s, plane.replication.now_s), accepting=step.number % 2 == 0)
        check_shares(plane)
        check_bytes(plane)


History = tuple[list[tuple[float, FlowEvent]], dict[tuple[TopicPartition, int], int | None]]


def history(drawn: list[Step], *, cuts: int = 1, seed: int = 0) -> History:
    """Run the steps, passing time in `cuts` pieces, and return the history."""
    plane = world(seed)
    for step in drawn:
        act(plane, step)
        begin_s = plane.replication.now_s
        for piece in range(1, cuts):
            plane.run(begin_s + step.then_s * piece / cuts)
            check_bytes(plane)
        plane.run(begin_s + step.then_s)
    ends = {
        (tp, each): plane.replication.end(tp, each)
        for tp in plane.records
        for each in range(BROKERS)
    }
    return plane.events, ends


@given(steps, st.integers(2, 5))
def test_history_does_not_depend_on_how_often_it_is_observed(drawn: list[Step], cuts: int) -> None:
    assert history(drawn, cuts=cuts) == history(drawn)


@given(steps, st.integers(0, 2**32))
def test_the_same_seed_gives_the_same_history(drawn: list[Step], seed: int) -> None:
    assert history(drawn, seed=seed) == history(drawn, seed=seed)
