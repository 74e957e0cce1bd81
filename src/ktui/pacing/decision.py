"""The input and output of pacing: wanted partitions, what steps take of the limits, and moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import msgspec

from ktui.cluster.coordination import INTERNAL_TOPICS
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.pacing.situation import Situation, Step

LEAST = 256 * 1024
"""The log is created and its fetch begins, which takes about as long as copying that much."""
OF_UNKNOWN = 1024**3
"""A partition whose size is not known counts as a large one."""


def weight_of(size: int, *, known: bool) -> int:
    """Return what a replica of a partition of `size` bytes counts."""
    return max(LEAST, size) if known else OF_UNKNOWN


class WantedPartition(msgspec.Struct, frozen=True):
    """A partition that a run carries to its target."""

    tp: TopicPartition
    situation: Situation
    size: int = 0
    """Bytes of the partition."""
    sized: bool = True
    """Whether the size is known; if not, the partition counts under V and W as a large one."""
    ahead: int = 0
    """The bytes by which it goes before others with the order `long-first`; 0 for most."""
    begun: bool = False
    """Whether this run submitted a step of the partition before it was resumed."""
    first: bool = False
    """Whether the partition goes before all others, whatever the order."""
    urgent: bool = False
    """Whether the partition is known to be urgent, where its situation is only assumed."""

    @property
    def weight(self) -> int:
        """What each replica that is being added counts under V and W, in bytes."""
        return weight_of(self.size, known=self.sized)


Place = int | str | None
"""Where a limit is counted: a broker by its id, a rack by its name, or None for the cluster."""
Racks = Mapping[int, str]
"""The rack of each broker that has one."""
NO_RACKS: Racks = MappingProxyType({})


class Demand(msgspec.Struct, frozen=True, gc=False):
    """What a step takes of the limits, and where. Steps with the same demand all fit, or none."""

    moves_leader: bool
    urgent: bool
    """Whether the step adds since too few are in sync."""
    adds: int
    raises_epoch: bool = False
    leader: int | None = None
    """The broker that the step copies from; None if it adds none, or that is not known."""
    brokers: Brokers = ()
    """The brokers that the step adds, sorted."""
    racks: tuple[str, ...] = ()
    """The racks of these brokers, sorted, each once; those of brokers without one are left out."""
    among_urgent: bool = False
    """Whether the partition is urgent: for it, limits count only what urgent ones have in flight.
    """
    moves_coordinator: bool = False
    """Whether the step moves the leader of an internal partition, one of which moves at a time."""
    weight: int = 1
    """The bytes that each replica counts; 1 where a step asks for room, whatever its size."""

    @property
    def less(self) -> Demand | None:
        """The same demand with one broker or rack less: if that does not fit, this does not either.

        The leader goes first: mostly the brokers that get the copies are full, not those that send.
        """
        if self.leader is not None:
            return msgspec.structs.replace(self, leader=None)
        if self.brokers:
            return msgspec.structs.replace(self, brokers=self.brokers[:-1])
        return msgspec.structs.replace(self, racks=self.racks[:-1]) if self.racks else None


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
    named = {racks[broker] for broker in step.adds if broker in racks} if racks else ()
    return Demand(
        step.moves_leader,
        step.urgent,
        len(step.adds),
        raises_epoch(step),
        leader if step.adds else None,
        tuple(sorted(step.adds)),
        tuple(sorted(named)),
        among_urgent,
        moves_coordinator(tp, step),
        weight,
    )


def added_by_others(adding: Brokers, leader: int | None, racks: Racks) -> Demand:
    """Return what someone else's reassignment of a partition takes, as far as others count."""
    named = {racks[broker] for broker in adding if broker in racks}
    return Demand(
        moves_leader=False,
        urgent=False,
        adds=len(adding),
        leader=leader,
        brokers=adding,
        racks=tuple(named),
    )


def moves_coordinator(tp: TopicPartition, step: Step) -> bool:
    """Whether a step moves the leader of an internal partition, and with it a coordinator."""
    return step.moves_leader and tp.topic in INTERNAL_TOPICS


def raises_epoch(step: Step) -> bool:
    """Whether a step raises the leader epoch: it removes a replica, or elects a leader.

    A cut counts even where it only puts replicas in order: it ends the partition's reassignment.
    """
    return bool(step.drops) or step.cut or step.moves_leader or step.elects is not None


class Move(msgspec.Struct, frozen=True):
    """A step of one partition, submitted or about to be."""

    tp: TopicPartition
    step: Step
    alone: bool = False
    """Whether the step can never fit the limits, and so runs while nothing else does."""
    holds_place: bool = True
    """Whether the step counts under P: every step but the cut of a ready partition."""
    among_urgent: bool = False
    """Whether the partition was urgent when the step began: the limits of urgent ones count it."""


class Decision(msgspec.Struct, frozen=True):
    """The moves to submit now."""

    batch: int
    """The number of this decision; in wave mode, of the wave."""
    steps: tuple[Move, ...] = ()
    """Moves to alter in one request, with elections afterwards."""
    cuts: tuple[tuple[Move, ...], ...] = ()
    """Groups of cuts, one alter request for each group, which completes its partitions."""

    @property
    def moves(self) -> Iterator[Move]:
        """All moves of the decision."""
        yield from self.steps
        for together in self.cuts:
            yield from together

    def only(self, may_go: Callable[[Move], bool]) -> Decision:
        """Return the decision without some of its moves; fewer moves still fit the limits."""
        cuts = (tuple(filter(may_go, together)) for together in self.cuts)
        return Decision(self.batch, tuple(filter(may_go, self.steps)), tuple(filter(None, cuts)))
