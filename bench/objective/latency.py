"""Produce latency of real brokers under copies at constant rates, beside that of the model.

Six brokers on one machine share its CPUs, so every broker leads, follows, sends and receives the
same: then a share of the machine is the capacity of each. The model's median is fitted by the one
at rest and a grid of capacities and of `most_busy`, its 99th percentile by least squares of its
logarithm. One round fits, the next one is held against it. A round whose machine was busy already
at rest does not count.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections.abc import Mapping, Sequence

import msgspec

from bench.checks import printed_at_end
from bench.disturbing import LEAST_IDLE, brokers
from bench.machine import sampled
from bench.producing import Load, producer
from bench.stalls import Timed
from bench.timing import percentile
from ktui.cluster.partition import Brokers, Replica, TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS, throttled_entry
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.workload import (
    create_topic,
    fill,
    remove_throttles,
    throttle_followers,
)
from ktui.kafka.writer import KafkaWriter
from ktui.lab.layout import Lab
from ktui.quantities import as_rate
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import BrokerSpec, ClusterSpec, TopicSpec
from ktui.simulated.producers import LatencyModel, Producers, latency, rank

ROUNDS = 2
BROKERS = 6
FACTOR = 3
TOPIC = "bench"
PARTITIONS = 24
BYTES_EACH = 48 * 1024 * 1024
BYTES_S = 2e6
RATES: tuple[int | None, ...] = (0, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000, None)
"""Bytes a second into each broker; 0 for no copies, None for no throttle."""
CAPACITY = 13.5e6
"""Bytes a second that each of six brokers on two cores took in and sent, by the fit."""
_SETTLED_S, _MEASURED_S, _FEWEST_S = 3.0, 20.0, 2.0
_MEDIAN_WITHIN, _P99_WITHIN = 1.25, 2.0


def ring(number: int, first: int = 0) -> Brokers:
    """Return three brokers in a ring, so that each of six has as many replicas as any other."""
    return tuple(1 + (number + first + k) % BROKERS for k in range(FACTOR))


_TARGETS: Mapping[TopicPartition, Brokers] = {
    TopicPartition(TOPIC, n): (*ring(n), *ring(n, FACTOR)) for n in range(PARTITIONS)
}
_ADDED = [Replica(tp, broker) for tp in _TARGETS for broker in ring(tp.partition, FACTOR)]


class Felt(msgspec.Struct, frozen=True):
    """What producers felt under copies at one rate."""

    rate: int | None
    p50_s: float
    p99_s: float
    copied_s: float
    """Bytes a second that each broker has copied."""
    idle: float = 1.0
    """The share of the CPUs' time that was idle."""


def run() -> None:
    """Print what producers felt on real brokers and what the model says of it."""
    with brokers(BROKERS) as lab:
        connection = Connection.to(lab.bootstrap_servers)
        create_topic(connection, TOPIC, [ring(n) for n in range(PARTITIONS)])
        for number in range(PARTITIONS):  # all at once would time out on a busy machine
            fill(connection, TOPIC, [number], bytes_each=BYTES_EACH)
        _felt(lab, connection, None)  # brokers that have just started are slow
        rounds = [[_felt(lab, connection, rate) for rate in RATES] for _ in range(ROUNDS)]
    quiet = [found for found in rounds if found[0].idle >= LEAST_IDLE]
    print(
        f"{len(rounds) - len(quiet)} of {len(rounds)} rounds do not count: other work was going on"
    )
    model, capacity = fitted(quiet[0]) if quiet else (LatencyModel(), CAPACITY)
    print(f"{'fitted' if quiet else 'not fitted'}: {model}, capacity {as_rate(round(capacity))}")
    for found in rounds:
        print("real p50 and p99, and how many times that the model says")
        for felt in found:
            print(_line(felt, modelled(felt.rate, model, capacity)), flush=True)


def _line(real: Felt, model: Felt) -> str:
    name = "at rest" if real.rate == 0 else "none" if real.rate is None else as_rate(real.rate)
    middle, high = model.p50_s / real.p50_s, model.p99_s / real.p99_s
    holds = _within(middle, _MEDIAN_WITHIN) and _within(high, _P99_WITHIN)
    return (
        f"  {name:<9} copied {real.copied_s / 1e6:5.1f} MB/s a broker (model "
        f"{model.copied_s / 1e6:5.1f})  p50 {real.p50_s * 1000:6.1f} ms x {middle:4.2f}"
        f"  p99 {real.p99_s * 1000:6.0f} ms x {high:4.2f}  idle {real.idle:3.0%}"
        f"  {'holds' if holds else 'does not hold'}"
    )


def _within(ratio: float, most: float) -> bool:
    return 1 / most <= ratio <= most


def fitted(found: Sequence[Felt]) -> tuple[LatencyModel, float]:
    """Return the model that comes closest to what was felt, and the capacity of each broker."""
    rest_s = next(felt.p50_s for felt in found if felt.rate == 0)
    grid = (
        (_at_rest(rest_s, capacity, most / 100), capacity)
        for capacity in (0.5e6 * n for n in range(20, 400))
        for most in range(80, 100, 2)
    )
    model, capacity = min(grid, key=lambda each: sum(_miss(felt, *each) for felt in found))
    busy = [min(_busy(felt.copied_s, capacity), model.most_busy) for felt in found]
    growth, rest = statistics.linear_regression(busy, [math.log(felt.p99_s) for felt in found])
    return msgspec.structs.replace(model, rest_p99_s=math.exp(rest), growth=growth), capacity


