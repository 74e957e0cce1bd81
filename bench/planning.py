"""The time to make a plan from each intention, on a cluster of 200,000 partitions.

Each plan is checked: it is valid, and does what it is for.
"""

from __future__ import annotations

import random
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from bench.checks import check_count
from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.planning.intents.drain import drain, replication_factor, shed, swap
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.leader_flow import demote, leaders
from ktui.planning.intents.made_plan import MadePlan, Wishes
from ktui.planning.intents.placing import rack_repair
from ktui.planning.intents.shares import fill
from ktui.planning.intents.spread import By, spread
from ktui.planning.replication_factor import BrokerPool

TOPICS = 1_000
PARTITIONS = 200
"""Partitions per topic."""
BROKERS = 100
RACKS = 10
NEW = 101
"""A broker without replicas."""
GB = 10**9
TB = 10**12
MOST_SECONDS = 30
MOST_BYTES = 2 * 10**9
_Lists = dict[TopicPartition, Brokers]


class _Case(msgspec.Struct, frozen=True):
    """An intention, what it has to reach, and the fewest moves by which it can be reached."""

    name: str
    make: Callable[[Layout], MadePlan]
    reached: Callable[[Layout, _Lists], bool]
    bound: Callable[[Layout], int] | None = None
    bytes_bound: Callable[[Layout], float] | None = None
    """The fewest bytes that have to be copied, and perhaps more."""


