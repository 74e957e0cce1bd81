"""How long the lists of throttled replicas may grow: Kafka takes 32,767 bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from ktui.cluster.broker import TopicConfig
from ktui.cluster.throttle_settings import (
    ALL,
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    LONGEST_LIST,
    entries,
    entry,
)
from ktui.pacing.decision import Wanted
from ktui.planning.disks import warning
from ktui.planning.finding import Finding, Kind
from ktui.planning.throttled_run import ThrottledRun, adds_of

_UNKNOWN = TopicConfig()


class Listed(NamedTuple):
    """One list of a topic, and what someone else has in it."""

    key: str
    topic: str
    theirs: str


def lists_too_long(run: ThrottledRun) -> Iterator[Finding]:
    """Name the topics of which more may be in flight at once than their lists can hold."""
    topics: defaultdict[str, list[Wanted]] = defaultdict(list)
    for one in run.growing.wanted:
        topics[one.tp.topic].append(one)
    for topic, wanted in sorted(topics.items()):
        config = run.growing.snapshot.configs.get(topic, _UNKNOWN)
        if ALL not in entries(config.follower_throttled_replicas):
            sizes = _follower_entries(run, wanted)
            listed = Listed(FOLLOWER_REPLICAS, topic, config.follower_throttled_replicas)
            yield from _too_long(run, listed, sizes)
        if run.leaders and ALL not in entries(config.leader_throttled_replicas):
            sizes = _leader_entries(run, wanted)
            listed = Listed(LEADER_REPLICAS, topic, config.leader_throttled_replicas)
            yield from _too_long(run, listed, sizes)


def _follower_entries(run: ThrottledRun, wanted: Sequence[Wanted]) -> list[list[int]]:
    """Give the sizes of the entries that each partition may have at once: of what it adds."""
    return [_sizes(run, one, adds_of(one))[: run.limits.replicas] for one in wanted]


def _leader_entries(run: ThrottledRun, wanted: Sequence[Wanted]) -> list[list[int]]:
    """The same of leaders: in the end, all replicas that it has had and gets may lead."""
    return [_sizes(run, one, (*one.situation.replicas, *adds_of(one))) for one in wanted]


def _sizes(run: ThrottledRun, one: Wanted, brokers: Sequence[int]) -> list[int]:
    """Give the bytes of entries with their commas, the longest first."""
    rated = (broker for broker in brokers if run.throttle.of(broker) is not None)
    return sorted((_bytes(entry(one.tp.partition, broker)) for broker in rated), reverse=True)


def _too_long(
    run: ThrottledRun, listed: Listed, sizes: Sequence[Sequence[int]]
) -> Iterator[Finding]:
    """Warn where the entries that may be listed at once are more than there is room for."""
    room = LONGEST_LIST - sum(map(_bytes, entries(listed.theirs)))
    limits = run.limits
    together = sorted(map(sum, sizes), reverse=True)
    most = sum(together[: limits.partitions])
    if limits.replica_movements is not None:
        alone = max(map(len, sizes), default=0)
        steps = max(alone, limits.replica_movements)
        most = min(most, sum(sorted((b for each in sizes for b in each), reverse=True)[:steps]))
    if most <= room:
        return
    fitting = sum(held <= room for held in accumulate(together))
    told = (
        f"{listed.key} of {listed.topic} may grow to {most:,} bytes under these limits, and Kafka "
        f"takes {LONGEST_LIST:,}"
    )
    kept = (
        f", of which someone else's entries take {LONGEST_LIST - room:,}" if listed.theirs else ""
    )
    way = f"--partitions {fitting} would do" if fitting else "there is no room for any of ours"
    yield warning(Kind.LIST_TOO_LONG, f"{told}{kept}: steps wait until there is room; {way}")


def _bytes(listed: str) -> int:
    return len(listed) + 1
