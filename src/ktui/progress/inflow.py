"""What is copied onto each broker, next to what is written to the partitions it receives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from ktui.cluster.broker import BrokerConfig
from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Lane, Progress, Timeline


class Inflow(msgspec.Struct, frozen=True):
    """The catching-up replicas of one broker. Bytes a second; None where unknown."""

    broker: int
    copies: int
    """The number of these replicas."""
    bytes_s: float | None = None
    """Copied onto the broker, smoothed over some 20 s also while replicas come and go."""
    inbound_bytes_s: float | None = None
    """Written to their partitions: a throttle must be above this to let all of them catch up."""
    fastest: TopicPartition | None = None
    """The partition with the highest inbound rate."""
    fastest_bytes_s: float | None = None
    slowest_bytes_s: float | None = None
    """The lowest inbound rate of these partitions; None where one is not known."""
    throttle: int | None = None
    """follower.replication.throttled.rate, as last read."""


def inflows(progress: Progress) -> dict[int, Inflow]:
    """Return the inflow of each broker onto which something is copied, ordered by broker id."""
    onto: defaultdict[int, list[tuple[Lane, Timeline]]] = defaultdict(list)
    for timeline in progress.timelines.values():
        if not timeline.phase.ended:
            for lane in timeline.catching_up:
                onto[lane.broker].append((lane, timeline))
    configs = {} if progress.last is None else progress.last.broker_configs
    flows = progress.flows
    return {
        broker: _inflow(broker, onto[broker], configs.get(broker), flows.of(broker).in_s)
        for broker in sorted(onto)
    }


def _inflow(
    broker: int,
    copies: Sequence[tuple[Lane, Timeline]],
    config: BrokerConfig | None,
    bytes_s: float | None,
) -> Inflow:
    written = [(t.inbound_bytes_s, t.tp) for _, t in copies if t.inbound_bytes_s is not None]
    fastest = max(written, default=None)
    return Inflow(
        broker=broker,
        copies=len(copies),
        bytes_s=bytes_s,
        inbound_bytes_s=sum(bytes_s for bytes_s, _ in written) if written else None,
        fastest=None if fastest is None else fastest[1],
        fastest_bytes_s=None if fastest is None else fastest[0],
        slowest_bytes_s=min(written)[0] if len(written) == len(copies) else None,
        throttle=None if config is None else config.follower_throttle_rate,
    )
