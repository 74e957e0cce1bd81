"""The requests of one turn, and the intents to journal before them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

import msgspec

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.execution.run.events import AnyRunEvent, Elect, Request, StepBegun
from ktui.pacing.decision import Decision, Move
from ktui.pacing.situation import Situation


class PendingRequest(msgspec.Struct, frozen=True):
    """One request: an alter or a cancel (no brokers) of its partitions, or their election."""

    request: Request
    partitions: Mapping[TopicPartition, Brokers | None]

    def only(self, kept: Container[TopicPartition]) -> PendingRequest:
        """Return the request for these partitions only."""
        return PendingRequest(
            self.request, {t: to for t, to in self.partitions.items() if t in kept}
        )

    def without(self, dropped: Container[TopicPartition]) -> PendingRequest:
        """Return the request for all other partitions."""
        return PendingRequest(
            self.request, {t: to for t, to in self.partitions.items() if t not in dropped}
        )


class Turn(msgspec.Struct, frozen=True):
    """The decision of one turn."""

    decision: Decision | None = None
    """The steps to begin; None if there are none."""
    intents: tuple[AnyRunEvent, ...] = ()
    """The events to journal before anything is sent."""
    sendings: tuple[PendingRequest, ...] = ()
    """The requests, in the order in which they are sent."""
    look_again: bool = False
    """Whether a partition that would begin was not polled yet. Nothing is sent before it was."""

    @property
    def begun(self) -> frozenset[TopicPartition]:
        """The partitions of which a step begins."""
        moves = () if self.decision is None else self.decision.moves
        return frozenset(move.tp for move in moves)

    @property
    def adding(self) -> list[TopicPartition]:
        """The partitions to which a step is about to add replicas."""
        moves = () if self.decision is None else self.decision.moves
        return [move.tp for move in moves if move.step.adds]


def build_turn(
    decision: Decision,
    situations: Mapping[TopicPartition, Situation],
    elections: Iterable[Elect],
    held: Iterable[AnyRunEvent] = (),
) -> Turn:
    """Combine the requests of a turn: the alters of the steps, then each cut, then elections.

    Args:
        decision: the steps that begin.
        situations: the observed situations of the partitions in the decision.
        elections: the elections that are due at the end of steps.
        held: the events with the reasons of partitions that are held back.
    """
    moves = list(decision.moves)
    begun = [_begun(move, decision.batch, situations[move.tp]) for move in moves]
    elections = (*elections, *(_election(move) for move in moves if not move.step.alters))
    sendings = [
        *(
            PendingRequest(Request.ALTER, {m.tp: m.step.target for m in together if m.step.alters})
            for together in (decision.steps, *decision.cuts)
        ),
        PendingRequest(Request.ELECT, {elect.tp: (elect.leader,) for elect in elections}),
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
        among_urgent=move.among_urgent,
    )


def _election(move: Move) -> Elect:
    return Elect(
        topic=move.tp.topic,
        partition=move.tp.partition,
        leader=move.step.elects or move.step.target[0],
    )
