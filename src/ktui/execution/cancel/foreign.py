"""Reassignments that no live run carries out: cancelled, and polled until each is settled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping

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
    judge_cancel,
    listed_reassignments,
)
from ktui.execution.engine.in_flight import CANCEL_AGAIN_S
from ktui.execution.engine.requests import READ_STALE_S, stale_read_reason
from ktui.execution.engine.working_state import Debounce
from ktui.execution.run.parts import NOTHING_TO_CANCEL
from ktui.execution.run.unanswered import MAY_COME_S

AT_ONCE = 1_000
"""Partitions in one request: as many as a request takes in under a second."""

PATIENCE_S = MAY_COME_S
"""Seconds to watch for outcomes: a request whose answer was lost can arrive this late."""
_POLL_S = 0.5
Look = Callable[[bool], Awaitable[Observation | None]]

_UNANSWERED = WriteResult(Verdict.UNKNOWN, message="Kafka's answer left it out")
_NOT_NEEDED = WriteResult(Verdict.REFUSED, NOTHING_TO_CANCEL)


class ForeignCancel:
    """Cancels foreign reassignments, and follows each of them to its outcome.

    Kafka has no fencing. A reassignment that was begun again after it was shown is not cancelled.
    """

    def __init__(self, writer: ClusterWriter, clock: Clock, log: CancelLog) -> None:
        self._writer = writer
        self._clock = clock
        self._log = log
        self._doubts = Debounce()
        self._pending: dict[TopicPartition, ListedReassignment] = {}
        self._answers: dict[TopicPartition, WriteResult] = {}
        self._sent_s: dict[TopicPartition, float] = {}
        self._unsent: dict[TopicPartition, ListedReassignment] = {}
        """The reassignments to cancel by a newer read: theirs was too old for their request."""
        self._too_old = ""
        self.settled: dict[TopicPartition, Settled] = {}
        """The outcomes of the reassignments that are over."""
        self.not_written = ""
        """Why the outcomes could not be logged; empty if they were."""

    async def carry_out(
        self,
        look: Look,
        moves: Callable[[Observation], Collection[ListedReassignment]],
        also_settled: Callable[[], bool] = lambda: True,
    ) -> Observation | None:
        """Cancel reassignments, and poll until all is settled or `PATIENCE_S` is over.

        Args:
            look: polls the cluster. It is told whether cancels are sent already, and returns None
                while the cluster is lost.
            moves: returns what is to be cancelled, by the first poll.
            also_settled: whether nothing else has to be waited for.

        Returns:
            The last poll.

        Raises:
            RunProblem: the log cannot be written. Nothing is sent that is not in the log.
        """
        until_s, begun = self._clock.monotonic() + PATIENCE_S, False
        try:
            while True:
                seen = await look(begun)
                if seen is not None and begun:
                    await self.follow(seen)
                elif seen is not None:
                    await self.cancel(moves(seen), seen)
                    until_s, begun = self._clock.monotonic() + PATIENCE_S, True
                settled = begun and not self._pending and also_settled()
                if settled or self._clock.monotonic() >= until_s:
                    return seen
                await self._clock.sleep(_POLL_S)
        finally:
            self.give_up("its end was not seen. Check it: ktui list")
            self.not_written = self._log.write_outcomes()

    @property
    def pending(self) -> Collection[TopicPartition]:
        return self._pending.keys()

    async def cancel(self, moves: Collection[ListedReassignment], seen: Observation) -> None:
        """Cancel the reassignments that are still as they were shown.

        Raises:
            RunProblem: the log cannot be written. Nothing is sent that is not in the log.
        """
        self._pending |= {move.tp: move for move in moves}
        self._answers |= {move.tp: _NOT_NEEDED for move in moves}
        await self._send(self._as_shown(moves, seen), seen)
        done = {*self._sent_s, *self._unsent}
        self._judge(seen, [tp for tp in self._pending if tp not in done])

    async def follow(self, seen: Observation) -> None:
        """Process a poll, cancel what the last one was too old for, and again what is still listed.

        A cancel is repeated only for a while after its answer was lost.

        Raises:
            RunProblem: the log cannot be written.
        """
        self._judge(seen, [tp for tp in self._pending if tp not in self._unsent])
        now_s = self._clock.monotonic()
        again = [
            move
            for tp, move in self._pending.items()
            if tp in self._sent_s and now_s - self._sent_s[tp] >= CANCEL_AGAIN_S
        ]
        first, self._unsent = self._unsent.values(), {}
        await self._send(self._as_shown([*first, *again], seen), seen)

    def give_up(self, why: str) -> None:
        """Settle the remaining reassignments: as unknown, or as refused if nothing was sent."""
        for tp in list(self._pending):
            if tp in self._unsent and tp not in self._sent_s:
                self._settle(tp, Settled(ForeignOutcome.REFUSED, detail=self._too_old))
            else:
                self._settle(tp, Settled(ForeignOutcome.UNKNOWN, detail=why))

    def _as_shown(
        self, moves: Collection[ListedReassignment], seen: Observation
    ) -> list[ListedReassignment]:
        """Return the reassignments to cancel, and settle those that may not be cancelled now."""
        listed, to_cancel = listed_reassignments(seen), []
        for move in moves:
            found = listed.get(move.tp)
            if found is None or (found.target, found.topic_id) != (move.target, move.topic_id):
                continue
            if found.refused is None:
                to_cancel.append(move)
            else:
                state = seen.partitions[move.tp]
                self._settle(
                    move.tp, Settled(ForeignOutcome.REFUSED, state.replicas, found.refused)
                )
        return to_cancel

    async def _send(self, moves: list[ListedReassignment], seen: Observation) -> None:
        for n in range(0, len(moves), AT_ONCE):
            age_s = self._clock.monotonic() - seen.asked_s
            if age_s >= READ_STALE_S:
                self._unsent = {move.tp: move for move in moves[n:]}
                self._too_old = f"not sent: {stale_read_reason(seen, age_s)}"
                return
            chunk = moves[n : n + AT_ONCE]
            self._log.write_asked(chunk)
            cancels = {move.tp: None for move in chunk}
            self._answers |= await self._send_chunk(cancels, seen)
            self._sent_s |= dict.fromkeys((move.tp for move in chunk), self._clock.monotonic())

    async def _send_chunk(
        self, cancels: Mapping[TopicPartition, None], seen: Observation
    ) -> dict[TopicPartition, WriteResult]:
        left_s = READ_STALE_S - (self._clock.monotonic() - seen.asked_s)
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
            settled = self._outcome_of(tp, seen)
            if settled is not None and self._certain(tp, settled, seen):
                self._settle(tp, settled)

    def _outcome_of(self, tp: TopicPartition, seen: Observation) -> Settled | None:
        if tp in seen.absent:
            return Settled(ForeignOutcome.GONE, detail="the topic was deleted")
        state = seen.partitions.get(tp)
        if state is None or not state.described:
            return None
        return judge_cancel(self._pending[tp], self._answers[tp], state)

    def _certain(self, tp: TopicPartition, settled: Settled, seen: Observation) -> bool:
        """Whether metadata cannot be older than the list: fresh metadata never is."""
        return seen.fresh or self._doubts.confirmed(tp, settled, seen)

    def _settle(self, tp: TopicPartition, settled: Settled) -> None:
        move = self._pending.pop(tp)
        self.settled[tp] = settled
        if tp in self._sent_s:
            self._log.note_outcome(move, settled)
