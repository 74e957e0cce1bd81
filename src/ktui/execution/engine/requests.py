"""Requests of a run: each rests on a read made for it, is checked, and leaves soon after."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Container, Iterable, Mapping

import msgspec

from ktui.cluster.asking import LEAVES_WITHIN_S, FreshRead
from ktui.cluster.clock import Clock
from ktui.cluster.errors import ClusterError, describe_unreadable
from ktui.cluster.observation import Observation
from ktui.cluster.ownership import SendGuard
from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.cluster.ports import ClusterPorts, ClusterWriter, Verdict, WriteResult
from ktui.execution.engine.observed import Observed, StepOutcome, step_outcome
from ktui.execution.run.events import AnyRunEvent, Elect, Request, StepBegun
from ktui.execution.run.run import Run
from ktui.execution.run.track import OpenStep, Track
from ktui.execution.run.unanswered import outcomes
from ktui.execution.throttle.apply import ThrottleManager
from ktui.pacing.limits import Limits
from ktui.pacing.situation import Decision, Move, Situation
from ktui.pacing.steps import next_steps


class PendingRequest(msgspec.Struct, frozen=True):
    """One request: an alter or a cancel (no brokers) of its partitions, or their election."""

    request: Request
    partitions: Mapping[TopicPartition, Brokers | None]

    def only(self, kept: Container[TopicPartition]) -> PendingRequest:
        return PendingRequest(
            self.request, {t: to for t, to in self.partitions.items() if t in kept}
        )


class Turn(msgspec.Struct, frozen=True):
    """The decision of one turn."""

    decision: Decision | None = None  # to begin
    intents: tuple[AnyRunEvent, ...] = ()  # to journal before anything is sent
    sendings: tuple[PendingRequest, ...] = ()  # in the order in which they are sent
    look_again: bool = False  # one that would begin was not polled: nothing is sent before that

    @property
    def begun(self) -> frozenset[TopicPartition]:
        moves = () if self.decision is None else self.decision.moves
        return frozenset(move.tp for move in moves)

    @property
    def adding(self) -> list[TopicPartition]:
        moves = () if self.decision is None else self.decision.moves
        return [move.tp for move in moves if move.step.adds]


def build_turn(
    decision: Decision,
    situations: Mapping[TopicPartition, Situation],
    elections: Iterable[Elect],
    held: Iterable[AnyRunEvent] = (),
) -> Turn:
    """Combine the alters, each cut, and the elections due, with the reasons of `held` ones."""
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
        move.tp.topic,
        move.tp.partition,
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
    leader = move.step.elects or move.step.target[0]
    return Elect(move.tp.topic, move.tp.partition, leader=leader)


log = logging.getLogger(__name__)

READ_STALE_S = LEAVES_WITHIN_S  # since a read was asked for; after that the request stays here


async def send(
    writer: ClusterWriter, sending: PendingRequest, *, leaves_within_s: float
) -> Mapping[TopicPartition, WriteResult]:
    """Send one request, and return the outcome of each partition of it.

    Kafka's own guard against changes of the replication factor is switched off. The factor changes
    on a partition's way even if its target keeps it. The plan was checked for that before the run
    began.
    """
    tps = sending.partitions
    if sending.request is Request.ELECT:
        work = writer.elect_preferred_leaders(tps, leaves_within_s=leaves_within_s)
    else:
        work = writer.alter_reassignments(
            dict(tps), allow_replication_factor_change=True, leaves_within_s=leaves_within_s
        )
    return await outcomes(tps.keys(), work)


def not_sent(sending: PendingRequest, reason: str) -> Mapping[TopicPartition, WriteResult]:
    """Return the outcome of a request that did not leave."""
    return dict.fromkeys(sending.partitions, WriteResult(Verdict.REFUSED, message=reason))


class RequestRead(msgspec.Struct, frozen=True):
    """The result of a read for a request, or the reason why there is none."""

    seen: Observation | None
    problem: str = ""


class Requests:
    """Reads for requests, and sends while fresh; by cluster id, as addresses may change."""

    def __init__(self, cluster: ClusterPorts, clock: Clock, cluster_id: str | None) -> None:
        self._read = FreshRead(cluster.reader, clock)
        self._writer = cluster.writer
        self._clock = clock
        self._cluster_id = cluster_id

    async def read(
        self,
        partitions: Collection[TopicPartition],
        *,
        settings: bool = False,
        to_cancel: bool = False,
    ) -> RequestRead:
        try:
            seen = await self._read.read(partitions, settings=settings, to_cancel=to_cancel)
        except ClusterError as error:
            return RequestRead(None, str(error))
        except Exception as error:
            log.exception("the cluster's answer cannot be read")
            return RequestRead(None, describe_unreadable(error))
        if self._cluster_id is not None and seen.cluster_id != self._cluster_id:
            return RequestRead(None, f"the brokers belong to another cluster, {seen.cluster_id}")
        return RequestRead(seen)

    async def send(
        self, sending: PendingRequest, seen: Observation, *, within_s: float = math.inf
    ) -> Mapping[TopicPartition, WriteResult]:
        """Only if its read is recent; nothing is awaited before. `within_s`: other grounds."""
        left_s = READ_STALE_S - (self._clock.monotonic() - seen.asked_s)
        if left_s <= 0:
            return not_sent(sending, stale_read_reason(seen, READ_STALE_S - left_s))
        return await send(self._writer, sending, leaves_within_s=min(left_s, within_s))


def stale_read_reason(seen: Observation, age_s: float) -> str:
    """Return why a request is not sent whose read is not recent any more."""
    return (
        f"the read made for it was {age_s:.1f} s old: the cluster took {seen.took_s:.1f} s to "
        f"answer. At most {READ_STALE_S:.0f} s is allowed"
    )


LAST_IN_SYNC = "it is not cancelled: without what is being added no replica would be in sync"
"""With unclean leader election such a cancel succeeds, and loses acknowledged data."""


class LastCheck:
    """Decides which partitions of a request must not leave after all, and why.

    A request was decided some time before it leaves. Since then its read has arrived, commands
    were carried out, settings were read back, and the owner of the cluster was checked.
    """

    def __init__(
        self, run: Run, throttling: ThrottleManager, guard: SendGuard, clock: Clock
    ) -> None:
        self._run = run
        self._throttling = throttling
        self._guard = guard
        self._clock = clock

    def refusals(
        self, sending: PendingRequest, decided: Turn, read: Observed, polled: Observation
    ) -> dict[TopicPartition, WriteResult]:
        """Return what must not leave, and why, by a `read` made for it and the poll."""
        return {
            **self._outdated(sending, read),
            **self._unthrottled(sending, decided, polled),
            **self._forbidden(sending, decided),
            **self._unowned(sending, decided),
        }

    def _outdated(
        self, sending: PendingRequest, read: Observed
    ) -> Mapping[TopicPartition, WriteResult]:
        tracks, limits = self._run.tracks, self._run.limits
        return {
            tp: WriteResult(Verdict.REFUSED, message=why)
            for tp in sending.partitions
            if (why := why_not_sent(sending.request, tracks[tp], read, limits))
        }

    def _unthrottled(
        self, sending: PendingRequest, decided: Turn, polled: Observation
    ) -> Mapping[TopicPartition, WriteResult]:
        if sending.request is not Request.ALTER:
            return {}
        adding = [tp for tp in decided.adding if tp in sending.partitions]
        return self._throttling.not_in_force(polled, adding)

    def _forbidden(
        self, sending: PendingRequest, decided: Turn
    ) -> Mapping[TopicPartition, WriteResult]:
        tracks, shut = self._run.tracks, self._run.cancel_gate.shut
        off = {tp for tp in sending.partitions if tracks[tp].step_cancelled_by_operator}
        held = {tp for tp in sending.partitions if shut and tracks[tp].cancel is None}
        new = decided.begun & sending.partitions.keys()
        until, now = self._run.until, self._clock.now()
        late = {tp for tp in new if until is not None and now >= until}
        waits = self._run.schedule.begins_at(now) is not None
        early = {tp for tp in new if waits and tp not in self._run.cancelling}
        paused = {tp for tp in new if self._run.pauses.stops(tp)}
        return {
            **not_sent(
                sending.only(late - self._run.cancelling.keys()),
                "the time given with --until has come",
            ),
            **not_sent(sending.only(early), "the run's schedule lets no step begin now"),
            **not_sent(sending.only(paused), "it was paused before it was sent"),
            **not_sent(sending.only(off), "it was cancelled before it was sent"),
            **not_sent(sending.only(held), "the cancel gate was shut before it was sent"),
        }

    def _unowned(
        self, sending: PendingRequest, decided: Turn
    ) -> Mapping[TopicPartition, WriteResult]:
        tracks = self._run.tracks
        begins = {tp for tp in decided.begun if tracks[tp].cancel is None}
        held: dict[TopicPartition, WriteResult] = {}
        for begins_step in (True, False):
            if why := self._guard.why_not(begins_step=begins_step):
                those = {tp for tp in sending.partitions if (tp in begins) == begins_step}
                held |= not_sent(sending.only(those), why)
        return held


def why_not_sent(request: Request, track: Track, observed: Observed, limits: Limits) -> str | None:
    """Return why an alter or election of a partition's step may not leave; None if it may.

    An alter leaves only if the same step follows from the read. Nobody may be moving the partition,
    and its topic must be the same. Its replicas, ISR and leader must call for no other step.
    """
    step, state = track.step, observed.state(track.tp)
    if step is None:
        return "its step is over"
    if gone := observed.gone(track):
        return gone
    if state is None:
        return observed.hidden(track.tp.topic)
    if state.reassigning:
        return "it is being reassigned"
    if request is Request.ELECT:
        return _why_not_elected(step, state)
    return _why_not_altered(track, step, state, observed, limits)


def may_cancel(track: Track, observed: Observed) -> bool:
    """Whether a null cancel of a partition's step may leave, by a read made for the cancel.

    Kafka has to list that very step: a reassignment of somebody else is left to them. Also, a
    replica that is not being added has to be in sync: see `LAST_IN_SYNC`.
    """
    state = observed.state(track.tp)
    if track.step is None or state is None or observed.gone(track):
        return False
    return step_outcome(track.step, state) is StepOutcome.IN_FLIGHT and keeps_data(state)


def keeps_data(state: PartitionState) -> bool:
    """Whether a replica in sync remains once those being added are dropped."""
    return bool(set(state.isr) - set(state.adding))


def _why_not_altered(
    track: Track, step: OpenStep, state: PartitionState, observed: Observed, limits: Limits
) -> str | None:
    situation = observed.situation(track, state)
    if situation is None:
        return "the settings of its topic are not known"
    begun, steps = step.begun, next_steps(situation, limits)
    now = next((each for each in steps if each.alters and each.target == begun.replicas), None)
    if now is not None:
        same = (now.adds, now.drops, now.elects) == (begun.adding, begun.removing, begun.elect)
        if same and state.replicas == begun.before:
            return None
    return "its replicas, ISR, leader or settings have changed since the last poll"


def _why_not_elected(step: OpenStep, state: PartitionState) -> str | None:
    leader = step.begun.elect
    if leader is not None and state.replicas[:1] == (leader,):
        return None
    return f"broker {leader} is not its preferred leader"
