"""The throttles of a plan: what others have set for just this one, and room for its own; pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import accumulate
from typing import NamedTuple

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import ConfigScope
from ktui.cluster.settings import (
    ALL,
    FOLLOWER_REPLICAS,
    LONGEST_LIST,
    RATES,
    REPLICAS,
    SettingKey,
    broker_resource,
    list_room,
    parse_throttled_list,
    throttled_entry,
)
from ktui.quantities import as_count

_ENTRY = re.compile(r"(?P<partition>[0-9]{1,9}):(?P<broker>[0-9]{1,9})")


def throttles_of_plan(
    targets: Mapping[TopicPartition, Brokers], settings: Mapping[SettingKey, str]
) -> frozenset[SettingKey]:
    """Return the settings that equal what an --execute --throttle of a plan sets (KIP-73).

    A topic's lists do if they name only partitions of the plan, and followers only on brokers of
    their targets; the replicas from before the plan are not known any more. The rates do if all
    of them on the brokers that those lists name are the same.

    Args:
        targets: the plan.
        settings: the throttles that are set, with their values.
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
    partitions: int
    """The partitions with entries in it at once."""
    fitting: int
    """How many of those there is room for."""

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
        targets: the plan.
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
