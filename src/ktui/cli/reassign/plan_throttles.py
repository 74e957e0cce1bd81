"""The throttles that --verify and --cancel remove: our own, those of the plan, or all if asked."""

from __future__ import annotations

import asyncio
import enum
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from itertools import accumulate
from typing import NamedTuple

import click

from ktui.cli.context.terminal import print_note
from ktui.cli.doctor.throttles import catching_up_sentences
from ktui.cli.reassign import printed
from ktui.cli.reassign.log_dirs import LogDirThrottle
from ktui.cli.reassign.submit import RunsPlace, left_runs, settle
from ktui.cluster.clock import SystemClock
from ktui.cluster.kafka_error import KafkaError
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import ClusterDescription, ClusterReader, ConfigResource, ConfigScope
from ktui.cluster.settings import (
    ALL,
    FOLLOWER_REPLICAS,
    LOG_DIR_RATE,
    LONGEST_LIST,
    RATES,
    REPLICAS,
    SettingKey,
    broker_resource,
    list_room,
    parse_throttled_list,
    throttled_entry,
    topic_resource,
)
from ktui.execution.errors import RunRefused
from ktui.execution.host.catalog import unfinished_runs
from ktui.execution.host.ownership import OwnedElsewhere
from ktui.ops.leftovers import WATCHED_S, FoundThrottle, Leftovers, ThrottleReason
from ktui.planning.plan import join_named, join_some
from ktui.quantities import as_count

_ENTRY = re.compile(r"(?P<partition>[0-9]{1,9}):(?P<broker>[0-9]{1,9})")


def throttles_of_plan(
    targets: Mapping[TopicPartition, Brokers], settings: Mapping[SettingKey, str]
) -> frozenset[SettingKey]:
    """Return the settings that equal what an --execute --throttle of a plan sets (KIP-73).

    A topic's lists do if they name only partitions of the plan, and followers only on brokers of
    their targets; the replicas from before the plan are not known any more. The rates do if all
    of them on the brokers that those lists name are the same.
    """
    lists: dict[str, set[SettingKey]] = defaultdict(set)
    for key in settings:
        resource, name = key
        if resource.scope is ConfigScope.TOPIC and name in REPLICAS:
            lists[resource.name].add(key)
    brokers: set[int] = set()
    found: set[SettingKey] = set()
    for topic, keys in lists.items():
        named = [_brokers_named(targets, topic, key, settings[key]) for key in keys]
        if None not in named:
            found |= keys
            brokers |= {broker for each in named if each is not None for broker in each}
    rates = {
        key for broker in brokers for name in RATES if (key := _rate(broker, name)) in settings
    }
    same = len({settings[key] for key in rates}) == 1
    return frozenset(found | rates) if same else frozenset(found)


class FullList(NamedTuple):
    """A topic's list of throttled replicas that has not enough room."""

    topic: str
    name: str
    partitions: int  # the partitions with entries in it at once
    fitting: int  # how many of those there is room for

    @property
    def sentence(self) -> str:
        """What is wrong with it."""
        some = f"for {self.fitting:,} of" if self.fitting else "for none of"
        return (
            f"{self.name} of {self.topic} takes {LONGEST_LIST:,} bytes, and has room {some} the "
            f"{as_count(self.partitions, 'partition')} to be throttled at once"
        )


def lists_without_room(
    targets: Mapping[TopicPartition, Brokers],
    before: Mapping[TopicPartition, Brokers],
    theirs: Mapping[SettingKey, AbstractSet[str]],
    at_once: int | None,
) -> Iterator[FullList]:
    """Yield the lists of throttled replicas that cannot hold a plan's entries.

    Args:
        before: the replicas of its partitions before it.
        theirs: the lists of its topics, without the entries that go before the plan begins.
        at_once: how many partitions are submitted at once; None for all.
    """
    for (topic, name), entries in sorted(theirs.items()):
        needed = [
            sum(len(each) + 1 for each in _entries(tp, before[tp], target, name) - entries)
            for tp, target in targets.items()
            if tp.topic == topic.name
        ]
        taken = [*accumulate(sorted(filter(None, needed), reverse=True)[:at_once])]
        room = list_room(entries)
        if ALL not in entries and taken and taken[-1] > room:
            yield FullList(topic.name, name, len(taken), bisect_right(taken, room))


def _entries(tp: TopicPartition, before: Brokers, target: Brokers, name: str) -> set[str]:
    new = set(target) - set(before)
    brokers = new if name == FOLLOWER_REPLICAS else before
    return {throttled_entry(tp.partition, broker) for broker in brokers} if new else set()


def _rate(broker: int, name: str) -> SettingKey:
    return (broker_resource(broker), name)


