"""What is copied into each broker, beside what is written to the partitions that come to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from ktui.cluster.broker import BrokerConfig
from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Lane, Progress, Timeline


class Inflow(msgspec.Struct, frozen=True):
    """The replicas of one broker that are catching up. Bytes a second; None where not known."""

    broker: int
    copies: int
    """How many they are."""
    bytes_s: float | None = None
    """Copied by all of them together, smoothed over some 20 s."""
    inbound_bytes_s: float | None = None
    """Written to their partitions: a throttle that lets all of them catch up is above it."""
    fastest: TopicPartition | None = None
    """The partition to which the most is written."""
    fastest_bytes_s: float | None = None
    throttle: int | None = None
    """follower.replication.throttled.rate, as it was read last."""


def inflows(progress: Progress) -> dict[int, Inflow]:
    """Give each broker onto which something is copied, in order of their ids."""
    onto: defaultdict[int, list[tuple[Lane, Timeline]]] = defaultdict(list)
    for timeline in progress.timelines.values():
        if not timeline.phase.ended:
            for lane in timeline.catching_up:
                onto[lane.broker].append((lane, timeline))
    configs = {} if progress.last is None else progress.last.broker_configs
    return {broker: _inflow(broker, onto[broker], configs.get(broker)) for broker in sorted(onto)}


def _inflow(
    broker: int, copies: Sequence[tuple[Lane, Timeline]], config: BrokerConfig | None
) -> Inflow:
    rates = [lane.rate_bytes_s for lane, _ in copies if lane.rate_bytes_s is not None]
    written = [(t.inbound_bytes_s, t.tp) for _, t in copies if t.inbound_bytes_s is not None]
    fastest = max(written, default=None)
    return Inflow(
        broker=broker,
        copies=len(copies),
        bytes_s=sum(rates) if rates else None,
        inbound_bytes_s=sum(bytes_s for bytes_s, _ in written) if written else None,
        fastest=None if fastest is None else fastest[1],
        fastest_bytes_s=None if fastest is None else fastest[0],
        throttle=None if config is None else config.follower_throttle_rate,
    )
