"""What a throttle is held against: how much is written, and the rates that are there already."""

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
from ktui.cluster.resources import of_broker
from ktui.cluster.throttle_settings import RATES
from ktui.planning.check.ask_brokers import ask_each
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.check.rules import PlanRules
from ktui.planning.plan import Plan

MEASURED_S = 2.0
"""Between the two looks at the log ends."""

_ANY_TOPIC = TopicConfig()


class _Look(msgspec.Struct, frozen=True):
    """Where one leader's logs end, and when it said so."""

    offsets: OffsetsAnswer
    at_s: float


async def measure(
    reader: ClusterReader, plan: Plan, seen: ClusterSnapshot, clock: Clock
) -> ClusterSnapshot:
    """Measure how much is written to each partition that gets a replica, and read rates.

    The leaders' log ends are read twice, `MEASURED_S` apart: their difference, times the bytes that
    a message takes on the leader's disk, is the inbound rate. Of compacted and tiered topics, of
    partitions whose size is not known, and of leaders that do not answer, it stays unknown. It
    costs each leader two questions and each broker concerned a third, however many partitions.

    Returns:
        The snapshot, with `inbound` and `rates`.
    """
    growing = list(_growing(plan, seen))
    led: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for state in growing:
        if state.leader is not None and state.described:
            led[state.leader].append(state.tp)

    async def look(broker: int, *, first: bool) -> _Look:
        tps = led[broker]
        answer = await reader.log_offsets(broker, ends=tps, starts=tps if first else ())
        return _Look(answer, clock.monotonic())

    alive = seen.online
    begun, failed = await ask_each(
        Operation.LOG_ENDS, {b: look(b, first=True) for b in sorted(led) if b in alive}
    )
    if any(look.offsets.ends for look in begun.values()):
        await clock.sleep(MEASURED_S)
    ended, failed_later = await ask_each(
        Operation.LOG_ENDS, {b: look(b, first=False) for b in begun}
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
    """Give the partitions that get a replica."""
    rules = PlanRules(seen)
    for target in plan.partitions:
        state = rules.state(target.tp)
        if state is not None and not set(target.replicas) <= set(state.original):
            yield state


def _rate(tp: TopicPartition, first: _Look, last: _Look, seen: ClusterSnapshot) -> int | None:
    """Give bytes a second, rounded up; None where they are not known."""
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
    """Read the throttles of brokers; those that do not tell are left out."""
    resources = [of_broker(broker) for broker in sorted(brokers)]
    answer = await reader.settings(resources, RATES)
    return {int(resource.name): told for resource, told in answer.settings.items()}
