"""Steps in flight: what has become of each, and what that calls for."""

from __future__ import annotations

from collections import defaultdict
from math import inf

import msgspec

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import Verdict
from ktui.execution.events import Cancel, Elect, Event
from ktui.execution.landing import Landing, landing
from ktui.execution.look import Look
from ktui.execution.memory import Memory, now_in, stands, step_over
from ktui.execution.options import RunOptions
from ktui.execution.refusals import MOST_TRIES, refused_too_often
from ktui.execution.stalls import Stalls
from ktui.execution.states import State, called_off
from ktui.execution.track import OpenStep, Track
from ktui.pacing.situation import Done, Next, Situation
from ktui.pacing.steps import next_step

ELECT_AGAIN_S = 2.0
ELECT_FOR_S = 30.0
"""An election that its winner is not in sync for is given up then, and its place freed."""
CANCEL_AGAIN_S = 10.0

_CALLED_OFF = "an operator has called it off"
LAST_IN_SYNC = "it is not cancelled: without what is being added no replica would be in sync"
"""With unclean leader election enabled such a cancel succeeds, and loses acknowledged data."""


class _Mind(msgspec.Struct):
    """What is kept in mind of a step in flight; moments are monotonic seconds."""

    listed: bool = False
    """Whether Kafka was seen to be at it."""
    electing_s: float | None = None
    """When the first election was asked for."""
    elected_s: float | None = None
    """When the last one was."""
    cancelled_s: float | None = None
    stalled: object = None
    """Why it stalled when that was told last."""


