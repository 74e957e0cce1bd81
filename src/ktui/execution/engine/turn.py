"""What is to be sent in one turn: the intents to write first, and the requests they lead to."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

import msgspec

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.execution.run.events import AnyRunEvent, Elect, Request, StepBegun
from ktui.pacing.decision import Decision, Move
from ktui.pacing.situation import Situation


class Sending(msgspec.Struct, frozen=True):
    """One request: an alter or a cancel (no brokers) of its partitions, or their election."""

    request: Request
    partitions: Mapping[TopicPartition, Brokers | None]

    def only(self, some: Container[TopicPartition]) -> Sending:
        """Give the request for these."""
        return Sending(self.request, {t: to for t, to in self.partitions.items() if t in some})

    def without(self, some: Container[TopicPartition]) -> Sending:
        """Give the request for all others."""
        return Sending(self.request, {t: to for t, to in self.partitions.items() if t not in some})


class Turn(msgspec.Struct, frozen=True):
    """What was decided in one look."""

    decision: Decision | None = None
    """The steps to begin; None where there are none."""
    intents: tuple[AnyRunEvent, ...] = ()
    """To be in the journal before anything is sent."""
    sendings: tuple[Sending, ...] = ()
    """In this order."""
    look_again: bool = False
    """Whether what would begin has not been looked at yet: nothing is sent before it is."""

    @property
    def begun(self) -> frozenset[TopicPartition]:
        """The partitions of which a step begins."""
        moves = () if self.decision is None else self.decision.moves
        return frozenset(move.tp for move in moves)

    @property
    def adding(self) -> list[TopicPartition]:
        """The partitions that a step is about to add replicas to."""
        moves = () if self.decision is None else self.decision.moves
        return [move.tp for move in moves if move.step.adds]


def turn(
    decision: Decision,
    situations: Mapping[TopicPartition, Situation],
    elections: Iterable[Elect],
    held: Iterable[AnyRunEvent] = (),
) -> Turn:
    """Put a turn together: the alters of the steps, then each cut, then elections.

    Args:
        decision: the steps that begin.
        situations: how the partitions of the decision were seen.
        elections: those due at the end of steps.
        held: why other partitions are held back.
    """
    moves = list(decision.moves)
    begun = [_begun(move, decision.batch, situations[move.tp]) for move in moves]
    elections = (*elections, *(_election(move) for move in moves if not move.step.alters))
    sendings = [
        *(
            Sending(Request.ALTER, {m.tp: m.step.target for m in together if m.step.alters})
            for together in (decision.steps, *decision.cuts)
        ),
        Sending(Request.ELECT, {elect.tp: (elect.leader,) for elect in elections}),
    ]
    return Turn(
        decision=decision if moves else None,
        intents=(*held, *begun, *elections),
        sendings=tuple(sending for sending in sendings if sending.partitions),
    )


def _begun(move: Move, batch: int, seen: Situation) -> StepBegun:
    step = move.step
    return StepBegun(
        topic=move.tp.topic,
        partition=move.tp.partition,
        batch=batch,
        replicas=step.target,
        adding=step.adds,
        removing=step.drops,
        elect=step.elects,
        before=seen.replicas,
        leader=seen.leader,
        alters=step.alters,
        moves_leader=step.moves_leader,
        cut=step.cut,
        urgent=step.urgent,
        alone=move.alone,
        holds_place=move.holds_place,
    )


def _election(move: Move) -> Elect:
    return Elect(
        topic=move.tp.topic,
        partition=move.tp.partition,
        leader=move.step.elects or move.step.target[0],
    )