def _brokers_named(
    targets: Mapping[TopicPartition, Brokers], topic: str, key: SettingKey, replicas: str
) -> Collection[int] | None:
    """Return the brokers in a list; None if it names anything that the plan would not."""
    brokers: set[int] = set()
    for entry in parse_throttled_list(replicas):
        found = _ENTRY.fullmatch(entry)
        target = targets.get(TopicPartition(topic, int(found["partition"]))) if found else None
        if found is None or target is None:
            return None
        broker = int(found["broker"])
        if key[1] == FOLLOWER_REPLICAS and broker not in target:
            return None
        brokers.add(broker)
    return brokers


class Over(NamedTuple):
    """What of a file is over, so that its throttles may go."""

    partitions: Collection[TopicPartition]  # the partitions that are not being reassigned any more
    log_dirs: bool  # whether no replica moves to a log dir that the file names
    cleared: Collection[SettingKey] = ()  # the settings that a cancel has put back already
    listed: Collection[TopicPartition] = ()
    """The reassignments of the cluster. A run with nothing else in flight has nothing to end."""


class Foreign(enum.Enum):
    """Which throttles go, of those that this state directory has not set."""

    KEPT = enum.auto()
    OF_PLAN = enum.auto()
    """Those that equal what an --execute of the plan sets, once nothing moves in the cluster."""
    ALL = enum.auto()


FOREIGN = "clear-foreign-throttles"
_RATES = (*RATES, LOG_DIR_RATE)
_NO_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PARTITION, KafkaError.INVALID_TOPIC_EXCEPTION)
"""Kafka's errors for a topic that does not exist: it has no throttle."""
_STRAY = (ThrottleReason.LEFT_BEHIND, ThrottleReason.LOG_DIRS)


def clear_throttles(
    place: RunsPlace,
    targets: Mapping[TopicPartition, Brokers],
    over: Over,
    *,
    foreign: Foreign,
    say: Callable[[str], None] = click.echo,
) -> None:
    """Remove throttles, and name on standard error those that stay."""
    cluster = place.target.cluster
    if cluster.context.read_only:
        print_note(f"the context of {cluster.name} is read_only: throttles stay as they are")
        return
    cleared = _settled(place, over.listed) | {*over.cleared}
    if over.log_dirs:
        brokers = asyncio.run(_put_log_dir_rates_back(place))
        cleared |= {(broker_resource(broker), LOG_DIR_RATE) for broker in brokers}
    _say_cleared(cleared, say)
    if len(over.partitions) == len(targets):
        asyncio.run(_clear_foreign(place, targets, over, foreign))


def _settled(place: RunsPlace, listed: Collection[TopicPartition]) -> set[SettingKey]:
    put_back: set[SettingKey] = set()
    for run in [*left_runs(place)]:
        if run.submitted and run.in_flight > 0 and all(tp in listed for tp in run.tracks_in_flight):
            continue
        try:
            put_back |= {*settle(place, run.name)[1]}
        except OwnedElsewhere as owned:  # another call settles it
            print_note(str(owned))
    return put_back


async def _put_log_dir_rates_back(place: RunsPlace) -> list[int]:
    async with place.target.cluster.ports() as (reader, writer):
        return await LogDirThrottle(place.state, place.cluster_id).put_back(reader, writer)


def _say_cleared(keys: Collection[SettingKey], say: Callable[[str], None]) -> None:
    brokers = {int(r.name) for r, _ in keys if r.scope is ConfigScope.BROKER}
    topics = {r.name for r, _ in keys if r.scope is ConfigScope.TOPIC}
    if brokers:
        say(printed.clearing_broker_throttles(brokers))
    if topics:
        say(printed.clearing_topic_throttles(topics))


async def _clear_foreign(
    place: RunsPlace, targets: Mapping[TopicPartition, Brokers], over: Over, foreign: Foreign
) -> None:
    """Remove throttles that stay on the brokers and the file's topics, or name them."""
    async with aclosing(place.target.cluster.reader()) as reader:
        cluster = await reader.describe_cluster()
        found, unread = await _set_now(reader, cluster, {tp.topic for tp in targets})
        ours = found.keys() & _of_runs(place)
        others = {key: value for key, value in found.items() if key not in ours}
        going = _going(targets, others, over, foreign)
        removed = await _remove(place, reader, going, needed=foreign is not Foreign.ALL)
    _say_cleared(removed, click.echo)
    if staying := others.keys() - removed:
        hint = "" if foreign is Foreign.KEPT else f". To remove them, too: --{FOREIGN}"
        print_note(
            f"throttles stay on {_named(staying)}: this state directory has not set them{hint}"
        )
    if ours:
        print_note(f"throttles stay on {_named(ours)}: what has not ended needs them")
    for resource, why in unread.items():
        print_note(f"throttles may stay on {resource.scope} {resource.name}: {why}")