class Flights:
    """Settles steps in flight by looking at their partitions, and never by guessing."""

    def __init__(self, memory: Memory, options: RunOptions) -> None:
        self._memory = memory
        self._stalls = Stalls(memory, options)
        self._minds: defaultdict[TopicPartition, _Mind] = defaultdict(_Mind)
        self._now_s = 0.0
        self._elections: list[Elect] = []
        self._cancels: list[Cancel] = []

    def take_elections(self) -> list[Elect]:
        """Give the elections that the last look called for; they are to be sent.

        None is elected while a replica of it is still throttled: that stalls producers.
        """
        elections = [elect for elect in self._elections if self._may_elect(elect.tp)]
        for elect in elections:
            mind = self._minds[elect.tp]
            mind.elected_s = self._now_s
            mind.electing_s = self._now_s if mind.electing_s is None else mind.electing_s
        self._elections = []
        return elections

    def take_cancels(self) -> list[Cancel]:
        """Give the cancels that are due; they are to be sent before all else."""
        cancels, self._cancels = self._cancels, []
        for cancel in cancels:
            self._minds[cancel.tp].cancelled_s = self._now_s
        return cancels

    def _may_elect(self, tp: TopicPartition) -> bool:
        run, track = self._memory.run, self._memory.run.tracks[tp]
        shut = run.cancel_gate.shut and track.cancel is None
        return not (shut or tp in run.throttled.partitions or track.step_called_off)

    @property
    def cancels_due(self) -> bool:
        """Whether cancels wait to be sent."""
        return bool(self._cancels)

    def call_off(self, track: Track, look: Look) -> list[Event]:
        """Cancel a step as soon as may be, by the last look if that shows it."""
        state = look.state(track.tp)
        if track.step is None or state is None or landing(track.step, state) is not Landing.FLYING:
            return []
        return self._cancel_step(track, state, _CALLED_OFF)

    def look(self, look: Look) -> list[Event]:
        """Judge every step in flight."""
        self._elections, self._cancels = [], []
        self._now_s = look.seen.monotonic_s
        self._memory.unanswered.look(self._now_s)
        self._stalls.look(look)
        events: list[Event] = []
        for tp in list(self._memory.roster.in_flight):
            track = self._memory.run.tracks[tp]
            if reason := look.gone(track):
                if self._memory.doubts.confirmed(tp, reason, look.seen):
                    events.append(self._give_up(track, State.TOPIC_GONE, reason))
            elif (state := look.state(tp)) is not None and track.step is not None:
                events += self._judge(track, track.step, state, look)
        return events

    def _judge(
        self, track: Track, step: OpenStep, state: PartitionState, look: Look
    ) -> list[Event]:
        situation = look.situation(track, state)
        if situation is None:
            return []
        how = landing(step, state)
        if how in _ARRIVED and not self._certain(track.tp, step, state, look):
            return []
        match how:
            case Landing.FLYING:
                self._memory.doubts.clear(track.tp)
                self._minds[track.tp].listed = True
                return self._flying(track, step, state)
            case Landing.REACHED:
                return self._over(track, situation)
            case Landing.ELECTION_DUE:
                return self._elect(track, step, situation)
            case _:
                return self._strayed(track, step, state, situation, look, how)

    def _certain(
        self, tp: TopicPartition, step: OpenStep, state: PartitionState, look: Look
    ) -> bool:
        """Whether the replicas asked for prove that the alter is over.

        Metadata shows the same list while an alter is under way that only adds; it may be one
        that was cancelled since, or that came after the list of reassignments was read.
        """
        adding = {*step.begun.adding}
        if not adding or step.begun.removing or (look.seen.fresh and adding <= {*state.isr}):
            self._memory.doubts.clear(tp)
            return True
        return self._memory.doubts.confirmed(tp, ("arrived", state.replicas), look.seen)

    def _strayed(
        self,
        track: Track,
        step: OpenStep,
        state: PartitionState,
        situation: Situation,
        look: Look,
        how: Landing,
    ) -> list[Event]:
        """Tell a step that was cancelled, was lost on its way, or met somebody else's."""
        match how:
            case Landing.TAKEN_OVER:
                what = f"reassigned it to {_listed(state.target)}"
                return self._left_to_others(track, state, what)
            case Landing.AS_BEFORE if step.cancelled:
                return self._over(track, situation, reached=False, reason="its step was cancelled")
            case Landing.AS_BEFORE if not self._arrived(track, step):
                return self._nothing_came(track, step, situation, look)
            case _ if not self._memory.doubts.confirmed(track.tp, (how, state.replicas), look.seen):
                return []
            case Landing.AS_BEFORE if step.called_off:  # whoever cancelled it: it was to be
                return self._over(track, situation, reached=False, reason="it was cancelled")
            case _:
                changed = how is Landing.CHANGED
                what = f"gave it {_listed(state.replicas)}" if changed else "cancelled its step"
                return self._left_to_others(track, state, what)

    def _arrived(self, track: Track, step: OpenStep) -> bool:
        """Whether Kafka is known to have taken the request in, answered or not."""
        accepted = step.answered is not None and step.answered.verdict is Verdict.ACCEPTED
        return accepted or self._minds[track.tp].listed

    def _over(
        self, track: Track, situation: Situation, *, reached: bool = True, reason: str = ""
    ) -> list[Event]:
        """End a step, and say where its partition stands then.

        Not while a request of it may come yet, or once more, and something else is to follow.
        """
        to_follow = next_step(situation, self._memory.run.limits)
        settled = isinstance(to_follow, Done) and not track.step_called_off
        if track.tp in self._memory.unanswered and not settled:
            self._minds[track.tp].cancelled_s = None  # should it come again, so does the cancel
            return []
        self._memory.doubts.clear(track.tp)
        self._minds.pop(track.tp, None)
        following = self._memory.landed(track, situation)
        over = step_over(track, situation, reached=reached, reason=reason)
        return [over] if following is None else [over, *_then(following, track)]

    def _nothing_came(
        self, track: Track, step: OpenStep, situation: Situation, look: Look
    ) -> list[Event]:
        """An answer was lost, and maybe its request: what is still on its way may come yet."""
        what = ("as before", situation.replicas)
        certain = self._memory.doubts.confirmed(track.tp, what, look.seen)
        if not certain or track.tp in self._memory.unanswered:
            return []
        if step.answered is not None and track.refusals >= MOST_TRIES:
            self._minds.pop(track.tp, None)
            reason = refused_too_often(track.refusals, step.answered)
            return self._memory.failed(track, reason)
        return self._over(track, situation, reached=False, reason="nothing came of the request")

    def _left_to_others(self, track: Track, state: PartitionState, what: str) -> list[Event]:
        self._minds.pop(track.tp, None)
        how, reason = State.CHANGED_ELSEWHERE, f"someone else {what}"
        return [self._memory.give_up(track, how, reason, state.original)]

    def _give_up(self, track: Track, state: State, reason: str) -> Event:
        self._minds.pop(track.tp, None)
        return self._memory.give_up(track, state, reason)

    def _elect(self, track: Track, step: OpenStep, situation: Situation) -> list[Event]:
        """Ask for the election at the end of a step, again and again for a while."""
        if step.called_off:
            return self._over(track, situation, reached=False, reason=_CALLED_OFF)
        mind, leader = self._minds[track.tp], step.begun.elect
        if mind.electing_s is not None and self._now_s - mind.electing_s >= ELECT_FOR_S:
            reason = f"broker {leader} was not elected in {ELECT_FOR_S:.0f} s"
            return self._over(track, situation, reached=False, reason=reason)
        if leader is not None and self._since(mind.elected_s) >= ELECT_AGAIN_S:
            tp = track.tp
            elect = Elect(topic=tp.topic, partition=tp.partition, leader=leader)
            self._elections.append(elect)
        return []

    def _flying(self, track: Track, step: OpenStep, state: PartitionState) -> list[Event]:
        if step.called_off:
            return self._cancel_step(track, state, _CALLED_OFF)
        stall = self._stalls.of(track)
        self._memory.roster.stall(track.tp, stalled=stall is not None)
        if stall is None:
            goes_on = called_off(_adding(state), track.cancel)
            hindered = track.state in {State.STALLED, State.STOPPING} - {goes_on}
            return [now_in(track, goes_on)] if hindered else []
        if reason := self._stalls.past_patience(stall):
            return self._cancel_step(track, state, reason)
        return self._stalled(track, (stall.cause, stall.broker), stall.detail)

    def _cancel_step(self, track: Track, state: PartitionState, reason: str) -> list[Event]:
        """Cancel a step, again and again until it is over or what led to that has passed."""
        if not set(state.isr) - set(state.adding):
            if not track.step_called_off:
                return self._stalled(track, LAST_IN_SYNC, LAST_IN_SYNC)
            told = (track.state, track.reason) == (State.REFUSED, LAST_IN_SYNC)
            return [] if told else [now_in(track, State.REFUSED, LAST_IN_SYNC)]
        tp = track.tp
        if self._since(self._minds[tp].cancelled_s) >= CANCEL_AGAIN_S:
            self._cancels.append(Cancel(topic=tp.topic, partition=tp.partition, reason=reason))
        return []

    def _stalled(self, track: Track, why: object, reason: str) -> list[Event]:
        """Say that a step stalls, and why; not again for each new figure in the reason."""
        mind = self._minds[track.tp]
        told = track.state is State.STALLED and (mind.stalled == why or track.reason == reason)
        mind.stalled = why
        return [] if told else [now_in(track, State.STALLED, reason)]

    def _since(self, moment_s: float | None) -> float:
        return inf if moment_s is None else self._now_s - moment_s


def _then(following: Next, track: Track) -> list[Event]:
    """Say where a partition stands after its step; `step_over` has left it queued."""
    queued = called_off(State.QUEUED, track.cancel)
    events = stands(track, following)
    return [e for e in events if getattr(e, "state", None) is not queued]


def _adding(state: PartitionState) -> State:
    return State.ADDING if state.adding else State.DROPPING


_ARRIVED = frozenset({Landing.REACHED, Landing.ELECTION_DUE})


def _listed(brokers: tuple[int, ...]) -> str:
    return f"broker{'' if len(brokers) == 1 else 's'} {', '.join(map(str, brokers))}"
