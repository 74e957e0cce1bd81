"""What a throttle does to a run, said before it begins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from ktui.cluster.broker import BrokerConfig, TopicConfig
from ktui.cluster.errors import Operation
from ktui.cluster.ports import ConfigSource
from ktui.cluster.throttle_settings import (
    ALL,
    FETCH_BYTES,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LONGEST_LIST,
    entries,
    entry,
)
from ktui.pacing.decision import WantedPartition
from ktui.planning.check.disks import warning
from ktui.planning.check.findings import Finding, FindingKind, Severity
from ktui.planning.names import among
from ktui.planning.preflight.throttled_run import ThrottledRun, adds_of, brokers_named
from ktui.quantities import as_duration, as_rate, as_rate_above

STALLED_AFTER_S = 30.0
"""A replica whose log end has not moved for so long is told as stalled (progress/stalls.py)."""


def does_not_suffice(run: ThrottledRun) -> Iterator[Finding]:
    """Name the brokers on which replicas may never catch up, and what would end it."""
    for rate, brokers in run.by_rate(run.growing.gaining).items():
        yield from _under_one_partition(run, rate, brokers)
        yield from _under_all_at_once(run, rate, brokers)
        yield from _slower_than_a_fetch(rate, brokers)
    if run.leaders and run.growing.wanted:
        yield _leaders(run)
    yield from _unknown(run)


def _under_one_partition(run: ThrottledRun, rate: int, brokers: Sequence[int]) -> Iterator[Finding]:
    """A replica never catches up where as much is written to it as its throttle lets through."""
    low = [b for b in brokers if _most(run, b) >= rate]
    if not low:
        return
    worst = max(low, key=lambda broker: _most(run, broker))
    bytes_s, tp = run.growing.onto[worst][0]
    together = max(run.most_at_once(broker) for broker in low)
    told = (
        f"at {as_rate(rate)} into {brokers_named(low)} the run never ends: "
        f"{as_rate_above(bytes_s)} are written to {tp}; more than {as_rate_above(bytes_s)} would "
        "end it"
    )
    if together > bytes_s:
        told += f" with --per-broker 1, more than {as_rate_above(together)} under these limits"
    tps = {tp for b in low for bytes_s, tp in run.growing.onto[b] if bytes_s >= rate}
    yield Finding(Severity.WARNING, FindingKind.NEVER_ENDS, tuple(sorted(tps)), told)


def _under_all_at_once(run: ThrottledRun, rate: int, brokers: Sequence[int]) -> Iterator[Finding]:
    """Replicas that share a throttle may never catch up, though each by itself would."""
    written = run.played.peak_written
    low = [b for b in brokers if written[b] >= rate and _most(run, b) < rate]
    if not low:
        return
    most = max(written[broker] for broker in low)
    few = min(_fitting(run, broker, rate) for broker in low)
    enough = max(run.most_at_once(broker) for broker in low)
    told = (
        f"at {as_rate(rate)} into {brokers_named(low)} the run may never end: up to "
        f"{as_rate_above(most)} are written to what comes to one broker at once; --per-broker "
        f"{few} would end it, or more than {as_rate_above(enough)}"
    )
    yield warning(FindingKind.NEVER_ENDS, told)


def _most(run: ThrottledRun, broker: int) -> int:
    """Give the most that is written to one partition that comes to a broker."""
    coming = run.growing.onto.get(broker, ())
    return coming[0][0] if coming else 0


def _fitting(run: ThrottledRun, broker: int, rate: int) -> int:
    """Give how many replicas at once always leave some of the rate: even those with the most."""
    together = 0
    for count, (bytes_s, _) in enumerate(run.growing.onto[broker]):
        together += bytes_s
        if together >= rate:
            return count
    return len(run.growing.onto[broker])


def _slower_than_a_fetch(rate: int, brokers: Sequence[int]) -> Iterator[Finding]:
    if rate * STALLED_AFTER_S >= FETCH_BYTES:
        return
    told = (
        f"at {as_rate(rate)} into {brokers_named(brokers)} one fetch of 1 MiB takes "
        f"{as_duration(FETCH_BYTES / rate)}: copies are told as stalled in between; from "
        f"{as_rate_above(FETCH_BYTES / STALLED_AFTER_S)} on they are not"
    )
    yield warning(FindingKind.SLOWER_THAN_A_FETCH, told)


def _leaders(run: ThrottledRun) -> Finding:
    """Say what a throttle of leaders counts, and whom it may starve."""
    told = (
        "--throttle-leaders: what in-sync followers fetch of the partitions in flight counts "
        "against the rate of their leaders, too, and goes first"
    )
    sent = run.played.peak_sent
    rates = run.by_rate(run.growing.holding)
    low = sorted(b for rate, those in rates.items() for b in those if sent[b] >= rate)
    if low:
        most = max(sent[broker] for broker in low)
        told += (
            f": on {brokers_named(low)} it is up to {as_rate_above(most)} with the new ones, no "
            f"less than the rate, so that they may never catch up; more than {as_rate_above(most)} "
            "would do, or no --throttle-leaders"
        )
    return warning(FindingKind.LEADERS_THROTTLED, told)


def _unknown(run: ThrottledRun) -> Iterator[Finding]:
    known = run.growing.snapshot.inbound
    tps = [
        one.tp
        for one in run.growing.wanted
        if one.tp not in known and any(run.throttle.of(b) is not None for b in adds_of(one))
    ]
    if tps:
        failures = run.growing.snapshot.failures
        why = next((f": {f.sentence}" for f in failures if f.operation is Operation.LOG_ENDS), "")
        told = (
            f"how much is written to {among(tps)} is not known, nor whether the throttle lets "
            f"through more{why}"
        )
        yield Finding(Severity.NOTE, FindingKind.INBOUND_UNKNOWN, tuple(tps), told)


_UNKNOWN = TopicConfig()


class ThrottledList(NamedTuple):
    """One list of a topic, and what someone else has in it."""

    key: str
    topic: str
    theirs: str


def lists_too_long(run: ThrottledRun) -> Iterator[Finding]:
    """Name the topics of which more may be in flight at once than their lists can hold."""
    topics: defaultdict[str, list[WantedPartition]] = defaultdict(list)
    for one in run.growing.wanted:
        topics[one.tp.topic].append(one)
    for topic, wanted in sorted(topics.items()):
        config = run.growing.snapshot.configs.get(topic, _UNKNOWN)
        if ALL not in entries(config.follower_throttled_replicas):
            sizes = _follower_entries(run, wanted)
            listed = ThrottledList(FOLLOWER_REPLICAS, topic, config.follower_throttled_replicas)
            yield from _too_long(run, listed, sizes)
        if run.leaders and ALL not in entries(config.leader_throttled_replicas):
            sizes = _leader_entries(run, wanted)
            listed = ThrottledList(LEADER_REPLICAS, topic, config.leader_throttled_replicas)
            yield from _too_long(run, listed, sizes)


def _follower_entries(run: ThrottledRun, wanted: Sequence[WantedPartition]) -> list[list[int]]:
    """Give the sizes of the entries that each partition may have at once: of what it adds."""
    return [_sizes(run, one, adds_of(one))[: run.limits.replicas] for one in wanted]


def _leader_entries(run: ThrottledRun, wanted: Sequence[WantedPartition]) -> list[list[int]]:
    """The same of leaders: in the end, all replicas that it has had and gets may lead."""
    return [_sizes(run, one, (*one.situation.replicas, *adds_of(one))) for one in wanted]


def _sizes(run: ThrottledRun, one: WantedPartition, brokers: Sequence[int]) -> list[int]:
    """Give the bytes of entries with their commas, the longest first."""
    rated = (broker for broker in brokers if run.throttle.of(broker) is not None)
    return sorted((_bytes(entry(one.tp.partition, broker)) for broker in rated), reverse=True)


def _too_long(
    run: ThrottledRun, listed: ThrottledList, sizes: Sequence[Sequence[int]]
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
    yield warning(FindingKind.LIST_TOO_LONG, f"{told}{kept}: steps wait until there is room; {way}")


def _bytes(listed: str) -> int:
    return len(listed) + 1


_FROM = {
    ConfigSource.EVERY_BROKER: ", set for every broker",
    ConfigSource.FILE: ", set in a file",
}
_NO_BROKER = BrokerConfig()
_NO_TOPIC = TopicConfig()


def others_throttles(run: ThrottledRun) -> Iterator[Finding]:
    """Name rates that the run replaces, and replicas of others that its rates bind."""
    rated = [b for b in run.growing.gaining if run.throttle.of(b) is not None]
    yield from _replaced(run, FOLLOWER_RATE, rated)
    yield from _bound_too(run, FOLLOWER_RATE, rated)
    if run.leaders:
        rated = [b for b in run.growing.holding if run.throttle.of(b) is not None]
        yield from _replaced(run, LEADER_RATE, rated)
        yield from _bound_too(run, LEADER_RATE, rated)


def _replaced(run: ThrottledRun, key: str, brokers: Sequence[int]) -> Iterator[Finding]:
    """Name the rates that are there, and are put back when the run is over."""
    found: defaultdict[tuple[int, str, int], list[int]] = defaultdict(list)
    for broker in brokers:
        config = run.growing.snapshot.broker_configs.get(broker, _NO_BROKER)
        follower = key == FOLLOWER_RATE
        theirs = config.follower_throttle_rate if follower else config.leader_throttle_rate
        ours = run.throttle.of(broker)
        if theirs is not None and ours is not None and theirs != ours:
            setting = run.growing.snapshot.rates.get(broker, {}).get(key)
            source = "" if setting is None else _FROM.get(setting.source, "")
            found[theirs, source, ours].append(broker)
    for (theirs, source, ours), those in sorted(found.items()):
        told = (
            f"{brokers_named(those)} {'has' if len(those) == 1 else 'have'} a {key} of "
            f"{as_rate(theirs)} already{source}: {as_rate(ours)} takes its place while the run "
            "needs it, and it is put back after"
        )
        yield warning(FindingKind.THROTTLE_REPLACED, told)


def _bound_too(run: ThrottledRun, key: str, brokers: Sequence[int]) -> Iterator[Finding]:
    """Name the topics of which others have listed replicas on brokers that the run throttles."""
    if not brokers:
        return
    listed = {f":{broker}" for broker in brokers}
    side = "follower" if key == FOLLOWER_RATE else "leader"
    whole, some = [], []
    for topic in sorted({one.tp.topic for one in run.growing.wanted}):
        config = run.growing.snapshot.configs.get(topic, _NO_TOPIC)
        leaders = config.leader_throttled_replicas
        theirs = entries(config.follower_throttled_replicas if side == "follower" else leaders)
        if ALL in theirs:
            whole.append(topic)
        elif any(each[each.find(":") :] in listed for each in theirs):
            some.append(topic)
    for topics, what in ((whole, "all replicas"), (some, "replicas")):
        if topics:
            told = (
                f"someone else has {what} of {among(topics)} in {side}.replication.throttled."
                f"replicas: the run leaves that as it is, and its rates on "
                f"{brokers_named(brokers)} bind them, too, also those in sync"
            )
            yield warning(FindingKind.OTHERS_THROTTLED, told)


def throttle_findings(run: ThrottledRun) -> Iterator[Finding]:
    """Give everything that is to be said of a throttle, each with the number that would do."""
    yield from does_not_suffice(run)
    yield from lists_too_long(run)
    yield from others_throttles(run)
