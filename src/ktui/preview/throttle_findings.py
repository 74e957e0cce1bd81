"""Findings about a run's throttle, made before the run begins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import msgspec

from ktui.cluster.broker import BrokerConfig, TopicConfig
from ktui.cluster.errors import Operation
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigSource
from ktui.cluster.settings import (
    ALL,
    FETCH_BYTES,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LONGEST_LIST,
    CatchingUp,
    broker_resource,
    list_room,
    lists_of,
    parse_throttled_list,
    throttled_entry,
)
from ktui.pacing.limits import Limits
from ktui.pacing.situation import WantedPartition
from ktui.planning.check.findings import (
    ClusterSnapshot,
    Finding,
    FindingKind,
    Option,
    Severity,
    warning,
)
from ktui.planning.plan import join_named, join_some
from ktui.planning.throttle_rates import KB, NO_THROTTLE, ThrottleRates
from ktui.progress.memory import STALLED_AFTER_S
from ktui.quantities import as_count, as_duration, as_rate, as_rate_above
from ktui.speed.simulate import SimulatedOutcome

NEVER_S = 30 * 86_400  # a copy that would take longer alone counts as one that never ends


class GrowingPartitions:
    """The partitions that gain replicas, whatever the limits and the throttle."""

    def __init__(self, snapshot: ClusterSnapshot, wanted: Iterable[WantedPartition]) -> None:
        self.snapshot = snapshot
        self.wanted = [one for one in wanted if brokers_added(one)]

    @cached_property
    def onto(self) -> Mapping[int, Sequence[tuple[int, TopicPartition]]]:
        """By broker, bytes a second written to each partition that it gains, most first."""
        coming: defaultdict[int, list[tuple[int, TopicPartition]]] = defaultdict(list)
        for one in self.wanted:
            bytes_s = self.snapshot.inbound.get(one.tp)
            for broker in brokers_added(one) if bytes_s is not None else ():
                coming[broker].append((bytes_s or 0, one.tp))
        return {broker: sorted(rates, reverse=True) for broker, rates in coming.items()}

    @cached_property
    def weights_onto(self) -> Mapping[int, Sequence[int]]:
        """By broker, what each partition that it gains counts under W, least first."""
        coming: defaultdict[int, list[int]] = defaultdict(list)
        for one in self.wanted:
            for broker in brokers_added(one):
                coming[broker].append(one.weight)
        return {broker: sorted(weights) for broker, weights in coming.items()}

    @cached_property
    def gaining(self) -> Sequence[int]:
        return sorted({broker for one in self.wanted for broker in brokers_added(one)})

    @cached_property
    def holding(self) -> Sequence[int]:
        """The brokers that may lead while replicas are added."""
        return sorted({broker for one in self.wanted for broker in one.situation.replicas})


class ThrottledRun(msgspec.Struct, frozen=True):
    """A run under a throttle."""

    growing: GrowingPartitions
    throttle: ThrottleRates
    limits: Limits
    outcome: SimulatedOutcome
    leaders: bool
    asked: ThrottleRates = NO_THROTTLE  # as given, without a budget's shares
    slow: bool = False  # whether the operator insists on rates under which no copy ends

    @property
    def ends_nothing(self) -> bool:
        """Whether no partition that has to be copied ends, by what is known of its writes."""
        wanted = self.growing.wanted
        return bool(wanted) and all(
            any(self._never_ends(one, broker) for broker in brokers_added(one)) for one in wanted
        )

    def _never_ends(self, one: WantedPartition, broker: int) -> bool:
        rate, written = self.throttle.of(broker), self.growing.snapshot.inbound.get(one.tp)
        if rate is None or written is None:
            return False
        return written >= rate or _least_for_size(one) > rate

    @property
    def least_for_any_size(self) -> float:
        """The least bytes a second under which some partition is copied alone within NEVER_S.

        What is written to partitions does not count: it was measured for seconds, and what it
        leaves of a rate just above it would be made up.
        """
        return min(map(_least_for_size, self.growing.wanted), default=0.0)

    def most_at_once(self, broker: int) -> int:
        """Return the most bytes a second written at once to new replicas, in any order."""
        limits, weights = self.limits, self.growing.weights_onto.get(broker, ())
        counts = (
            limits.most_at("per_broker", broker), limits.partitions, limits.replica_movements,
            most_by_weight(weights, limits.most_at("bytes_per_broker", broker)),
        )  # fmt: skip
        together = min((count for count in counts if count is not None), default=None)
        return sum(bytes_s for bytes_s, _ in self.growing.onto.get(broker, ())[:together])

    @property
    def most_partitions(self) -> int | None:
        """The most partitions that may be under way at once; None without P and W."""
        weights, limits = self.growing.weights_onto, self.limits
        most = [
            most_by_weight(each, limits.most_at("bytes_per_broker", broker))
            for broker, each in weights.items()
        ]
        by_size = sum(count for count in most if count is not None) if None not in most else None
        counts = (self.limits.partitions, by_size)
        return min((count for count in counts if count is not None), default=None)

    def by_rate(self, brokers: Iterable[int]) -> Mapping[int, list[int]]:
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for broker in brokers:
            rate = self.throttle.of(broker)
            if rate is not None:
                groups[rate].append(broker)
        return dict(sorted(groups.items()))


def _least_for_size(one: WantedPartition) -> float:
    return one.size / NEVER_S if one.sized else 0.0


def most_by_weight(weights: Sequence[int], most: int | None) -> int | None:
    """Return how many of `weights`, least first, W (bytes) lets into a broker; None without W."""
    if most is None:
        return None
    held = accumulate(weights, initial=0)
    return sum(1 for before, _ in zip(held, weights, strict=False) if before < most)


def brokers_added(one: WantedPartition) -> list[int]:
    """Return the brokers that gain a replica of a partition."""
    return [b for b in one.situation.target if b not in one.situation.replicas]


_FROM = {ConfigSource.EVERY_BROKER: ", set for every broker", ConfigSource.FILE: ", set in a file"}
_NO_BROKER = BrokerConfig()
_NO_TOPIC = TopicConfig()


def throttle_too_low(run: ThrottledRun) -> Iterator[Finding]:
    """Find brokers on which replicas may never catch up: a problem, unless insisted on."""
    rates = run.by_rate(run.growing.gaining)
    never = [each for rate in rates.items() for each in _under_one_partition(run, *rate)]
    yield from _refused(run, never, rates) if run.ends_nothing else never
    for rate, brokers in rates.items():
        yield from _under_all_at_once(run, rate, brokers)
        yield from _slower_than_a_fetch(run, rate, brokers)
    if run.leaders and run.growing.wanted:
        yield _leaders(run)
    yield from _unknown(run)


def _refused(
    run: ThrottledRun, never: Sequence[Finding], rates: Mapping[int, Sequence[int]]
) -> Iterator[Finding]:
    """Turn the findings that copies never end into problems, with the rate that was meant."""
    severity = Severity.WARNING if run.slow else Severity.PROBLEM
    meant = run.asked.in_megabytes
    sentences = [(each.partitions, each.sentence) for each in never]
    named = max(
        (_most(run, b) for rate, those in rates.items() for b in those if _most(run, b) >= rate),
        default=0,
    )
    if run.least_for_any_size > named:  # else what is named for the writes is enough for this, too
        rate, brokers = min(rates.items())
        sentence = (
            f"at {as_rate(rate)} into {join_named('broker', brokers)} no copy ends within "
            f"{as_duration(NEVER_S)}; it needs more than {as_rate_above(run.least_for_any_size)}"
        )
        sentences.append((tuple(one.tp for one in run.growing.wanted), sentence))
    for partitions, sentence in sentences:
        words = f"{sentence}. Did you mean {meant}?" if meant else sentence
        yield Finding(severity, FindingKind.NEVER_ENDS, partitions, words, option=Option.SLOW)


def _under_one_partition(run: ThrottledRun, rate: int, brokers: Sequence[int]) -> Iterator[Finding]:
    """A replica never catches up if at least its throttle is written to its partition."""
    too_slow = [b for b in brokers if _most(run, b) >= rate]
    if not too_slow:
        return
    worst = max(too_slow, key=lambda broker: _most(run, broker))
    bytes_s, tp = run.growing.onto[worst][0]
    together = max(run.most_at_once(broker) for broker in too_slow)
    sentence = (
        f"at {as_rate(rate)} into {join_named('broker', too_slow)} the run will never "
        f"finish: {as_rate_above(bytes_s)} are written to {tp}; it needs more than "
        f"{as_rate_above(bytes_s)}"
    )
    if together > bytes_s:
        sentence += f" with --per-broker 1, more than {as_rate_above(together)} under these limits"
    tps = {tp for b in too_slow for bytes_s, tp in run.growing.onto[b] if bytes_s >= rate}
    yield Finding(Severity.WARNING, FindingKind.NEVER_ENDS, tuple(sorted(tps)), sentence)


def _under_all_at_once(run: ThrottledRun, rate: int, brokers: Sequence[int]) -> Iterator[Finding]:
    """Replicas that share a throttle may never catch up, even if each alone would."""
    written = run.outcome.peak_written
    too_slow = [b for b in brokers if written[b] >= rate and _most(run, b) < rate]
    if not too_slow:
        return
    most = max(written[broker] for broker in too_slow)
    few = min(_fitting(run, broker, rate) for broker in too_slow)
    enough = max(run.most_at_once(broker) for broker in too_slow)
    sentence = (
        f"at {as_rate(rate)} into {join_named('broker', too_slow)} the run may never "
        f"finish: up to {as_rate_above(most)} are written at once to the replicas copied to one "
        f"broker; it needs --per-broker {few}, or more than {as_rate_above(enough)}"
    )
    yield warning(FindingKind.NEVER_ENDS, sentence)


def _most(run: ThrottledRun, broker: int) -> int:
    coming = run.growing.onto.get(broker, ())
    return coming[0][0] if coming else 0


def _fitting(run: ThrottledRun, broker: int, rate: int) -> int:
    """The number of replicas at once that always stay below the rate, even the busiest ones."""
    together = 0
    for count, (bytes_s, _) in enumerate(run.growing.onto[broker]):
        together += bytes_s
        if together >= rate:
            return count
    return len(run.growing.onto[broker])


def _slower_than_a_fetch(run: ThrottledRun, rate: int, brokers: Sequence[int]) -> Iterator[Finding]:
    if sentence := slower_than_a_fetch(rate, f"into {join_named('broker', brokers)}"):
        if rate < KB and not run.ends_nothing:  # else the problem asks
            sentence += f". Did you mean {run.asked.in_megabytes}?"
        yield warning(FindingKind.SLOWER_THAN_A_FETCH, sentence)


def slower_than_a_fetch(rate: int, where: str) -> str:
    """Return how long one fetch takes under a low rate in bytes a second; empty for no low one."""
    if rate * STALLED_AFTER_S >= FETCH_BYTES:
        return ""
    return (
        f"at {as_rate(rate)} {where} one fetch of 1 MiB takes "
        f"{as_duration(FETCH_BYTES / rate)}: copies are shown as stalled in between; from "
        f"{as_rate_above(FETCH_BYTES / STALLED_AFTER_S)} on they are not"
    )


def _leaders(run: ThrottledRun) -> Finding:
    """A throttle of leaders also counts in-sync followers, and may starve the new replicas."""
    sentence = (
        "--throttle-leaders: what in-sync followers fetch of the partitions in flight counts "
        "against the rate of their leaders, too, and goes first"
    )
    sent = run.outcome.peak_sent
    rates = run.by_rate(run.growing.holding)
    too_slow = sorted(b for rate, those in rates.items() for b in those if sent[b] >= rate)
    if too_slow:
        most = max(sent[broker] for broker in too_slow)
        sentence += (
            f": on {join_named('broker', too_slow)} it is up to {as_rate_above(most)} with the new "
            "ones, no less than the rate, so that they may never catch up; more than "
            f"{as_rate_above(most)} would do, or no --throttle-leaders"
        )
    return warning(FindingKind.LEADERS_THROTTLED, sentence)


def _unknown(run: ThrottledRun) -> Iterator[Finding]:
    known = run.growing.snapshot.inbound
    tps = [
        one.tp
        for one in run.growing.wanted
        if one.tp not in known and any(run.throttle.of(b) is not None for b in brokers_added(one))
    ]
    if tps:
        failures = run.growing.snapshot.failures
        why = next((f": {f.sentence}" for f in failures if f.operation is Operation.LOG_ENDS), "")
        sentence = (
            f"how much is written to {join_some(tps)} is not known, nor whether the throttle lets "
            f"through more{why}"
        )
        yield Finding(Severity.NOTE, FindingKind.INBOUND_UNKNOWN, tuple(tps), sentence)


class ThrottledList(NamedTuple):
    """A topic's throttled list, and other people's entries in it."""

    key: str
    topic: str
    theirs: str


def lists_too_long(run: ThrottledRun) -> Iterator[Finding]:
    """Find topics that may have more in flight at once than their throttled lists can hold."""
    topics: defaultdict[str, list[WantedPartition]] = defaultdict(list)
    for one in run.growing.wanted:
        topics[one.tp.topic].append(one)
    for topic, wanted in sorted(topics.items()):
        config = run.growing.snapshot.configs.get(topic, _NO_TOPIC)
        if ALL not in parse_throttled_list(config.follower_throttled_replicas):
            sizes = [_sizes(run, one, brokers_added(one))[: run.limits.replicas] for one in wanted]
            listed = ThrottledList(FOLLOWER_REPLICAS, topic, config.follower_throttled_replicas)
            yield from _too_long(run, listed, sizes)
        if run.leaders and ALL not in parse_throttled_list(config.leader_throttled_replicas):
            # every old and new replica may lead at some time
            sizes = [_sizes(run, w, (*w.situation.replicas, *brokers_added(w))) for w in wanted]
            listed = ThrottledList(LEADER_REPLICAS, topic, config.leader_throttled_replicas)
            yield from _too_long(run, listed, sizes)


def _sizes(run: ThrottledRun, one: WantedPartition, brokers: Sequence[int]) -> list[int]:
    rated = (broker for broker in brokers if run.throttle.of(broker) is not None)
    return sorted(
        (len(throttled_entry(one.tp.partition, broker)) + 1 for broker in rated), reverse=True
    )


def _too_long(
    run: ThrottledRun, listed: ThrottledList, sizes: Sequence[Sequence[int]]
) -> Iterator[Finding]:
    room = list_room(parse_throttled_list(listed.theirs))
    limits = run.limits
    together = sorted(map(sum, sizes), reverse=True)
    most = sum(together[: run.most_partitions])
    if limits.replica_movements is not None:
        alone = max(map(len, sizes), default=0)
        steps = max(alone, limits.replica_movements)
        most = min(most, sum(sorted((b for each in sizes for b in each), reverse=True)[:steps]))
    if most <= room:
        return
    fitting = sum(held <= room for held in accumulate(together))
    sentence = (
        f"{listed.key} of {listed.topic} may grow to {most:,} bytes under these limits, and Kafka "
        f"takes {LONGEST_LIST:,}"
    )
    kept = (
        f", of which someone else's entries take {LONGEST_LIST - room:,}" if listed.theirs else ""
    )
    remedy = f"--partitions {fitting} would do" if fitting else "there is no room for any of ours"
    yield warning(
        FindingKind.LIST_TOO_LONG, f"{sentence}{kept}: steps wait until there is room; {remedy}"
    )


def other_throttles(run: ThrottledRun) -> Iterator[Finding]:
    """Find rates that the run replaces, and other people's replicas that its rates bind."""
    rated = [b for b in run.growing.gaining if run.throttle.of(b) is not None]
    yield from _replaced(run, FOLLOWER_RATE, rated)
    yield from _bound_too(run, FOLLOWER_RATE, rated)
    if run.leaders:
        rated = [b for b in run.growing.holding if run.throttle.of(b) is not None]
        yield from _replaced(run, LEADER_RATE, rated)
        yield from _bound_too(run, LEADER_RATE, rated)


