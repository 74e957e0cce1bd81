"""A partition's situation on its way to its final target, and its possible next steps."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import msgspec

from ktui.cluster.broker import INTERNAL_TOPICS
from ktui.cluster.partition import Brokers, TopicPartition


class Urgency(enum.StrEnum):
    """The reason why a partition is urgent."""

    UNDER_MIN_ISR = "under min ISR"
    ONE_IN_SYNC = "one in sync"


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """A partition's present state and its target, with KIP-435's terms in brackets.

    "Missing" replicas are those of FTR that are not in CR and whose brokers are online. "Dead" ones
    are excess, without a live broker, and not in the ISR.
    """

    replicas: Brokers  # the current replicas in Kafka's order, preferred leader first (CR)
    isr: Brokers
    leader: int | None
    target: Brokers  # the plan's target replicas, in order (FTR)
    lead: int | None = None  # the final leader; None for the target's first
    online: frozenset[int]  # brokers that are up, and whose log dir for it works
    restarting: frozenset[int] = frozenset()  # went offline lately, so not dead
    closed: frozenset[int] = frozenset()  # cordoned, so no target may name them (KIP-1066)
    min_insync_replicas: int = 1
    waits_for_kept: bool = False  # whether a step waits for all of its target: before 4.3
    reassigning: bool = False
    eligible: Brokers = ()  # eligible leader replicas (KIP-966), where reported
    intermediate: Brokers = ()  # of an abandoned target, dropped first (KIP-236)

    @property
    def min_isr(self) -> int:
        """How many replicas must stay in sync: never more than the target has."""
        return min(self.min_insync_replicas, len(self.target))

    @property
    def safe_in_sync(self) -> int:
        """How many in sync are enough: two, and as many as producers need; at most all."""
        return min(max(2, self.min_insync_replicas), len(self.target))

    @property
    def urgency(self) -> Urgency | None:
        if len(self.isr) >= self.safe_in_sync:
            return None
        below = len(self.isr) < self.min_isr
        return Urgency.UNDER_MIN_ISR if below else Urgency.ONE_IN_SYNC

    @property
    def first(self) -> int:
        return self.target[0] if self.lead is None else self.lead

    @property
    def leads(self) -> bool:
        return self.leader == self.first

    @property
    def can_lead(self) -> bool:
        return self.in_sync(self.first)

    @property
    def eligible_gone(self) -> Brokers:
        """The eligible leaders if none of them is still a replica: Kafka elects nobody then.

        Kafka 4.3.1 keeps a removed replica eligible where fewer than the minimum are in sync.
        """
        return () if {*self.eligible} & {*self.replicas} else self.eligible

    @property
    def missing(self) -> Brokers:
        return tuple([b for b in self.target if b not in self.replicas and b in self.online])

    @property
    def excess(self) -> Brokers:
        """The replicas to drop (ER), in CR's order, with those of an abandoned target first."""
        excess = tuple([b for b in self.replicas if b not in self.target])
        return excess if not self.intermediate else tuple(sorted(excess, key=self._keeps))

    def _keeps(self, broker: int) -> tuple[bool, bool]:
        """A sort key: intermediate replicas first, out of sync first (KIP-236's drop set)."""
        intermediate = broker in self.intermediate
        return not intermediate, intermediate and broker in self.isr

    @property
    def dead(self) -> Brokers:
        """Excess replicas that are out of sync on an offline broker that is not restarting."""
        if self.isr == self.replicas:
            return ()
        there = self.online | self.restarting
        return tuple([b for b in self.excess if b not in there and b not in self.isr])

    def closed_in(self, brokers: Brokers) -> Brokers:
        return tuple(b for b in brokers if b in self.closed) if self.closed else ()

    @property
    def living(self) -> Brokers:
        """The replicas without the dead, which is the number that the rules use."""
        dead = self.dead
        return tuple(b for b in self.replicas if b not in dead) if dead else self.replicas

    def in_sync(self, broker: int) -> bool:
        return broker in self.isr and broker in self.replicas and broker in self.online


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """An alter, an election, or an alter and then an election. A step always changes something."""

    target: Brokers
    adds: Brokers
    drops: Brokers
    alters: bool  # whether the step sends an alter; otherwise it only elects
    elects: int | None = None  # the broker to elect as preferred leader once the alter is over
    moves_leader: bool = False
    cut: bool = False  # whether it is the last alter of shape gentle, which only drops
    urgent: bool = False  # whether too few are in sync, so R, M and E do not apply