def _going(
    targets: Mapping[TopicPartition, Brokers],
    settings: Mapping[SettingKey, str],
    over: Over,
    foreign: Foreign,
) -> frozenset[SettingKey]:
    match foreign:
        case Foreign.KEPT:
            return frozenset()
        case Foreign.OF_PLAN:
            return throttles_of_plan(targets, settings)
        case Foreign.ALL:
            return frozenset(k for k in settings if over.log_dirs or k[1] != LOG_DIR_RATE)


async def _set_now(
    reader: ClusterReader, cluster: ClusterDescription, topics: Collection[str]
) -> tuple[dict[SettingKey, str], dict[ConfigResource, str]]:
    resources = {broker_resource(broker): _RATES for broker in cluster.online} | {
        topic_resource(topic): REPLICAS for topic in topics
    }
    answer = await reader.settings(resources.keys(), {*_RATES, *REPLICAS})
    found = {
        (resource, name): setting.own
        for resource, settings in answer.settings.items()
        for name, setting in settings.items()
        if name in resources[resource] and setting.own is not None
    }
    down = sorted(cluster.brokers.keys() - cluster.online)
    unread = dict.fromkeys(map(broker_resource, down), "it is down")
    unread |= {
        r: why for r, why in answer.failures.items() if answer.errors.get(r) not in _NO_TOPIC
    }
    return found, unread


def _of_runs(place: RunsPlace) -> set[SettingKey]:
    runs = unfinished_runs(place.state, place.cluster_id)
    of_log_dirs = LogDirThrottle(place.state, place.cluster_id).set_on
    rates = {(broker_resource(broker), LOG_DIR_RATE) for broker in of_log_dirs}
    return rates | {key for run, _ in runs for key in run.throttled.changed}


async def _remove(
    place: RunsPlace, reader: ClusterReader, wanted: Collection[SettingKey], *, needed: bool
) -> frozenset[SettingKey]:
    """Remove settings of others from a cluster in which nothing moves; return those that are gone.

    Kafka's tool sets a throttle before it submits anything, so one read is not enough.
    """
    if not wanted:
        return frozenset()
    leftovers = Leftovers(reader, place.state, SystemClock())
    scan = await leftovers.scan()
    if any(t.reason is ThrottleReason.CATCHING_UP and _key(t) in wanted for t in scan.throttles):
        for sentence in catching_up_sentences(scan):
            print_note(f"{sentence}: the throttles that it needs stay")
    going = [
        throttle
        for throttle in _stray(scan.throttles, wanted)
        if not (needed and _is_needed(throttle, scan.throttles, wanted))
    ]
    if not going or not await _may_change(place):
        return frozenset()
    print_note(f"watching for {WATCHED_S:.0f} s, before throttles go that someone else has set")
    if changes := await leftovers.watch(scan):
        print_note(f"they stay: {join_some(changes)}")
        return frozenset()
    async with aclosing(place.target.cluster.writer()) as writer:
        left = await leftovers.remove(writer, going)
    for throttle, why in left.items():
        print_note(f"{throttle.where} {throttle.key} stays: {why}")
    return frozenset(_key(throttle) for throttle in going if throttle not in left)


async def _may_change(place: RunsPlace) -> bool:
    try:
        await place.check_owner()
    except RunRefused as owned:
        print_note(str(owned))
        return False
    return True


def _key(throttle: FoundThrottle) -> SettingKey:
    return (throttle.resource, throttle.key)


def _stray(
    throttles: Sequence[FoundThrottle], wanted: Collection[SettingKey]
) -> Iterator[FoundThrottle]:
    for throttle in throttles:
        if _key(throttle) in wanted and throttle.whole and throttle.reason in _STRAY:
            yield throttle


def _is_needed(
    throttle: FoundThrottle, throttles: Sequence[FoundThrottle], wanted: Collection[SettingKey]
) -> bool:
    """Whether a list that stays names the broker of a rate."""
    if throttle.resource.scope is not ConfigScope.BROKER:
        return False
    broker = throttle.resource.name
    return any(
        entry == ALL or entry.partition(":")[2] == broker
        for each in throttles
        if each.key in REPLICAS and _key(each) not in wanted
        for entry in each.values
    )


def _named(keys: Collection[SettingKey]) -> str:
    brokers = sorted({int(r.name) for r, _ in keys if r.scope is ConfigScope.BROKER})
    topics = sorted({r.name for r, _ in keys if r.scope is ConfigScope.TOPIC})
    parts = [join_named("broker", brokers, most=8)] if brokers else []
    if topics:
        parts.append(f"topic{'' if len(topics) == 1 else 's'} {join_some(topics)}")
    return " and ".join(parts)
