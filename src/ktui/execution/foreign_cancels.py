"""Reassignments that no live run carries out: cancelled, and polled until each is settled."""

from __future__ import annotations

import enum
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.errors import ClusterError, KafkaError, Means, means
from ktui.cluster.observation import Observation
from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.cluster.ports import ClusterWriter, Verdict, WriteResult, unread_answer
from ktui.durable import open_regular, sync_folder
from ktui.execution import RunProblem
from ktui.execution.cancel_preview import min_isr_danger
from ktui.execution.engine.in_flight import CANCEL_AGAIN_S
from ktui.execution.engine.requests import LAST_IN_SYNC, READ_STALE_S, stale_read_reason
from ktui.execution.engine.working_state import Debounce
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.parts import refusal_text
from ktui.execution.run.states import State
from ktui.execution.run.text import replica_list_text
from ktui.execution.run.track import Track
from ktui.execution.run.unanswered import MAY_COME_S, UNANSWERED
from ktui.json_text import decode_untrusted

log = logging.getLogger(__name__)


class ListedReassignment(msgspec.Struct, frozen=True, kw_only=True):
    """A reassignment as the cluster lists it (KIP-455), and the effects of cancelling it."""

    tp: TopicPartition
    topic_id: str | None
    original: Brokers  # what a cancel leaves, in that order: Kafka has forgotten the earlier one
    target: Brokers
    refused: str | None = None
    danger: str | None = None


class ForeignOutcome(enum.StrEnum):
    """The outcome of a cancelled reassignment."""

    STOPPED = "stopped"
    ROLLING_BACK = "rolling back"  # by the live run that began it
    COMPLETED = "completed"  # at its target before the cancel arrived
    REFUSED = "refused"
    CHANGED = "changed elsewhere"  # someone has begun another reassignment, or the same one again
    GONE = "topic gone"
    UNKNOWN = "unknown"


_OF_STATE = {
    State.STOPPED: ForeignOutcome.STOPPED,
    State.ROLLED_BACK: ForeignOutcome.ROLLING_BACK,
    State.ROLLING_BACK: ForeignOutcome.ROLLING_BACK,
    State.DONE: ForeignOutcome.COMPLETED,
    State.REFUSED: ForeignOutcome.REFUSED,
    State.FAILED: ForeignOutcome.REFUSED,
    State.CHANGED_ELSEWHERE: ForeignOutcome.CHANGED,
    State.TOPIC_GONE: ForeignOutcome.GONE,
}


class Settled(msgspec.Struct, frozen=True):
    """An outcome, with its details."""

    outcome: ForeignOutcome
    replicas: Brokers = ()  # at present, in order; empty if not known
    detail: str = ""

    @property
    def as_asked(self) -> bool:
        return self.outcome in {ForeignOutcome.STOPPED, ForeignOutcome.ROLLING_BACK}


def listed_reassignments(seen: Observation) -> dict[TopicPartition, ListedReassignment]:
    """Return every reassignment that an observation shows, by partition."""
    return {tp: _listed(seen, state) for tp, state in sorted(seen.reassigning.items())}


def judge_cancel(
    move: ListedReassignment, answer: WriteResult, state: PartitionState
) -> Settled | None:
    """Judge by an observation that began after the answer; None: still listed, answer lost."""
    now = state.replicas
    if None not in (move.topic_id, state.topic_id) and move.topic_id != state.topic_id:
        return Settled(ForeignOutcome.GONE, now, "the topic was deleted and created again")
    if answer.verdict is Verdict.REFUSED and not means(answer.code, Means.IN_FORCE):
        return Settled(ForeignOutcome.REFUSED, now, refusal_text(answer))
    return _begun_again(move, answer, state) if state.reassigning else _over(move, answer, now)


def _begun_again(
    move: ListedReassignment, answer: WriteResult, state: PartitionState
) -> Settled | None:
    if state.target != move.target:
        what = f"someone now reassigns it to {replica_list_text(state.target)}"
        return Settled(ForeignOutcome.CHANGED, state.replicas, what)
    again = Settled(ForeignOutcome.CHANGED, state.replicas, "someone has begun it again")
    return None if answer.verdict is Verdict.UNKNOWN else again


