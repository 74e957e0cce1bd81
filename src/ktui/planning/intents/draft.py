"""A plan while it is made: the lists of replicas, and the budget that is left for changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from copy import copy

from ktui.cluster.broker import INTERNAL_TOPICS
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import Internal, Left, MadePlan, Why, Wishes, check_wishes
from ktui.planning.plan import PartitionTarget, Plan


class Budget:
    """What has been used up of moves, bytes and changes of preferred leaders (None: no bound)."""

    def __init__(self, wishes: Wishes) -> None:
        self._most = wishes
        self.moves = 0
        self.bytes = 0
        self.leader_changes = 0

    def trial(self) -> Budget:
        return copy(self)

    @property
    def bytes_left(self) -> int | None:
        return None if self._most.max_bytes is None else self._most.max_bytes - self.bytes

    def lacks(self, size: int, *, leader: bool = False) -> Why | None:
        if self._most.max_moves is not None and self.moves >= self._most.max_moves:
            return Why.MAX_MOVES
        if (left := self.bytes_left) is not None and size > left:
            return Why.MAX_BYTES
        return self.lacks_leader_change() if leader else None

    def lacks_leader_change(self) -> Why | None:
        most = self._most.max_leader_changes
        return Why.MAX_LEADER_CHANGES if most is not None and self.leader_changes >= most else None

    def take(self, size: int, *, leader: bool = False) -> None:
        self.moves += 1
        self.bytes += size
        self.leader_changes += leader

    def give_back(self, size: int) -> None:
        self.moves -= 1
        self.bytes -= size


ReplicaOn = tuple[TopicPartition, int]
"""A replica that an intention is about: the partition, and the broker that has it now."""


class Draft:
    """The replica lists as they will be, and what changing them has used up.

    Room counts only as taken: what leaves a disk is deleted after all else has been copied, and
    what is being copied has taken its room already. `closed` brokers get no replicas, besides those
    down or cordoned. Unless `replaces`, partitions with replicas on unregistered brokers stay:
    Kafka refuses targets that name such a broker. Raises CannotMake for wrong wishes.
    """

    def __init__(
        self,
        layout: Layout,
        wishes: Wishes,
        closed: Collection[int] = (),
        *,
        replaces: bool = False,
    ) -> None:
        check_wishes(layout, wishes)
        self.layout = layout
        self._no_brokers = frozenset() if replaces else layout.unregistered
        self._refused = layout.pool.refused - frozenset(closed)
        self.wishes = wishes
        self.budget = Budget(wishes)
        self.targets = [
            broker
            for broker in layout.pool.targets
            if broker not in closed and layout.weight(broker) > 0
        ]
        self._open = frozenset(self.targets)
        self.lists: dict[TopicPartition, Brokers] = {}
        """The replicas of each partition; a new one is in the place of the one that it replaces."""
        self.bytes: Counter[int] = Counter()
        self.leads: Counter[int] = Counter()
        self.of_topic: dict[str, Counter[int]] = {}
        self.room = dict(layout.room)
        self.fresh: dict[int, dict[TopicPartition, None]] = {}
        """The partitions that have a new replica on a broker."""
        self.in_place: set[TopicPartition] = set()
        """The partitions whose lists keep their drafted order, also where a replica is new."""
        self._left: dict[tuple[TopicPartition | None, int | None], Left] = {}
        self._includes: dict[str, bool] = {}
        self._floors: dict[TopicPartition, int] = {}
        self._count()

    def _count(self) -> None:
        size, room = self.layout.size, self.room
        partitions = self.layout.partitions
        for tp in sorted(partitions):
            state = partitions[tp]
            brokers = state.target if state.removing else state.replicas
            self.lists[tp] = brokers
            each = size(tp)
            of_topic = self.of_topic.setdefault(tp.topic, Counter())
            for broker in brokers:
                self.bytes[broker] += each
                of_topic[broker] += 1
            for broker in state.adding:
                if broker in room:
                    room[broker] -= each
            if brokers:
                self.leads[brokers[0]] += 1

    # ------------------------------------------------------------------ what there is

    def original(self, tp: TopicPartition) -> Brokers:
        state = self.layout.partitions[tp]
        return state.target if state.removing else state.replicas

    def includes(self, topic: str) -> bool:
        found = self._includes.get(topic)
        if found is None:
            found = self._includes[topic] = self.wishes.includes(topic)
        return found

    def in_scope(self) -> Iterator[TopicPartition]:
        return (tp for tp in self.lists if self.includes(tp.topic))

    def fixed(self, tp: TopicPartition) -> Why | None:
        """Return why no list of (some of) the same replicas can be made; None if it can."""
        if why := self._unchangeable(tp):
            return why
        return Why.CORDONED if self._names_refused(self.original(tp)) else None

    def _names_refused(self, brokers: Iterable[int]) -> bool:
        return bool(self._refused) and not self._refused.isdisjoint(brokers)

    def _unchangeable(self, tp: TopicPartition) -> Why | None:
        state = self.layout.partitions[tp]
        if state.reassigning:
            return Why.REASSIGNING
        if not state.described:
            return Why.UNREADABLE
        if self._no_brokers and not self._no_brokers.isdisjoint(self.original(tp)):
            return Why.UNREGISTERED
        return None

    def may_lead(self, tp: TopicPartition, broker: int) -> bool:
        """Return whether a replica is alive and in sync."""
        state = self.layout.partitions[tp]
        return (
            broker in state.isr
            and broker in self.layout.pool.online
            and broker not in state.offline
        )

    def immovable(self, tp: TopicPartition) -> Why | None:
        if why := self._unchangeable(tp):
            return why
        replicas = self.layout.partitions[tp].replicas
        return None if any(self.may_lead(tp, each) for each in replicas) else Why.LAST_REPLICA

    def racks(self, brokers: Iterable[int]) -> set[str]:
        found = {self.layout.pool.racks.get(broker) for broker in brokers}
        return {rack for rack in found if rack is not None}

    def floor(self, tp: TopicPartition) -> int:
        """Return the number of racks that a partition has to stay on."""
        if not self.wishes.rack_aware:
            return 0
        found = self._floors.get(tp)
        if found is None:
            found = self._floors[tp] = len(self.racks(self.original(tp)))
        return found

    def least_racks(self, tp: TopicPartition) -> int:
        """Return the racks that a partition has to stay on: as before, or fewer if it is by now."""
        return min(self.floor(tp), len(self.racks(self.lists[tp])))

    def raise_floor(self, tp: TopicPartition) -> None:
        self._floors[tp] = len(self.racks(self.lists[tp]))

    def has_room(self, tp: TopicPartition, broker: int) -> bool:
        """Return whether a replica fits on a broker's disks, or is there before the plan."""
        room = self.room.get(broker)
        return room is None or self.layout.size(tp) <= room or broker in self.original(tp)

    def why_not(
        self, tp: TopicPartition, old: int | None, new: int, least_racks: int | None = None
    ) -> Why | None:
        """Return why a replica may not go from a broker (None: one more) to another."""
        brokers = self.lists[tp]
        if new in brokers or new not in self._open:
            return Why.NO_BROKER
        if self._names_refused(each for each in brokers if each != old):
            return Why.CORDONED
        least = self.least_racks(tp) if least_racks is None else least_racks
        if least and least > len(self.racks([new, *(each for each in brokers if each != old)])):
            return Why.RACK
        return None if self.has_room(tp, new) else Why.ROOM

    # ------------------------------------------------------------------ changing it

    def cost(self, tp: TopicPartition, old: int | None) -> tuple[int, bool]:
        """Return the bytes of a move, and whether another broker becomes the preferred leader."""
        return self.layout.size(tp), old is not None and old == self.original(tp)[0]

    def lacks(self, tp: TopicPartition, old: int | None) -> Why | None:
        """Return which budget a move off a broker (None: one more) would exceed."""
        size, leader = self.cost(tp, old)
        return self.budget.lacks(size, leader=leader)

    def forbids(self, tp: TopicPartition, old: int, new: int) -> Why | None:
        """Return why a replica may not go to a broker, or which budget that would exceed."""
        return self.why_not(tp, old, new) or self.lacks(tp, old)

    def move(self, tp: TopicPartition, old: int, new: int) -> None:
        self._leave(tp, old)
        self._arrive(tp, new)
        self.lists[tp] = tuple(new if broker == old else broker for broker in self.lists[tp])

    def add(self, tp: TopicPartition, new: int) -> None:
        self._arrive(tp, new)
        self.lists[tp] = (*self.lists[tp], new)

    def drop(self, tp: TopicPartition, old: int) -> None:
        self._leave(tp, old)
        self.lists[tp] = tuple(broker for broker in self.lists[tp] if broker != old)

    def reorder(self, tp: TopicPartition, brokers: Brokers) -> None:
        """Put the replicas of a partition into another order, which the plan then has."""
        before = self.lists[tp]
        self.lists[tp] = brokers
        self.in_place.add(tp)
        if before[0] != brokers[0]:
            self.leads[before[0]] -= 1
            self.leads[brokers[0]] += 1
        first = self.original(tp)[0]
        self.budget.leader_changes += (brokers[0] != first) - (before[0] != first)

    def _leave(self, tp: TopicPartition, old: int) -> None:
        size, before = self.layout.size(tp), self.original(tp)
        self.bytes[old] -= size
        self.of_topic[tp.topic][old] -= 1
        self.budget.leader_changes += old == before[0]
        if old not in before:
            del self.fresh[old][tp]
            self.budget.give_back(size)
            if old in self.room:
                self.room[old] += size

    def _arrive(self, tp: TopicPartition, new: int) -> None:
        size, before = self.layout.size(tp), self.original(tp)
        self.bytes[new] += size
        self.of_topic[tp.topic][new] += 1
        self.budget.leader_changes -= new == before[0]
        if new not in before:
            self.fresh.setdefault(new, {})[tp] = None
            self.budget.take(size)
            if new in self.room:
                self.room[new] -= size

    def leave(
        self, tp: TopicPartition | None, broker: int | None, why: Why, amount: int = 0
    ) -> None:
        cordoned = frozenset[int]()
        if why is Why.CORDONED:
            refused = self.layout.pool.refused
            named = refused if tp is None else refused.intersection(self.original(tp))
            cordoned = named & self._refused or named
        self._left[tp, broker] = Left(tp, broker, why, amount, tuple(sorted(cordoned)))

    def forget(self, tp: TopicPartition | None, broker: int | None) -> None:
        self._left.pop((tp, broker), None)

    # ------------------------------------------------------------------ the plan

    def made(self) -> MadePlan:
        changed = [tp for tp, brokers in self.lists.items() if self._changed(tp, brokers)]
        for tp in changed:
            if tp not in self.in_place:
                self._settle(tp)
        partitions = self.layout.partitions
        new = {tp: len({*self.lists[tp]} - {*self.original(tp)}) for tp in changed}
        targets = [
            PartitionTarget(
                tp.topic, tp.partition, self.lists[tp], original_replicas=partitions[tp].original
            )
            for tp in sorted(changed, key=self._rank)
        ]
        return MadePlan(
            plan=Plan(tuple(targets)),
            left=tuple(sorted(self._left.values(), key=self._left_rank)),
            moves=sum(new.values()),
            bytes=sum(self.layout.size(tp) * count for tp, count in new.items()),
            leader_changes=sum(self.lists[tp][0] != self.original(tp)[0] for tp in changed),
        )

    def _changed(self, tp: TopicPartition, brokers: Brokers) -> bool:
        if brokers == self.original(tp):
            return False
        unregistered = self.layout.unregistered.intersection(brokers)
        for broker in unregistered:
            self.leave(tp, broker, Why.UNREGISTERED)
        refused = self.layout.pool.refused.intersection(brokers)
        for broker in {*self.original(tp)} - {*brokers} if refused else ():
            self.leave(tp, broker, Why.CORDONED)
        return not unregistered and not refused

    def _settle(self, tp: TopicPartition) -> None:
        """Put new replicas last, and another leader first where the old one has left."""
        before, brokers = self.original(tp), self.lists[tp]
        if not self.wishes.keep_order:
            kept = [broker for broker in brokers if broker in before]
            brokers = (*kept, *(broker for broker in brokers if broker not in before))
            if before[0] not in brokers:
                able = [broker for broker in kept if self.may_lead(tp, broker)]
                able = able or [*brokers[len(kept) :]] or [brokers[0]]
                leader = min(able, key=lambda each: (self.leads[each], brokers.index(each)))
                brokers = (leader, *(broker for broker in brokers if broker != leader))
        if before[0] != brokers[0]:
            self.leads[before[0]] -= 1
            self.leads[brokers[0]] += 1
        self.lists[tp] = brokers

    def _rank(self, tp: TopicPartition) -> tuple[bool, str, int]:
        first = self.wishes.internal is Internal.FIRST
        return (tp.topic in INTERNAL_TOPICS) != first, tp.topic, tp.partition

    def _left_rank(self, left: Left) -> tuple[bool, tuple[bool, str, int], int]:
        rank = (False, "", 0) if left.tp is None else self._rank(left.tp)
        return left.tp is None, rank, -1 if left.broker is None else left.broker
