"""Examples of topicmappr's README with the results that it prints, beside ktui on the same input.

Source: the README of cmd/topicmappr in DataDog/kafka-kit v2.1.0, section "Usage":
https://pkg.go.dev/github.com/DataDog/kafka-kit@v2.1.0+incompatible/cmd/topicmappr
Its example of storage placement states no partition sizes, so it cannot be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from bench.checks import check_count
from bench.peers.figures import figures_of
from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.planning.intents.drain import drain, swap
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import MadePlan, Wishes
from ktui.planning.intents.shares import fill
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.replication_factor import BrokerPool

TOPIC = "test_topic"
_WAYS = {"ktui": Wishes(), "ktui --keep-order": Wishes(keep_order=True)}


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """An input, the result that the README prints, and the same intention for ktui."""

    name: str
    before: tuple[Brokers, ...]
    """By partition. Every partition has 1 byte, as no sizes are given."""
    brokers: tuple[int, ...]
    """Those that may have replicas."""
    published: tuple[Brokers, ...]
    ktui: Callable[[Layout, Wishes], MadePlan]


def examples() -> Iterator[Example]:
    """Return the examples in the order of the README."""
    two = ((1001, 1002), (1002, 1001), (1001, 1002), (1002, 1001))
    yield Example(
        name="broker 1002 is replaced by 1003 and 1004",
        before=two,
        brokers=(1001, 1003, 1004),
        published=((1001, 1003), (1003, 1001), (1001, 1004), (1004, 1001)),
        ktui=lambda layout, wishes: drain(layout, [1002], wishes),
    )
    yield Example(
        name="brokers 1003 and 1004 are added (--force-rebuild)",
        before=two,
        brokers=(1001, 1002, 1003, 1004),
        published=((1001, 1002), (1002, 1001), (1003, 1004), (1004, 1003)),
        ktui=lambda layout, wishes: fill(layout, [1003, 1004], wishes),
    )
    yield Example(
        name="broker 1 is replaced by 2",
        before=((0, 1), (1, 0)) * 4,
        brokers=(0, 2),
        published=((0, 2), (2, 0)) * 4,
        ktui=lambda layout, wishes: swap(layout, 1, 2, wishes),
    )
    yield Example(
        name="broker 1007 is replaced by 1003, 1004 and 1008",
        before=(
            (1005, 1006),
            (1006, 1007),
            (1007, 1001),
            (1001, 1002),
            (1002, 1005),
            (1005, 1007),
            (1006, 1001),
            (1007, 1002),
        ),
        brokers=(1001, 1002, 1003, 1004, 1005, 1006, 1008),
        published=(
            (1005, 1006),
            (1006, 1003),
            (1003, 1001),
            (1001, 1002),
            (1002, 1005),
            (1005, 1008),
            (1006, 1001),
            (1004, 1002),
        ),
        ktui=lambda layout, wishes: drain(layout, [1007], wishes),
    )


def run() -> None:
    """Print the published figures and those of ktui."""
    print("topicmappr's examples: replicas copied, leaders changed, highest to mean")
    for example in examples():
        layout = layout_of(example)
        plans = {"topicmappr": published(example)}
        for name, wishes in _WAYS.items():
            made = example.ktui(layout, wishes)
            check_count(f"left undone, {example.name}", len(made.left), 0)
            plans[name] = made.plan
        print(f"  {example.name}")
        for name, plan in plans.items():
            found = figures_of(layout, plan, example.brokers)
            spread = found.spread
            print(
                f"    {name:<17} {found.moves} replicas, {found.leader_changes} leaders changed; "
                f"{spread.replicas:.2f} replicas, {spread.leaders:.2f} leaders"
            )


def layout_of(example: Example) -> Layout:
    """Return the cluster of an example: no racks, no sizes, no bounds."""
    known = frozenset(example.brokers).union(*example.before)
    states = {
        TopicPartition(TOPIC, number): PartitionState(
            TopicPartition(TOPIC, number), None, brokers, brokers, brokers[0]
        )
        for number, brokers in enumerate(example.before)
    }
    return Layout(
        partitions=states,
        pool=BrokerPool(online=known, racks=dict.fromkeys(known)),
        known=known,
        sizes=dict.fromkeys(states, 1),
    )


def published(example: Example) -> Plan:
    """Return the published result of an example as a plan."""
    return Plan(
        tuple(
            PartitionTarget(TOPIC, number, brokers)
            for number, brokers in enumerate(example.published)
        )
    )