class BlockReason(enum.StrEnum):
    """The reason why a partition has no next step."""

    REASSIGNING = "reassigning"
    PARTITION_OFFLINE = "partition offline"
    ELIGIBLE_GONE = "eligible leader removed"
    TARGET_OFFLINE = "target offline"
    KEPT_OFFLINE = "kept replica offline"
    TARGET_NOT_IN_SYNC = "target not in sync"
    FIRST_NOT_IN_SYNC = "preferred leader not in sync"
    BELOW_MIN_ISR = "would fall below min ISR"
    CORDONED = "target cordoned"
    CORDONED_IN_SYNC = "cordoned, and needed for min ISR"


_SENTENCES = {
    BlockReason.REASSIGNING: "it is being reassigned: nothing is altered until that has ended",
    BlockReason.PARTITION_OFFLINE: "it is offline: no replica leads",
    BlockReason.ELIGIBLE_GONE: "it is offline: Kafka waits for {brokers}, no longer among its "
    "replicas. Only an unclean election helps, and it may lose messages: "
    "kafka-leader-election.sh --election-type unclean",
    BlockReason.TARGET_OFFLINE: "{brokers} of its {goal} {is_} down",
    BlockReason.KEPT_OFFLINE: "{brokers}, which the step keeps, {is_} down: it would not complete",
    BlockReason.TARGET_NOT_IN_SYNC: "{brokers} of its {goal} {is_} not in sync",
    BlockReason.FIRST_NOT_IN_SYNC: "{brokers}, which should lead, is not in sync",
    BlockReason.BELOW_MIN_ISR: "dropping {brokers} would leave fewer in sync than "
    "min.insync.replicas",
    BlockReason.CORDONED: "{brokers} of its {goal} {is_} cordoned, and Kafka refuses every target "
    "that names it: {uncordon}",
    BlockReason.CORDONED_IN_SYNC: "{brokers} {is_} cordoned: no target may name it, and dropping "
    "it would leave fewer in sync than min.insync.replicas: {uncordon}",
}


class Blocked(msgspec.Struct, frozen=True):
    """No step can be taken now; this is decided again whenever the partition is polled."""

    why: BlockReason
    brokers: Brokers = ()

    @property
    def sentence(self) -> str:
        return self.sentence_of("target")

    def sentence_of(self, goal: str) -> str:
        one = len(self.brokers) == 1
        named = ", ".join(map(str, self.brokers))
        return _SENTENCES[self.why].format(
            brokers=f"broker{'' if one else 's'} {named}",
            goal=goal,
            is_="is" if one else "are",
            uncordon=" and ".join(f"`ktui broker uncordon {broker}`" for broker in self.brokers),
        )


class Done(msgspec.Struct, frozen=True):
    """The partition has its final replicas in order, and the final leader leads."""


DONE = Done()

Next = Step | Blocked | Done

LEAST = 256 * 1024
"""The log is created and its fetch begins, which takes about as long as copying that much."""
OF_UNKNOWN = 1024**3  # a partition whose size is not known counts as a large one


def weight_of(size: int, *, known: bool) -> int:
    """Return what a replica of a partition of `size` bytes counts."""
    return max(LEAST, size) if known else OF_UNKNOWN


class WantedPartition(msgspec.Struct, frozen=True):
    """A partition that a run carries to its target."""

    tp: TopicPartition
    situation: Situation
    size: int = 0
    sized: bool = True  # whether the size is known; else it counts as a large one
    ahead: int = 0
    begun: bool = False  # whether this run submitted a step of it before it resumed
    first: bool = False  # whether the partition goes before all others, whatever the order
    urgent: bool = False  # whether it is known to be, where its situation is assumed

    @property
    def weight(self) -> int:
        """What each replica that is being added counts under V and W, in bytes."""
        return weight_of(self.size, known=self.sized)