def _over(move: ListedReassignment, answer: WriteResult, now: Brokers) -> Settled:
    if {*now} == {*move.original}:
        first = answer.verdict is Verdict.REFUSED
        return Settled(
            ForeignOutcome.STOPPED, now, "someone else had cancelled it" if first else ""
        )
    if now == move.target and answer.verdict is not Verdict.ACCEPTED:
        return Settled(ForeignOutcome.COMPLETED, now, "before the cancel arrived")
    return Settled(ForeignOutcome.CHANGED, now, "someone gave it these replicas meanwhile")


def settlement_by_run(track: Track) -> Settled | None:
    """None until it is known."""
    outcome = _OF_STATE.get(track.state)
    return None if outcome is None else Settled(outcome, track.replicas, track.reason)


def _listed(seen: Observation, state: PartitionState) -> ListedReassignment:
    in_sync = [broker for broker in state.isr if broker not in state.adding]
    refused = None if in_sync else LAST_IN_SYNC
    if not state.described:
        refused = "it is not cancelled: its ISR is not known. Grant Describe on its topic"
    config = seen.topic_configs.get(state.tp.topic)
    least = 1 if config is None else config.min_insync_replicas
    return ListedReassignment(
        tp=state.tp,
        topic_id=state.topic_id,
        original=state.original,
        target=state.target,
        refused=refused,
        danger=min_isr_danger(in_sync, least) if refused is None else None,
    )


ASKED = "asked"  # the `outcome` in the line that is written just before a cancel is sent

FILE = "cancels.jsonl"
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND
_ENCODER = msgspec.json.Encoder()


class ForeignCancelLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the file."""

    at: datetime
    who: str  # user@host (pid)
    cluster_id: str
    topic: str
    topic_id: str | None
    partition: int
    original: Brokers = msgspec.field(name="from")  # Kafka has forgotten the earlier order
    target: Brokers = msgspec.field(name="to")
    outcome: str
    replicas: Brokers | None = None
    detail: str = ""


_DECODER = msgspec.json.Decoder(ForeignCancelLine)


def read_cancels(state: StateDir, cluster_id: str) -> list[ForeignCancelLine]:
    """Read a cluster's log of cancels, oldest first, skipping other lines. Raises RunProblem."""
    path = state.path / FILE
    try:
        with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
            body = file.read()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunProblem(f"{path}: cannot be read: {error.strerror}") from None
    lines: list[ForeignCancelLine] = []
    for line in body.splitlines():
        with suppress(msgspec.DecodeError):
            lines.append(decode_untrusted(_DECODER, line))
    return [line for line in lines if line.cluster_id == cluster_id]


class CancelLog:
    """The file `cancels.jsonl` of a state directory; every write is synced to the disk."""

    def __init__(self, folder: StateDir, cluster_id: str, who: str, clock: Clock) -> None:
        self.path = folder.path / FILE
        self._folder = folder
        self._cluster_id = cluster_id
        self._who = who
        self._clock = clock
        self._settled: list[ForeignCancelLine] = []

    def write_asked(self, moves: Iterable[ListedReassignment]) -> None:
        self._write_settled()
        self._write([self._line(move, ASKED) for move in moves])

    def note_outcome(self, move: ListedReassignment, settled: Settled) -> None:
        base = self._line(move, settled.outcome.value)
        replicas = settled.replicas or None
        line = msgspec.structs.replace(base, replicas=replicas, detail=settled.detail)
        self._settled.append(line)

    def write_outcomes(self) -> str:
        """Return the problem if the last outcomes cannot be written, else ""."""
        try:
            self._write_settled()
        except RunProblem as problem:
            return str(problem)
        return ""

    def _write_settled(self) -> None:
        if self._settled:
            self._write(self._settled)
            self._settled = []

    def _line(self, move: ListedReassignment, outcome: str) -> ForeignCancelLine:
        return ForeignCancelLine(
            at=self._clock.now().astimezone(UTC),
            who=self._who,
            cluster_id=self._cluster_id,
            topic=move.tp.topic,
            topic_id=move.topic_id,
            partition=move.tp.partition,
            original=move.original,
            target=move.target,
            outcome=outcome,
        )

    def _write(self, lines: Iterable[ForeignCancelLine]) -> None:
        body = _ENCODER.encode_lines(lines)
        self._folder.check()
        self._folder.make(self._folder.path)
        try:
            with os.fdopen(open_regular(self.path, _FLAGS), "ab") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            sync_folder(self.path.parent)
        except OSError as error:
            raise RunProblem(f"{self.path}: cannot be written: {error.strerror}") from None


AT_ONCE = 1_000  # partitions in one request: as many as it takes in under a second