def _at_rest(p50_s: float, capacity: float, most: float) -> LatencyModel:
    """Return the model with the median seconds that were felt at rest, when brokers write only."""
    model, busy = LatencyModel(rest_s=1.0, most_busy=most), _busy(0.0, capacity)
    return msgspec.structs.replace(model, rest_s=p50_s / latency(model, busy, [busy]).median_s)


def _miss(felt: Felt, model: LatencyModel, capacity: float) -> float:
    busy = _busy(felt.copied_s, capacity)
    return math.log(latency(model, busy, [busy]).median_s / felt.p50_s) ** 2


def _busy(copied_s: float, capacity: float) -> float:
    return min(1.0, (BYTES_S * FACTOR / BROKERS + copied_s) / capacity)


def modelled(rate: int | None, model: LatencyModel, capacity: float) -> Felt:
    """Return what producers feel under copies at one rate in the simulated cluster."""
    clock = VirtualClock()
    cluster = SimulatedCluster(lab_spec(capacity), clock)
    producers = Producers(cluster, model=model, keep_s=None)
    producers.start()
    if rate != 0:
        cluster.configure([] if rate is None else _throttled(rate))
        cluster.controller.alter(dict(_TARGETS), allow_replication_factor_change=True)

    def pass_s(seconds: float) -> int:
        clock.pass_time(seconds)
        cluster.catch_up()
        return sum(cluster.replication.size(each.tp, each.broker) for each in _ADDED)

    began, seconds = pass_s(_SETTLED_S), 0
    copied = began
    while seconds < _MEASURED_S and (
        rate == 0 or len(cluster.controller.reassigning) == PARTITIONS
    ):
        copied, seconds = pass_s(1.0), seconds + 1
    felt = list(producers.seconds)[int(_SETTLED_S) :]
    took = [r.took_s for second in felt for records in second.records.values() for r in records]
    return Felt(rate, rank(took, 50), rank(took, 99), (copied - began) / seconds / BROKERS)


def lab_spec(capacity: float) -> ClusterSpec:
    """Return the lab as a simulated cluster, with the topic of this bench."""
    machines = (
        BrokerSpec(id=b, net_in=capacity, net_out=capacity, disk_write=capacity)
        for b in range(1, BROKERS + 1)
    )
    topic = TopicSpec(
        name=TOPIC,
        replicas=tuple(ring(n) for n in range(PARTITIONS)),
        bytes_each=BYTES_EACH,
        inbound=BYTES_S / PARTITIONS,
    )
    return ClusterSpec(brokers=tuple(machines), topics=(topic,), auto_leader_rebalance=False)


def _throttled(rate: int) -> list[ConfigChange]:
    entries = ",".join(throttled_entry(each.tp.partition, each.broker) for each in _ADDED)
    topic = ConfigResource(ConfigScope.TOPIC, TOPIC)
    return [
        ConfigChange(topic, FOLLOWER_REPLICAS, ConfigOp.SET, entries),
        *(
            ConfigChange(
                ConfigResource(ConfigScope.BROKER, str(broker)),
                FOLLOWER_RATE,
                ConfigOp.SET,
                str(rate),
            )
            for broker in range(1, BROKERS + 1)
        ),
    ]


def _felt(lab: Lab, connection: Connection, rate: int | None) -> Felt:
    """Copy replicas at one rate with a producer on their topic, and measure what that feels."""
    if rate:
        throttle_followers(connection, _ADDED, bytes_s=rate)
    try:
        with (
            producer(lab.bootstrap_servers, TOPIC, PARTITIONS, Load(BYTES_S)) as writing,
            sampled(lab) as machine,
        ):
            since_s, until_s, copied = asyncio.run(_copied(connection, copies=rate != 0))
            timed: Timed = printed_at_end(writing, "producer")
    finally:
        if rate:
            remove_throttles(connection, _ADDED)
    took = [took_s for sent_s, took_s, _ in timed if since_s <= sent_s <= until_s]
    return Felt(
        rate,
        percentile(took, 0.5),
        percentile(took, 0.99),
        copied / (until_s - since_s) / BROKERS,
        machine.idle(since_s, until_s),
    )


async def _copied(connection: Connection, *, copies: bool) -> tuple[float, float, int]:
    """Copy for a while, and return when it was measured and the bytes copied meanwhile.

    It ends before the first replica is in sync. All new replicas are removed again.
    """
    reader, writer = KafkaReader(connection), KafkaWriter(connection)
    targets = _TARGETS if copies else {}

    async def alter(to: Mapping[TopicPartition, Brokers | None]) -> None:
        await writer.alter_reassignments(to, allow_replication_factor_change=True)
        while to is not targets and await reader.list_reassignments():  # noqa: ASYNC110 - the cluster sends no notification
            await asyncio.sleep(0.2)

    try:
        await alter(targets)
        await asyncio.sleep(_SETTLED_S)
        since_s, before = time.monotonic(), await _held(reader)
        held, until_s = before, since_s
        while until_s - since_s < _MEASURED_S:
            await asyncio.sleep(0.5)
            if len(await reader.list_reassignments()) < len(targets):
                break
            held, until_s = await _held(reader), time.monotonic()
        await alter(dict.fromkeys(targets))
        await alter({tp: ring(tp.partition) for tp in targets})
    finally:
        await reader.aclose()
        await writer.aclose()
    if until_s - since_s < _FEWEST_S:
        raise SystemExit(f"not measured: the copies took less than {_SETTLED_S + _FEWEST_S} s")
    return since_s, until_s, held - before


async def _held(reader: KafkaReader) -> int:
    added: dict[int, list[TopicPartition]] = {}
    for each in _ADDED:
        added.setdefault(each.broker, []).append(each.tp)
    answers = await asyncio.gather(*(reader.log_dirs(b, tps) for b, tps in added.items()))
    return sum(sum(answer.sizes.values()) for answer in answers)