def _replaced(run: ThrottledRun, key: str, brokers: Sequence[int]) -> Iterator[Finding]:
    """Warn of present rates, which the run replaces and restores when it is over."""
    found: defaultdict[tuple[int, str, int], list[int]] = defaultdict(list)
    catching_up = _catching_up(run)
    for broker in brokers:
        config = run.growing.snapshot.broker_configs.get(broker, _NO_BROKER)
        follower = key == FOLLOWER_RATE
        existing = config.follower_throttle_rate if follower else config.leader_throttle_rate
        ours = run.throttle.of(broker)
        if existing is not None and ours is not None and existing != ours:
            setting = run.growing.snapshot.rates.get(broker, {}).get(key)
            source = "" if setting is None else _FROM.get(setting.source, "")
            found[existing, source, ours].append(broker)
    for (existing, source, ours), those in sorted(found.items()):
        sentence = (
            f"{join_named('broker', those)} {'has' if len(those) == 1 else 'have'} a {key} of "
            f"{as_rate(existing)} already{source}: {as_rate(ours)} takes its place while the run "
            "needs it, and it is put back after"
        )
        behind = {
            b.replica for each in those for b in catching_up.of_rate((broker_resource(each), key))
        }
        if behind:
            sentence += (
                f". It is in use for {as_count(len(behind), 'replica')} out of sync, which would "
                f"catch up at {as_rate(ours)} then: wait until all are in sync, or give "
                f"--throttle {existing}"
            )
        yield warning(FindingKind.THROTTLE_REPLACED, sentence)