PATIENCE_S = MAY_COME_S  # seconds to watch: a request whose answer was lost can arrive this late
_POLL_S = 0.5
Look = Callable[[bool], Awaitable[Observation | None]]

_NOT_NEEDED = WriteResult(Verdict.REFUSED, KafkaError.NO_REASSIGNMENT_IN_PROGRESS)


class ForeignCancel:
    """Cancels foreign reassignments, unless begun again since (no fencing), and follows each."""

    def __init__(self, writer: ClusterWriter, clock: Clock, log: CancelLog) -> None:
        self._writer = writer
        self._clock = clock
        self._log = log
        self._doubts = Debounce()
        self._pending: dict[TopicPartition, ListedReassignment] = {}
        self._answers: dict[TopicPartition, WriteResult] = {}
        self._sent_s: dict[TopicPartition, float] = {}
        self._unsent: dict[TopicPartition, ListedReassignment] = {}  # their read was too old
        self._too_old = ""
        self.settled: dict[TopicPartition, Settled] = {}
        self.not_written = ""  # why the outcomes could not be logged

    async def carry_out(
        self,
        look: Look,
        moves: Callable[[Observation], Collection[ListedReassignment]],
        also_settled: Callable[[], bool] = lambda: True,
    ) -> Observation | None:
        """Cancel reassignments, and poll until all is settled or `PATIENCE_S` is over.

        `look` is told whether cancels are sent already, and returns None while the cluster is lost;
        once they are sent, an error of the cluster means the same. `moves` says what to cancel by
        the first poll. Returns the last poll. Raises RunProblem: the log cannot be written, and
        nothing is sent that is not in it.
        """
        until_s, begun = self._clock.monotonic() + PATIENCE_S, False
        try:
            while True:
                seen = await self._seen(look, sent=begun)
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

    @staticmethod
    async def _seen(look: Look, *, sent: bool) -> Observation | None:
        try:
            return await look(sent)
        except RunProblem:
            raise
        except Exception as error:  # whatever the answer: what was sent is followed to its outcome
            if not sent:
                raise
            if not isinstance(error, ClusterError):
                log.exception("the cluster's answer cannot be read")
            return None

    @property
    def pending(self) -> Collection[TopicPartition]:
        return self._pending.keys()

    async def cancel(self, moves: Collection[ListedReassignment], seen: Observation) -> None:
        """Cancel those still as they were shown. RunProblem: no log; nothing unlogged is sent."""
        self._pending |= {move.tp: move for move in moves}
        self._answers |= {move.tp: _NOT_NEEDED for move in moves}
        await self._send(self._as_shown(moves, seen), seen)
        done = {*self._sent_s, *self._unsent}
        self._judge(seen, [tp for tp in self._pending if tp not in done])

    async def follow(self, seen: Observation) -> None:
        """Cancel what awaited a newer read, and for a while again where an answer was lost."""
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
        """Settle the rest: as unknown, or as refused if nothing was sent."""
        for tp in list(self._pending):
            if tp in self._unsent and tp not in self._sent_s:
                self._settle(tp, Settled(ForeignOutcome.REFUSED, detail=self._too_old))
            else:
                self._settle(tp, Settled(ForeignOutcome.UNKNOWN, detail=why))

    def _as_shown(
        self, moves: Collection[ListedReassignment], seen: Observation
    ) -> list[ListedReassignment]:
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
        except Exception as error:
            log.exception("the answer to a cancel cannot be read")
            return dict.fromkeys(cancels, unread_answer(error))
        return {tp: results.get(tp, UNANSWERED) for tp in cancels}

    def _judge(self, seen: Observation, partitions: Collection[TopicPartition]) -> None:
        for tp in partitions:
            settled = self._outcome_of(tp, seen)
            if settled is None:
                continue
            if seen.fresh or self._doubts.confirmed(tp, settled, seen):  # no older than the list
                self._settle(tp, settled)

    def _outcome_of(self, tp: TopicPartition, seen: Observation) -> Settled | None:
        if tp in seen.absent:
            return Settled(ForeignOutcome.GONE, detail="the topic was deleted")
        state = seen.partitions.get(tp)
        if state is None or not state.described:
            return None
        return judge_cancel(self._pending[tp], self._answers[tp], state)

    def _settle(self, tp: TopicPartition, settled: Settled) -> None:
        move = self._pending.pop(tp)
        self.settled[tp] = settled
        if tp in self._sent_s:
            self._log.note_outcome(move, settled)
