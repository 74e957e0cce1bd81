"""The throttles that another program has set for just this plan; pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import ConfigScope
from ktui.cluster.resources import SettingKey, broker_resource
from ktui.cluster.throttle_settings import FOLLOWER_REPLICAS, RATES, REPLICAS, parse_throttled_list

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