def run() -> None:
    """Print the figures."""
    layout = _cluster()
    print(f"plans for {len(layout.partitions):,} partitions on {len(layout.known)} brokers:")
    for case in _cases():
        started = time.perf_counter()
        made = case.make(layout)
        seconds = time.perf_counter() - started
        after = _after(layout, made)
        check_count(f"{case.name}: broken promises", _broken(layout, made, after), 0)
        check_count(f"{case.name}: goals missed", int(not case.reached(layout, after)), 0)
        bound = "" if case.bound is None else f", bound {case.bound(layout):,} moves"
        if case.bytes_bound is not None:
            bound = f", at least {case.bytes_bound(layout) / TB:.2f} TB"
        print(
            f"  {case.name:<17} {seconds:5.1f} s, {made.moves:>7,} moves, {made.bytes / TB:6.2f} "
            f"TB, {made.leader_changes:>6,} leader changes, {len(made.left):,} left{bound}"
        )
        if seconds > MOST_SECONDS:
            print(f"    slower than the aim of {MOST_SECONDS} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"  peak memory: {peak / 1e9:.1f} GB (aim: at most {MOST_BYTES / 1e9:.0f})")


def _cases() -> Iterator[_Case]:
    asked = Wishes()
    yield _Case("drain 1", lambda at: drain(at, [7], asked), _empty(7), _held(7))
    yield _Case(
        "drain 10",
        lambda at: drain(at, range(1, 11), asked),
        _empty(*range(1, 11)),
        _held(*range(1, 11)),
    )
    yield _Case(
        "drain, full disks",
        lambda at: drain(
            msgspec.structs.replace(at, room=dict.fromkeys(at.known, TB // 17)), [7], asked
        ),
        _empty(7),
        _held(7),
    )
    yield _Case("swap", lambda at: swap(at, 7, NEW, asked), _empty(7), _held(7))
    yield _Case("fill", lambda at: fill(at, [NEW], asked), _filled, _share)
    yield _Case(
        "factor 4 of 100",
        lambda at: replication_factor(at, _topics(100), 4, asked),
        lambda _, lists: all(len(each) == 4 for tp, each in lists.items() if tp.topic < "t0100"),  # noqa: PLR2004
        lambda _: 100 * PARTITIONS,
    )
    yield _Case("spread bytes", lambda at: spread(at, asked), _even_bytes, None, _bytes_off)
    yield _Case("spread replicas", lambda at: spread(at, asked, by=By.REPLICAS), _even_replicas)
    yield _Case(
        "shed 5 TB", lambda at: shed(at, 7, 5 * TB, asked), _lighter, None, lambda _: 5 * TB
    )
    yield _Case("leaders", lambda at: leaders(at, asked), _even_leaders)
    yield _Case("demote 10", lambda at: demote(at, range(1, 11), asked), _leads_nothing)
    yield _Case("rack-repair", lambda at: rack_repair(at, asked), _on_three_racks, _racks_lacking)


def _topics(count: int) -> list[str]:
    return [f"t{number:04}" for number in range(count)]


def _cluster() -> Layout:
    """Make a cluster with skewed sizes and loads, where some partitions share racks."""
    chance = random.Random(1)  # noqa: S311 - not a secret
    racks = {broker: f"rack-{broker % RACKS}" for broker in range(1, BROKERS + 2)}
    states: dict[TopicPartition, PartitionState] = {}
    sizes: dict[TopicPartition, int] = {}
    for topic in _topics(TOPICS):
        for number in range(PARTITIONS):
            tp = TopicPartition(topic, number)
            here = _three(chance, racks)
            states[tp] = PartitionState(tp, None, here, here, here[0])
            sizes[tp] = int(chance.paretovariate(1.3) * GB / 5)
    return Layout(
        partitions=states,
        pool=BrokerPool(online=frozenset(racks), racks=racks),
        known=frozenset(racks),
        sizes=sizes,
        room=dict.fromkeys(racks, 20 * TB),
    )


def _three(chance: random.Random, racks: dict[int, str]) -> Brokers:
    """Draw three brokers, low ids more often; in one case of fifty regardless of racks."""
    found: list[int] = []
    anywhere = chance.random() < 0.02  # noqa: PLR2004
    while len(found) < 3:  # noqa: PLR2004
        broker = int(BROKERS * chance.random() ** 1.2) + 1
        if broker in found:
            continue
        if anywhere or all(racks[broker] != racks[other] for other in found):
            found.append(broker)
    return tuple(found)


# ---------------------------------------------------------------------- is the plan right?


def _after(layout: Layout, made: MadePlan) -> _Lists:
    lists = {tp: state.replicas for tp, state in layout.partitions.items()}
    return lists | {target.tp: target.replicas for target in made.plan.partitions}


def _broken(layout: Layout, made: MadePlan, after: _Lists) -> int:
    """Count what no plan may do: a broker twice, one too full, moves that are miscounted."""
    taken: Counter[int] = Counter()
    moves = twice = 0
    for target in made.plan.partitions:
        twice += len({*target.replicas}) < len(target.replicas)
        for broker in {*target.replicas} - {*layout.partitions[target.tp].replicas}:
            taken[broker] += layout.size(target.tp)
            moves += 1
    full = sum(taken[broker] > room for broker, room in layout.room.items())
    return twice + full + (moves != made.moves) + (len(after) != len(layout.partitions))


def _empty(*gone: int) -> Callable[[Layout, _Lists], bool]:
    return lambda _, lists: not any({*gone} & {*brokers} for brokers in lists.values())


def _held(*brokers: int) -> Callable[[Layout], int]:
    return lambda at: sum(len({*brokers} & {*each.replicas}) for each in at.partitions.values())


def _share(layout: Layout) -> int:
    return 3 * len(layout.partitions) // len(layout.known)


def _filled(layout: Layout, lists: _Lists) -> bool:
    return _loads(lists)[NEW] == _share(layout)


def _loads(lists: _Lists, sizes: dict[TopicPartition, int] | None = None) -> Counter[int]:
    loads: Counter[int] = Counter()
    for tp, brokers in lists.items():
        for broker in brokers:
            loads[broker] += 1 if sizes is None else sizes[tp]
    return loads


def _even_bytes(layout: Layout, lists: _Lists) -> bool:
    return _within(_loads(lists, dict(layout.sizes)), layout)


def _even_replicas(layout: Layout, lists: _Lists) -> bool:
    return _within(_loads(lists), layout)


def _within(loads: Counter[int], layout: Layout) -> bool:
    share = loads.total() / len(layout.known)
    return all(0.899 * share <= loads[broker] <= 1.101 * share for broker in layout.known)


def _bytes_off(layout: Layout) -> float:
    """Return the bytes that have to leave full brokers, or to reach empty ones."""
    before = {tp: state.replicas for tp, state in layout.partitions.items()}
    loads = _loads(before, dict(layout.sizes))
    share = loads.total() / len(layout.known)
    over = sum(max(loads[broker] - 1.1 * share, 0) for broker in layout.known)
    under = sum(max(0.9 * share - loads[broker], 0) for broker in layout.known)
    return max(over, under)


def _lighter(layout: Layout, lists: _Lists) -> bool:
    before = {tp: state.replicas for tp, state in layout.partitions.items()}
    sizes = dict(layout.sizes)
    freed = _loads(before, sizes)[7] - _loads(lists, sizes)[7]
    return 5 * TB <= freed <= 5.001 * TB


def _even_leaders(_: Layout, lists: _Lists) -> bool:
    """Return whether the brokers that have replicas lead their share: the new one has none."""
    return max(Counter(brokers[0] for brokers in lists.values()).values()) == len(lists) // BROKERS


def _leads_nothing(_: Layout, lists: _Lists) -> bool:
    return all(brokers[0] > 10 or max(brokers) <= 10 for brokers in lists.values())  # noqa: PLR2004


def _on_three_racks(layout: Layout, lists: _Lists) -> bool:
    racks = layout.pool.racks
    return all(len({racks[broker] for broker in brokers}) == 3 for brokers in lists.values())  # noqa: PLR2004


def _racks_lacking(layout: Layout) -> int:
    racks = layout.pool.racks
    return sum(3 - len({racks[b] for b in each.replicas}) for each in layout.partitions.values())
