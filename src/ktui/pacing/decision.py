"""What is asked of pacing, and what it decides: partitions wanted, and moves to submit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.pacing.situation import Situation, Step


class WantedPartition(msgspec.Struct, frozen=True):
    """One partition that is to reach its target, as a run takes it on."""

    tp: TopicPartition
    situation: Situation
    size: int = 0
    """Bytes, for the orders by size."""
    begun: bool = False
    """Whether a step of it was submitted before: by this run, before it was resumed."""
    first: bool = False
    """Whether it goes before all others, whatever the order."""


class Move(msgspec.Struct, frozen=True):
    """One partition's step, submitted or to be."""

    tp: TopicPartition
    step: Step
    alone: bool = False
    """Whether it can never fit the limits, and so goes when nothing else does."""
    holds_place: bool = True
    """Whether it counts under P: all but the cut of a partition that stood ready for it."""


class Decision(msgspec.Struct, frozen=True):
    """What to submit now."""

    batch: int
    """The number of this decision; in wave mode, of the wave."""
    steps: tuple[Move, ...] = ()
    """To be altered in one request, and elected afterwards."""
    cuts: tuple[tuple[Move, ...], ...] = ()
    """Each to be altered in one request of its own, which completes it."""

    @property
    def moves(self) -> Iterator[Move]:
        """Everything that is submitted."""
        yield from self.steps
        for together in self.cuts:
            yield from together

    def only(self, may_go: Callable[[Move], bool]) -> Decision:
        """Give the decision without some of its moves; fewer are within the limits, too."""
        cuts = (tuple(filter(may_go, together)) for together in self.cuts)
        return Decision(self.batch, tuple(filter(may_go, self.steps)), tuple(filter(None, cuts)))
