"""Reassignments that no live run carries: cancelled, and watched until each is settled."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ktui.cluster.clock import Clock
from ktui.cluster.errors import ClusterError
from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterWriter, Verdict, WriteResult
from ktui.execution.cancel.foreign_log import CancelLog
from ktui.execution.cancel.foreign_outcome import (
    ForeignOutcome,
    ListedReassignment,
    Settled,
    judged,
    listed_in,
)
from ktui.execution.engine.confirmation import Doubts
from ktui.execution.engine.in_flight import CANCEL_AGAIN_S
from ktui.execution.engine.requests import READ_STALE_S, too_old
from ktui.execution.run.refusals import NOTHING_TO_CANCEL

AT_ONCE = 1_000
"""Partitions in one request: as many as it takes in under a second."""

_UNANSWERED = WriteResult(Verdict.UNKNOWN, message="Kafka's answer left it out")
_NOT_NEEDED = WriteResult(Verdict.REFUSED, NOTHING_TO_CANCEL)


class ForeignCancel:
    """Cancels reassignments and follows what becomes of each.

    Kafka has no fencing: what was begun anew since it was shown is left to whoever did that.

    Args:
        writer: sends the cancels.
        clock: time.
        log: says what is about to be done, before it is, and what came of it.
    """

    def __init__(self, writer: ClusterWriter, clock: Clock, log: CancelLog) -> None:
        self._writer = writer
        self._clock = clock
        self._log = log
        self._doubts = Doubts()
        self._pending: dict[TopicPartition, ListedReassignment] = {}
        self._answers: dict[TopicPartition, WriteResult] = {}
        self._sent_s: dict[TopicPartition, float] = {}
        self.settled: dict[TopicPartition, Settled] = {}
        """What became of those that are over."""

    @property
    def pending(self) -> Collection[TopicPartition]:
        """Those of which it is not known yet."""
        return self._pending.keys()

    async def cancel(self, moves: Collection[ListedReassignment], seen: Observation) -> None:
        """Cancel those that still are as they were shown.

        Args:
            moves: as they were shown.
            seen: a look from just now, which shows their partitions.

        Raises:
            RunProblem: it cannot be written down: nothing is sent that is not.
        """
        self._pending |= {move.tp: move for move in moves}
        self._answers |= {move.tp: _NOT_NEEDED for move in moves}
        await self._send(self._as_shown(moves, seen), seen)
        self._judge(seen, self._pending.keys() - self._sent_s.keys())

    async def look(self, seen: Observation) -> None:
        """Take in a look; cancel again what is listed still, for a while after an answer was lost.

        Raises:
            RunProblem: it cannot be written down.
        """
        self._judge(seen, list(self._pending))
        now_s = self._clock.monotonic()
        again = [
            move
            for tp, move in self._pending.items()
            if tp in self._sent_s and now_s - self._sent_s[tp] >= CANCEL_AGAIN_S
        ]
        await self._send(self._as_shown(again, seen), seen)

    def leave(self, why: str) -> None:
        """Settle the rest as unknown."""
        for tp in list(self._pending):
            self._settle(tp, Settled(ForeignOutcome.UNKNOWN, detail=why))

    def _as_shown(
        self, moves: Collection[ListedReassignment], seen: Observation
    ) -> list[ListedReassignment]:
        """Give those to cancel; settle those that may not be cancelled as they are by now."""
        now, some = listed_in(seen), []
        for move in moves:
            found = now.get(move.tp)
            if found is None or (found.target, found.topic_id) != (move.target, move.topic_id):
                continue
            if found.refused is None:
                some.append(move)
            else:
                state = seen.partitions[move.tp]
                self._settle(
                    move.tp, Settled(ForeignOutcome.REFUSED, state.replicas, found.refused)
                )
        return some

    async def _send(self, moves: list[ListedReassignment], seen: Observation) -> None:
        for n in range(0, len(moves), AT_ONCE):
            chunk = moves[n : n + AT_ONCE]
            self._log.asked(chunk)
            cancels = {move.tp: None for move in chunk}
            self._answers |= await self._answered(cancels, seen)
            self._sent_s |= dict.fromkeys((move.tp for move in chunk), self._clock.monotonic())

    async def _answered(
        self, cancels: Mapping[TopicPartition, None], seen: Observation
    ) -> dict[TopicPartition, WriteResult]:
        left_s = READ_STALE_S - (self._clock.monotonic() - seen.asked_s)
        if left_s <= 0:
            words = f"not sent: {too_old(seen, READ_STALE_S - left_s)}"
            return dict.fromkeys(cancels, WriteResult(Verdict.REFUSED, message=words))
        try:
            results = await self._writer.alter_reassignments(
                dict(cancels), allow_replication_factor_change=True, leaves_within_s=left_s
            )
        except ClusterError as error:
            not_sent = WriteResult(Verdict.REFUSED, message=f"not sent: {error}")
            return dict.fromkeys(cancels, not_sent)
        return {tp: results.get(tp, _UNANSWERED) for tp in cancels}

    def _judge(self, seen: Observation, partitions: Collection[TopicPartition]) -> None:
        for tp in partitions:
            settled = self._judged(tp, seen)
            if settled is not None and self._certain(tp, settled, seen):
                self._settle(tp, settled)

    def _judged(self, tp: TopicPartition, seen: Observation) -> Settled | None:
        if tp in seen.absent:
            return Settled(ForeignOutcome.GONE, detail="the topic was deleted")
        state = seen.partitions.get(tp)
        if state is None or not state.described:
            return None
        return judged(self._pending[tp], self._answers[tp], state)

    def _certain(self, tp: TopicPartition, settled: Settled, seen: Observation) -> bool:
        """Whether metadata cannot be from before: what is fresh is no older than the list."""
        return seen.fresh or self._doubts.confirmed(tp, settled, seen)

    def _settle(self, tp: TopicPartition, settled: Settled) -> None:
        move = self._pending.pop(tp)
        self.settled[tp] = settled
        if tp in self._sent_s:
            self._log.settled(move, settled)