def _catching_up(run: ThrottledRun) -> CatchingUp:
    snapshot = run.growing.snapshot
    return CatchingUp(lists_of(snapshot.configs), snapshot.partitions.values())


def _bound_too(run: ThrottledRun, key: str, brokers: Sequence[int]) -> Iterator[Finding]:
    """Warn of topics with other people's listed replicas on brokers that the run throttles."""
    if not brokers:
        return
    listed = {f":{broker}" for broker in brokers}
    side = "follower" if key == FOLLOWER_RATE else "leader"
    whole, some = [], []
    for topic in sorted({one.tp.topic for one in run.growing.wanted}):
        config = run.growing.snapshot.configs.get(topic, _NO_TOPIC)
        leaders = config.leader_throttled_replicas
        existing = parse_throttled_list(
            config.follower_throttled_replicas if side == "follower" else leaders
        )
        if ALL in existing:
            whole.append(topic)
        elif any(each[each.find(":") :] in listed for each in existing):
            some.append(topic)
    for topics, what in ((whole, "all replicas"), (some, "replicas")):
        if topics:
            sentence = (
                f"someone else has {what} of {join_some(topics)} in {side}.replication.throttled."
                f"replicas: the run leaves that as it is, and its rates on "
                f"{join_named('broker', brokers)} bind them too, even those in sync"
            )
            yield warning(FindingKind.OTHERS_THROTTLED, sentence)


def throttle_findings(run: ThrottledRun) -> Iterator[Finding]:
    """Yield all findings about a throttle, each with a sufficient number."""
    yield from throttle_too_low(run)
    yield from lists_too_long(run)
    yield from other_throttles(run)
