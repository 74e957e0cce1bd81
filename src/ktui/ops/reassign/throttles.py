"""The throttles that --verify and --cancel remove: our own, those of the plan, or all if asked."""

from __future__ import annotations

import enum
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import accumulate
from typing import NamedTuple

from ktui.cluster.clock import SystemClock
from ktui.cluster.errors import KafkaError
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import ClusterPorts, ClusterReader, ConfigResource, ConfigScope
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
from ktui.execution import RunRefused
from ktui.execution.host.catalog import unfinished_runs
from ktui.execution.host.ownership import OwnedElsewhere
from ktui.execution.run.throttle_status import name_resources
from ktui.ops.leftovers import (
    WATCHED_S,
    FoundThrottle,
    Leftovers,
    ThrottleReason,
    catching_up_sentences,
)
from ktui.ops.reassign.log_dirs import LogDirThrottle
from ktui.ops.reassign.runs import RunsPlace
from ktui.ops.reassign.tool import BROKERS_CLEARED, TOPICS_CLEARED, line
from ktui.planning.plan import join_some
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
    every = ((broker_resource(broker), name) for broker in brokers for name in RATES)
    rates = {key for key in every if key in settings}
    same = len({settings[key] for key in rates}) == 1
    return frozenset(found | rates) if same else frozenset(found)


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


class FullList(NamedTuple):
    """A topic's list of throttled replicas that has not enough room."""

    topic: str
    name: str
    partitions: int  # the partitions with entries in it at once
    fitting: int  # how many of those there is room for

    @property
    def sentence(self) -> str:
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
        used = [*accumulate(sorted(filter(None, needed), reverse=True)[:at_once])]
        room = list_room(entries)
        if ALL not in entries and used and used[-1] > room:
            yield FullList(topic.name, name, len(used), bisect_right(used, room))


def _entries(tp: TopicPartition, before: Brokers, target: Brokers, name: str) -> set[str]:
    new = set(target) - set(before)
    brokers = new if name == FOLLOWER_REPLICAS else before
    return {throttled_entry(tp.partition, broker) for broker in brokers} if new else set()


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
    place: RunsPlace, targets: Mapping[TopicPartition, Brokers], over: Over, foreign: Foreign
) -> None:
    """Remove throttles, and note those that stay."""
    cleared = {*over.cleared}
    for run in place.left_runs():
        if run.submitted and run.in_flight > 0 and run.tracks_in_flight.keys() <= {*over.listed}:
            continue
        try:
            cleared |= {*place.settle(run.name)[1]}
        except OwnedElsewhere as owned:  # another call settles it
            place.note(str(owned))
    if over.log_dirs:
        throttle = LogDirThrottle(place.state, place.cluster_id)
        cleared |= {(broker_resource(b), LOG_DIR_RATE) for b in place.act(throttle.put_back)}
    _say_cleared(place, cleared)
    if len(over.partitions) == len(targets):
        place.act(lambda ports: _clear_foreign(place, ports, targets, over, foreign))


def _say_cleared(place: RunsPlace, keys: Collection[SettingKey]) -> None:
    if brokers := {int(r.name) for r, _ in keys if r.scope is ConfigScope.BROKER}:
        place.say(line(BROKERS_CLEARED, brokers))
    if topics := {r.name for r, _ in keys if r.scope is ConfigScope.TOPIC}:
        place.say(line(TOPICS_CLEARED, topics))


async def _clear_foreign(
    place: RunsPlace,
    ports: ClusterPorts,
    targets: Mapping[TopicPartition, Brokers],
    over: Over,
    foreign: Foreign,
) -> None:
    """Remove throttles that stay on the brokers and the file's topics, or name them."""
    found, unread = await _set_now(ports.reader, {tp.topic for tp in targets})
    ours = found.keys() & _of_runs(place)
    others = {key: value for key, value in found.items() if key not in ours}
    going: Collection[SettingKey] = ()
    if foreign is Foreign.OF_PLAN:
        going = throttles_of_plan(targets, others)
    elif foreign is Foreign.ALL:
        going = [key for key in others if over.log_dirs or key[1] != LOG_DIR_RATE]
    removed = await _remove(place, ports, going, needed=foreign is not Foreign.ALL)
    _say_cleared(place, removed)
    if staying := others.keys() - removed:
        hint = "" if foreign is Foreign.KEPT else f". To remove them, too: --{FOREIGN}"
        where = name_resources(staying)
        place.note(f"throttles stay on {where}: this state directory has not set them{hint}")
    if ours:
        place.note(f"throttles stay on {name_resources(ours)}: what has not ended needs them")
    for resource, why in unread.items():
        place.note(f"throttles may stay on {resource.scope} {resource.name}: {why}")


async def _set_now(
    reader: ClusterReader, topics: Collection[str]
) -> tuple[dict[SettingKey, str], dict[ConfigResource, str]]:
    cluster = await reader.describe_cluster()
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
    place: RunsPlace, ports: ClusterPorts, wanted: Collection[SettingKey], *, needed: bool
) -> frozenset[SettingKey]:
    """Remove settings of others from a cluster in which nothing moves; return those that are gone.

    Kafka's tool sets a throttle before it submits anything, so one read is not enough.
    """
    if not wanted:
        return frozenset()
    leftovers = Leftovers(ports.reader, place.state, SystemClock())
    scan = await leftovers.scan()
    asked = [each for each in scan.throttles if each.setting_key in wanted]
    if any(each.reason is ThrottleReason.CATCHING_UP for each in asked):
        for sentence in catching_up_sentences(scan):
            place.note(f"{sentence}: the throttles that it needs stay")
    stays = [t for t in scan.throttles if t.key in REPLICAS and t.setting_key not in wanted]
    going = [
        each
        for each in asked
        if each.whole and each.reason in _STRAY and not (needed and _is_needed(each, stays))
    ]
    if not going:
        return frozenset()
    try:
        await place.check_owner()
    except RunRefused as owned:
        place.note(str(owned))
        return frozenset()
    place.note(f"watching for {WATCHED_S:.0f} s, before throttles go that someone else has set")
    if changes := await leftovers.watch(scan):
        place.note(f"they stay: {join_some(changes)}")
        return frozenset()
    left = await leftovers.remove(ports.writer, going)
    for throttle, why in left.items():
        place.note(f"{throttle.where} {throttle.key} stays: {why}")
    return frozenset(each.setting_key for each in going if each not in left)


def _is_needed(throttle: FoundThrottle, lists: Collection[FoundThrottle]) -> bool:
    """Whether a list that stays names the broker of a rate."""
    entries = (entry for each in lists for entry in each.values)
    names = (entry == ALL or entry.partition(":")[2] == throttle.resource.name for entry in entries)
    return throttle.resource.scope is ConfigScope.BROKER and any(names)
