"""The last check before a request leaves: what no longer holds is not sent."""

from __future__ import annotations

from collections.abc import Mapping

from ktui.cluster.clock import Clock
from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import Verdict, WriteResult
from ktui.cluster.send_guard import Guard
from ktui.execution.engine.observed import Observed, StepOutcome, step_outcome
from ktui.execution.engine.requests import not_sent
from ktui.execution.engine.turn import PendingRequest, Turn
from ktui.execution.run.events import Request
from ktui.execution.run.run import Run
from ktui.execution.run.track import OpenStep, Track
from ktui.execution.throttle.apply import ThrottleManager
from ktui.pacing.limits import Limits
from ktui.pacing.steps import next_steps

LAST_IN_SYNC = "it is not cancelled: without what is being added no replica would be in sync"
"""With unclean leader election enabled such a cancel succeeds, and loses acknowledged data."""


class LastCheck:
    """Decides which partitions of a request must not leave after all, and why.

    A request was decided some time before it leaves. Since then its read has arrived, commands
    were carried out, settings were read back, and the owner of the cluster was checked.
    """

    def __init__(self, run: Run, throttling: ThrottleManager, guard: Guard, clock: Clock) -> None:
        self._run = run
        self._throttling = throttling
        self._guard = guard
        self._clock = clock

    def refusals(
        self, sending: PendingRequest, decided: Turn, read: Observed, polled: Observation
    ) -> dict[TopicPartition, WriteResult]:
        """Return the partitions of a request that must not leave, each with the reason.

        Args:
            sending: the request.
            decided: the turn that it belongs to.
            read: the read made for it.
            polled: the poll that it was decided by.
        """
        return {
            **self._outdated(sending, read),
            **self._unthrottled(sending, decided, polled),
            **self._forbidden(sending, decided),
            **self._unowned(sending, decided),
        }

    def _outdated(
        self, sending: PendingRequest, read: Observed
    ) -> Mapping[TopicPartition, WriteResult]:
        """Return refusals for partitions whose step no longer follows from the request's read."""
        tracks, limits = self._run.tracks, self._run.limits
        return {
            tp: WriteResult(Verdict.REFUSED, message=why)
            for tp in sending.partitions
            if (why := why_not_sent(sending.request, tracks[tp], read, limits))
        }

    def _unthrottled(
        self, sending: PendingRequest, decided: Turn, polled: Observation
    ) -> Mapping[TopicPartition, WriteResult]:
        """Return refusals for partitions that would add replicas without the promised throttle."""
        if sending.request is not Request.ALTER:
            return {}
        adding = [tp for tp in decided.adding if tp in sending.partitions]
        return self._throttling.not_in_force(polled, adding)

    def _forbidden(
        self, sending: PendingRequest, decided: Turn
    ) -> Mapping[TopicPartition, WriteResult]:
        """Return refusals for partitions that a command, the gate or the time forbids now."""
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
        """Return refusals for partitions that the last answer about the cluster's owner forbids."""
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

    Args:
        request: the request that is about to be sent.
        track: the partition; its step is in the journal.
        observed: a read made for this request.
        limits: the limits in force.
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
