"""Moving partitions, and a cluster in which every step succeeds."""

import random
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType

from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from ktui.cluster.partition import TopicPartition
from ktui.pacing.choosing import decide_steps
from ktui.pacing.limits import BrokerLimits, Limits, Shape
from ktui.pacing.queue import Usage
from ktui.pacing.room import NOTHING_FOREIGN
from ktui.pacing.roster import Roster
from ktui.pacing.situation import Decision, Situation, Step, WantedPartition, raises_epoch
from ktui.pacing.steps import after, all_steps

WHOLE = Limits(shape=Shape.WHOLE)
Brokers = tuple[int, ...]
Way = list[tuple[Brokers, int | None]]  # each step's target, and the leader that is elected


def replica_lists(brokers: range, longest: int) -> st.SearchStrategy[Brokers]:
    """Return replicas that differ from draw to draw: lists of few choices are mostly alike."""

    def some(seed: int, count: int) -> Brokers:
        return tuple(random.Random(seed).sample(brokers, count))  # noqa: S311 - not a secret

    return st.builds(some, st.integers(0, 10_000), st.integers(1, longest))


def on_the_way(
    replicas: Brokers,
    target: Brokers,
    *,
    isr: Brokers | None = None,
    leader: int | None = -1,
    offline: Iterable[int] = (),
    min_isr: int = 1,
    before_4_3: bool = False,
) -> Situation:
    """Return a partition; by default everything is in sync, online and led by the first replica."""
    return Situation(
        replicas=replicas,
        isr=replicas if isr is None else isr,
        leader=replicas[0] if leader == -1 else leader,
        target=target,
        online=frozenset((*replicas, *target)) - frozenset(offline),
        min_insync_replicas=min_isr,
        waits_for_kept=before_4_3,
    )


def kip_435(replicas: int | None = 1) -> Limits:
    return Limits(shape=Shape.KIP_435, replicas=replicas)


def gentle(replicas: int | None = 1, extra: int | None = None) -> Limits:
    return Limits(replicas=replicas, extra_replicas=extra)


def way(replicas: Brokers, target: Brokers, limits: Limits, leader: int = -1) -> Way:
    """Return all steps of a partition that is in sync."""
    steps = all_steps(on_the_way(replicas, target, leader=leader), limits)
    return [(step.target, step.elects) for step in steps]


def tp(number: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, number)


def roster_of(limits: Limits, *ways: tuple[Brokers, Brokers], sizes: Brokers = ()) -> Roster:
    """Return a run of partitions 0, 1, ... of one topic, each from its replicas to its target."""
    roster = Roster(limits)
    roster.add(
        WantedPartition(tp(n), on_the_way(*one), size=sizes[n] if sizes else 0)
        for n, one in enumerate(ways)
    )
    return roster


def foreign_moves(brokers: Collection[int], most: int) -> st.SearchStrategy[Usage]:
    """Draw replicas that others add on up to two brokers, all copied from one leader."""
    adding = st.dictionaries(st.sampled_from([*brokers]), st.integers(1, most), max_size=2)
    leaders = st.sampled_from([*brokers])
    return st.builds(
        lambda on, leader: foreign_use(on, {leader: sum(on.values())}), adding, leaders
    )


def foreign_use(
    adding: Mapping[int, int], sending: Mapping[int, int] = MappingProxyType({})
) -> Usage:
    """Return the use of limits by others, who add replicas on brokers, copied from leaders."""
    used = Usage()
    used.taken["replica_movements"][None] = sum(adding.values())
    used.taken["per_broker"].update(adding)
    used.taken["per_leader"].update(sending)
    return used


def broker_limits(brokers: Collection[int]) -> st.SearchStrategy[tuple[BrokerLimits, ...]]:
    """Draw limits of up to two brokers' own, in half of the draws none."""
    counts = st.sampled_from((UNSET, UNSET, None, 1, 2))
    sizes = st.sampled_from((UNSET, UNSET, None, 1, 1024 * 1024))
    own = st.builds(
        BrokerLimits,
        broker=st.sampled_from([*brokers]),
        per_broker=counts,
        per_leader=counts,
        bytes_per_broker=sizes,
    )
    some = st.lists(own, min_size=1, max_size=2, unique_by=lambda each: each.broker)
    return st.just(()) | some.map(lambda drawn: tuple(sorted(drawn, key=lambda one: one.broker)))


def numbers(decision: Decision) -> list[int]:
    """Return the partitions that a decision moves, by number, in its order."""
    return [move.tp.partition for move in decision.moves]


def submit(roster: Roster, others: Usage = NOTHING_FOREIGN) -> Decision:
    """Decide, and count the decision as submitted."""
    decision = decide_steps(roster, others)
    roster.submitted(decision)
    roster.cuts_lately += sum(raises_epoch(move.step) for move in decision.moves)
    return decision


def complete(roster: Roster, *partitions: int) -> None:
    """Let steps in flight succeed: those named, or all of them."""
    for moved in [tp(n) for n in partitions] or list(roster.in_flight):
        now = after(roster.situation(moved), roster.in_flight[moved].step)
        roster.over(moved, now)


def run(roster: Roster) -> Iterator[Decision]:
    """Yield decision after decision, each of which succeeds at once, until nothing is submitted."""
    while True:
        decision = submit(roster)
        if not any(decision.moves):
            return
        yield decision
        complete(roster)


def broken(now: Situation, *brokers: int) -> Situation:
    """Return the partition without some brokers: they are offline, and out of sync."""
    isr = tuple(b for b in now.isr if b not in brokers)
    leader = now.leader if now.leader in isr else next(iter(isr), None)
    return replace(now, isr=isr, leader=leader, online=now.online - {*brokers})


def step(given: object) -> Step:
    assert isinstance(given, Step), given
    return given
