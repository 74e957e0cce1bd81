"""The header's summary of a whole progress, computed with the fold, off the event loop."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

import msgspec

from ktui.cluster.observation import Observation
from ktui.progress.fold import ENDED_FOR_S
from ktui.progress.health import Health, health
from ktui.progress.summary import Totals, totals
from ktui.progress.timeline import Progress, Timeline


class Overview(msgspec.Struct, frozen=True):
    """The totals, the number of brokers, those that are down, and partitions in trouble."""

    totals: Totals = Totals()
    brokers: int = 0
    down: tuple[int, ...] = ()
    offline: int = 0
    """Offline partitions, among those polled."""
    under_min: int = 0

    @property
    def open(self) -> int:
        """Partitions that are being reassigned."""
        return self.totals.moving + self.totals.stalled


def overview(progress: Progress) -> Overview:
    """Summarize a progress. A broker that only a replica list names counts as down."""
    seen = progress.last
    if seen is None:
        return Overview()
    known = _known_brokers(seen)
    down = tuple(sorted(broker for broker in known if not seen.alive(broker)))
    found = Counter(
        health(state, seen.topic_configs.get(tp.topic)) for tp, state in seen.partitions.items()
    )
    return Overview(
        totals(_without_long_over(progress, seen.at)),
        len(known),
        down,
        found[Health.OFFLINE],
        found[Health.UNDER_MIN_ISR],
    )


def ended_long_ago(timeline: Timeline, now: datetime) -> bool:
    """Return whether a move ended so long ago that only its run's recording still shows it."""
    return timeline.ended_at is not None and now - timeline.ended_at > timedelta(
        seconds=ENDED_FOR_S
    )


def _without_long_over(progress: Progress, now: datetime) -> Progress:
    kept = {tp: t for tp, t in progress.timelines.items() if not ended_long_ago(t, now)}
    return msgspec.structs.replace(progress, timelines=kept)


def _known_brokers(seen: Observation) -> set[int]:
    return set(seen.brokers).union(*(state.replicas for state in seen.partitions.values()))