Place = int | str | None
"""Where a limit is counted: a broker by its id, a rack by its name, or None for the cluster."""
Racks = Mapping[int, str]
NO_RACKS: Racks = MappingProxyType({})


class At(enum.IntEnum):
    """The kinds of places on each of which a limit may be counted; `demand_of` fills them."""

    LEADER = 0
    RECEIVER = 1
    RACK = 2


Places = tuple[tuple[Place, ...], ...]
"""The places of a step, by their `At`; those of each kind sorted, each once."""
NOWHERE: Places = ((),) * len(At)


class Demand(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """What a step takes of the limits, and where. Steps with the same demand all fit, or none."""

    moves_leader: bool
    urgent: bool
    adds: int
    raises_epoch: bool = False
    places: Places = NOWHERE
    among_urgent: bool = False  # whether it counts against urgent ones only
    moves_coordinator: bool = False  # whether an internal leader moves: one at a time
    weight: int = 1  # bytes of each replica; 1 where a step asks for room

    @property
    def less(self) -> Demand | None:
        """The same demand with one place less, of the first kind: if full, so is this."""
        for kind, places in enumerate(self.places):
            if places:
                return self.placed(kind, places[:-1])
        return None

    def placed(self, kind: int, places: tuple[Place, ...]) -> Demand:
        """Return the same demand with other places of one kind."""
        replaced = [*self.places]
        replaced[kind] = places
        return msgspec.structs.replace(self, places=tuple(replaced))


def demand_of(
    tp: TopicPartition,
    step: Step,
    leader: int | None,
    racks: Racks = NO_RACKS,
    *,
    among_urgent: bool = False,
    weight: int = 1,
) -> Demand:
    """Return the demand of a step of a partition, which has this leader."""
    places = NOWHERE
    if step.adds:
        leaders = () if leader is None else (leader,)
        named = {racks[broker] for broker in step.adds if broker in racks} if racks else None
        in_racks = tuple(sorted(named)) if named else ()
        added = step.adds if len(step.adds) == 1 else tuple(sorted(step.adds))
        places = (leaders, added, in_racks)  # in the order of `At`
    return Demand(
        step.moves_leader,
        step.urgent,
        len(step.adds),
        raises_epoch(step),
        places,
        among_urgent,
        moves_coordinator(tp, step),
        weight,
    )


def added_by_others(
    tp: TopicPartition, adding: Brokers, leader: int | None, racks: Racks
) -> Demand:
    """Return what someone else's reassignment of a partition takes, as far as others count."""
    return demand_of(tp, Step(target=adding, adds=adding, drops=(), alters=True), leader, racks)


def moves_coordinator(tp: TopicPartition, step: Step) -> bool:
    """Whether a step moves the leader of an internal partition, and with it a coordinator."""
    return step.moves_leader and tp.topic in INTERNAL_TOPICS


def raises_epoch(step: Step) -> bool:
    """Whether a step raises the leader epoch: it removes a replica, elects a leader, or cuts."""
    return bool(step.drops) or step.cut or step.moves_leader or step.elects is not None


class Move(msgspec.Struct, frozen=True):
    """A step of one partition, submitted or about to be."""

    tp: TopicPartition
    step: Step
    alone: bool = False  # whether it can never fit the limits, and goes alone
    holds_place: bool = True  # whether it counts under P: all but cuts of ready ones
    among_urgent: bool = False  # whether the partition was urgent when it began


class Decision(msgspec.Struct, frozen=True):
    """The moves to submit now."""

    batch: int  # the number of this decision; in wave mode, of the wave
    steps: tuple[Move, ...] = ()  # moves to alter in one request, with elections afterwards
    cuts: tuple[tuple[Move, ...], ...] = ()  # groups, each in one alter request

    @property
    def moves(self) -> Iterator[Move]:
        yield from self.steps
        for together in self.cuts:
            yield from together

    def only(self, may_go: Callable[[Move], bool]) -> Decision:
        cuts = (tuple(filter(may_go, together)) for together in self.cuts)
        return Decision(self.batch, tuple(filter(may_go, self.steps)), tuple(filter(None, cuts)))
