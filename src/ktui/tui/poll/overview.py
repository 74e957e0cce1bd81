"""The header's summary of a whole progress, computed with the fold, off the event loop."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.progress.fold import ENDED_FOR_S
from ktui.progress.health import HealthCounts, count_unhealthy
from ktui.progress.summary import BrokerLoad, Totals, broker_loads, totals
from ktui.progress.timeline import Phase, Progress, Timeline


class Overview(msgspec.Struct, frozen=True):
    """The totals, the number of brokers, those that are down, and partitions in trouble."""

    totals: Totals = Totals()
    brokers: int = 0
    down: tuple[int, ...] = ()
    health: HealthCounts = HealthCounts()
    stalled: tuple[TopicPartition, ...] = ()
    """The stalled partitions, the longest first."""
    loads: Mapping[int, BrokerLoad] = msgspec.field(default_factory=dict)
    """The load of each broker."""

    @property
    def open(self) -> int:
        """Partitions that are being reassigned."""
        return self.totals.moving + self.totals.stalled


def overview(progress: Progress) -> Overview:
    """Summarize a progress. A broker that only a replica list names counts as down."""
    last = progress.last
    if last is None:
        return Overview()
    known = _known_brokers(last)
    down = tuple(sorted(broker for broker in known if not last.alive(broker)))
    return Overview(
        totals(_without_long_over(progress, last.at)),
        len(known),
        down,
        count_unhealthy(last),
        _stalled(progress),
        broker_loads(progress),
    )


def _stalled(progress: Progress) -> tuple[TopicPartition, ...]:
    found = [t for t in progress.timelines.values() if t.phase is Phase.STALLED]
    return tuple(t.tp for t in sorted(found, key=lambda t: t.stall.since_s if t.stall else 0.0))


def ended_long_ago(timeline: Timeline, now: datetime) -> bool:
    """Return whether a move ended so long ago that only its run's recording still shows it."""
    return timeline.ended_at is not None and now - timeline.ended_at > timedelta(
        seconds=ENDED_FOR_S
    )


def _without_long_over(progress: Progress, now: datetime) -> Progress:
    kept = {tp: t for tp, t in progress.timelines.items() if not ended_long_ago(t, now)}
    return msgspec.structs.replace(progress, timelines=kept)


def _known_brokers(last: Observation) -> set[int]:
    return set(last.brokers).union(*(state.replicas for state in last.partitions.values()))
