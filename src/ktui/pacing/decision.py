"""The input and output of pacing: wanted partitions, and decisions on moves to submit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.pacing.situation import Situation, Step
from ktui.pacing.weight import weight_of


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
