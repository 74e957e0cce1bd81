"""Measurements for judging a throttle: inbound rates and present throttle rates."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping

import msgspec

from ktui.cluster.broker import TopicConfig
from ktui.cluster.clock import Clock
from ktui.cluster.errors import Operation
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import ClusterReader, OffsetsAnswer, Setting
from ktui.cluster.settings import RATES, broker_resource
from ktui.planning.check.disks import call_each_broker
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.check.rules import PlanRules
from ktui.planning.plan import Plan

MEASURED_S = 2.0
"""Seconds between the two reads of the log ends."""

_ANY_TOPIC = TopicConfig()


class _LogEnds(msgspec.Struct, frozen=True):
    """One leader's log offsets, and the second of the answer."""

    offsets: OffsetsAnswer
    at_s: float


async def measure_inbound(
    reader: ClusterReader, plan: Plan, seen: ClusterSnapshot, clock: Clock
) -> ClusterSnapshot:
    """Measure the inbound rate of each partition that gains a replica, and read throttle rates.

    The leaders' log ends are read twice, `MEASURED_S` apart. The inbound rate is their difference,
    times the bytes of a message on the leader's disk. The rate stays unknown for compacted topics,
    partitions of unknown size, and leaders that do not answer. The cost is two
    requests to each leader and one more to each broker concerned, however many partitions.

    Returns:
        The snapshot, with `inbound` and `rates`.
    """
    growing = list(_growing(plan, seen))
    led: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for state in growing:
        if state.leader is not None and state.described:
            led[state.leader].append(state.tp)

    async def read_ends(broker: int, *, first: bool) -> _LogEnds:
        tps = led[broker]
        answer = await reader.log_offsets(broker, ends=tps, starts=tps if first else ())
        return _LogEnds(answer, clock.monotonic())

    alive = seen.online
    begun, failed = await call_each_broker(
        Operation.LOG_ENDS, {b: read_ends(b, first=True) for b in sorted(led) if b in alive}
    )
    if any(answer.offsets.ends for answer in begun.values()):
        await clock.sleep(MEASURED_S)
    ended, failed_later = await call_each_broker(
        Operation.LOG_ENDS, {b: read_ends(b, first=False) for b in begun}
    )
    rates = {
        tp: rate
        for broker in ended
        for tp in led[broker]
        if (rate := _rate(tp, begun[broker], ended[broker], seen)) is not None
    }
    return msgspec.structs.replace(
        seen,
        inbound=rates,
        rates=await _rates(reader, alive & seen.broker_configs.keys()),
        failures=(*seen.failures, *failed, *failed_later),
    )


def _growing(plan: Plan, seen: ClusterSnapshot) -> Iterator[PartitionState]:
    """The partitions that gain a replica."""
    rules = PlanRules(seen)
    for target in plan.partitions:
        state = rules.state(target.tp)
        if state is not None and not set(target.replicas) <= set(state.original):
            yield state


def _rate(tp: TopicPartition, first: _LogEnds, last: _LogEnds, seen: ClusterSnapshot) -> int | None:
    """The inbound bytes a second, rounded up; None where not known."""
    before, after = first.offsets.ends.get(tp), last.offsets.ends.get(tp)
    passed_s = last.at_s - first.at_s
    if before is None or after is None or after < before or passed_s <= 0.0:
        return None
    if after == before:
        return 0
    size, start = seen.size(tp), first.offsets.starts.get(tp)
    if not seen.configs.get(tp.topic, _ANY_TOPIC).offsets_measure_size:
        return None
    if not size or start is None or before <= start:
        return None
    return math.ceil((after - before) / passed_s * size / (before - start))


async def _rates(
    reader: ClusterReader, brokers: frozenset[int]
) -> Mapping[int, Mapping[str, Setting]]:
    """Read the throttles of brokers; brokers that do not answer are left out."""
    resources = [broker_resource(broker) for broker in sorted(brokers)]
    answer = await reader.settings(resources, RATES)
    return {int(resource.name): settings for resource, settings in answer.settings.items()}
