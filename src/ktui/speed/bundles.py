"""Bundles: of very many partitions some stand for the others, so that a simulation is quick.

The largest are simulated one by one, for the time of the last ones depends on them. The others are
bundled by the brokers that they go to, so that each broker keeps what it receives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from heapq import nlargest
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.pacing.limits import Limits
from ktui.pacing.situation import NO_RACKS, Racks, WantedPartition
from ktui.speed.capacity import Rates
from ktui.speed.copies import NONE_BESIDE, CopiesOfBothEnds, Pair, leader_or_first
from ktui.speed.simulate import RestOfRun, SimulatedOutcome, StepOverhead, simulate_rest_of_run

_MOST = 400
"""The most partitions and bundles simulated, at 0.1 to 0.3 ms each, of those in flight or waiting.

With 5, forecasts miss by two thirds more (bench/forecast/ablation.py).
"""
T = TypeVar("T")
Onto = tuple[Sequence[int], Sequence[int]]
"""The brokers that receive a partition, and after these all of its target."""


class Bundle(NamedTuple, Generic[T]):
    """A partition, and others onto about the same brokers that it stands for."""

    one: T
    size: float  # the mean size of all of them, in bytes
    others: Sequence[T] = ()


def bundled(
    partitions: Sequence[T], size_of: Callable[[T], int], onto: Callable[[T], Onto]
) -> list[Bundle[T]]:
    """Return partitions in their order; of more than `_MOST`, the smaller ones in bundles."""
    if len(partitions) <= _MOST:
        return [Bundle(one, size_of(one)) for one in partitions]
    numbers, sizes = range(len(partitions)), [size_of(one) for one in partitions]
    alone = set(nlargest(_MOST // 4, numbers, key=sizes.__getitem__))
    rest = sorted((n for n in numbers if n not in alone), key=lambda n: onto(partitions[n]))
    parts = _MOST - len(alone)
    edges = [part * len(rest) // parts for part in range(parts + 1)]
    found: dict[int, Bundle[T]] = {n: Bundle(partitions[n], sizes[n]) for n in alone}
    for begin, end in pairwise(edges):
        of = rest[begin:end]
        mean = sum(sizes[n] for n in of) / len(of)
        middle = of[len(of) // 2]
        others = [partitions[n] for n in of if n != middle]
        found[middle] = Bundle(partitions[middle], mean, others)
    return [found[n] for n in sorted(found)]


def go_together(sizes: Sequence[int], limits: Limits) -> bool:
    """Whether a bundle's partitions are copied at once: no limit keeps half of them waiting."""
    if any(limits.counts_at) or limits.brokers:
        return False
    of_bytes, size = limits.bytes_in_flight, sum(sizes)
    large = None if of_bytes is None or not size else of_bytes * len(sizes) / size
    at_once = (limits.partitions, limits.replica_movements, limits.cuts_per_minute, large)
    return all(most is None or 2 * most >= len(sizes) for most in at_once)


def simulate_in_bundles(
    wanted: Sequence[WantedPartition],
    limits: Limits,
    rates: Rates,
    joining_s: int,
    inbound: Mapping[TopicPartition, int] | None = None,
    racks: Racks = NO_RACKS,
) -> SimulatedOutcome:
    """Simulate a run of `wanted`, online and in sync, in a time that does not grow with them."""
    together = go_together([one.size for one in wanted], limits)
    bundles, written = bundled(wanted, lambda one: one.size, _onto), dict(inbound or {})
    others = {each.one.tp: each.others for each in bundles if each.others}
    parts = []
    for each in bundles:
        count = 1 + len(each.others) if together else 1
        parts.append(msgspec.structs.replace(each.one, size=round(each.size * count)))
        if each.others and written:
            of = [written.get(one.tp, 0) for one in (each.one, *each.others)]
            written[each.one.tp] = sum(of) if together else max(of)
    times = len(wanted) / max(1, len(bundles))
    stand = StandIns(
        {tp: Counter(map(_leader, of)) for tp, of in others.items()} if together else {},
        {} if together else {tp: 1 + len(of) for tp, of in others.items()},
        1.0 if together else times,
    )
    rest, beside = RestOfRun((), parts, racks), StepOverhead(joining_s)
    run = simulate_stand_ins(
        rest, limits, beside, rates, stand, to_cut=len(wanted), inbound=written
    )
    return msgspec.structs.replace(
        run,
        batches=round(run.batches * stand.steps),
        peak_extra_replicas=round(run.peak_extra_replicas * (times if together else 1)),
    )


class StandIns(NamedTuple):
    """For what the partitions of a simulation stand, besides themselves."""

    together: Mapping[TopicPartition, Counter[int]]  # leaders of others copied at once
    in_turn: Mapping[TopicPartition, int]  # how many are copied one after the other
    steps: float  # how many steps a step stands for, on average


def simulate_stand_ins(
    left: RestOfRun,
    limits: Limits,
    overhead: StepOverhead,
    rates: Rates,
    stand: StandIns,
    *,
    to_cut: int,
    inbound: Mapping[TopicPartition, int] | None = None,
) -> SimulatedOutcome:
    """Simulate a run of which some partitions stand for others; `left` has the size of all."""
    least_s, per_minute = 0.0, limits.cuts_per_minute
    if per_minute is not None and stand.steps > 1:  # partitions in one would be cut at once
        least_s = 60.0 * to_cut / per_minute
        limits = msgspec.structs.replace(limits, cuts_per_minute=None)
    beside = StepOverhead(
        round(overhead.joining_s * stand.steps), round(overhead.other_s * stand.steps)
    )
    run = simulate_rest_of_run(left, limits, beside, _StandInCopies(rates, stand), inbound=inbound)
    return msgspec.structs.replace(run, waiting_s=max(run.waiting_s, least_s - run.copying_s))


def _onto(one: WantedPartition) -> Onto:
    now = one.situation
    return sorted({*now.target} - {*now.replicas}), now.target


def _leader(one: WantedPartition) -> int:
    now = one.situation
    return leader_or_first(now.leader, now.replicas)


class _StandInCopies(CopiesOfBothEnds):
    def __init__(self, rates: Rates, stand: StandIns) -> None:
        super().__init__(rates.of_copy, rates.load())
        self._stand = stand

    def add(
        self,
        tp: TopicPartition,
        pair: Pair,
        size: float,
        at_s: float,
        beside: Mapping[int, int] = NONE_BESIDE,
    ) -> None:
        beside = self._stand.together.get(tp, beside)
        one = size / (1 + sum(beside.values())) * self._stand.in_turn.get(tp, 1)
        super().add(tp, pair, one, at_s, beside)
