"""Steps in flight: their outcomes, and the elections and cancels that those call for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from math import inf

import msgspec

from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.cluster.ports import Verdict
from ktui.execution.engine.observed import Observed, StepOutcome, step_outcome
from ktui.execution.engine.requests import LAST_IN_SYNC, keeps_data, may_cancel
from ktui.execution.engine.working_state import (
    Hold,
    WorkingState,
    standing_events,
    state_change,
    state_event,
    step_over_event,
)
from ktui.execution.run.events import AnyRunEvent, Cancel, Elect
from ktui.execution.run.options import OnStall, RunOptions
from ktui.execution.run.parts import MOST_TRIES, failure_reason
from ktui.execution.run.states import State, state_when_cancelled
from ktui.execution.run.track import OpenStep, Track
from ktui.execution.run.unanswered import open_request_text
from ktui.pacing.situation import LEAST, Done, Move, Next, Situation
from ktui.pacing.steps import next_step
from ktui.progress.poll import RESTART_S
from ktui.progress.timeline import Cause, Stall, StallKind

SOON_POLLS = 2  # a throttled copy that may end within this many polls is about to end
WORTH = 20  # a wait for a poll is at most this part of the copy: one a second for long ones
QUICK_FOR_S = 5.0  # seconds after which a removal that is not over is waiting for somebody
ELECT_AGAIN_S = 2.0
ELECT_FOR_S = 30.0  # then an election without an in-sync winner is given up, and its place freed
CANCEL_AGAIN_S, CANCEL_LATEST_S = 10.0, 60.0  # seconds until it is sent again; they double
UNSEEN_S = 5.0  # seconds until a step that the cluster does not describe is shown as stalled
_BY_OPERATOR = "an operator has called it off"
_HIDDEN = "it is not cancelled: {}"
_LAGGING = "the next batch waits for {} to be in sync"
_ARRIVED = frozenset({StepOutcome.REACHED, StepOutcome.ELECTION_DUE})


def first_end_s(memory: WorkingState, now: datetime, poll_s: float) -> float:
    """Return how many seconds after the last poll another may show that a step is over."""
    in_flight = memory.roster.in_flight.values()
    return min((_end_s(move, memory, now, poll_s) for move in in_flight), default=poll_s)


def _end_s(move: Move, memory: WorkingState, now: datetime, poll_s: float) -> float:
    track = memory.run.tracks[move.tp]
    took_s = 0.0 if track.step is None else (now - track.step.at).total_seconds()
    if not move.step.adds or track.planned.weight == LEAST:  # mostly over at once
        return 0.0 if took_s < QUICK_FOR_S else poll_s
    timeline = memory.progress.timelines.get(move.tp)
    left = None if timeline is None else timeline.left_s
    if left is None:
        return poll_s
    if memory.run.throttled.in_force:  # a poll finds out which replica is to be taken off it
        return 0.0 if left.low <= SOON_POLLS * poll_s else poll_s
    return max(left.low, took_s / WORTH)


class Stalls:
    """Finds out from polls which steps in flight are stalled."""

    def __init__(self, memory: WorkingState, options: RunOptions) -> None:
        self._memory = memory
        self._options = options
        self._down_since: dict[int, float] = {}
        self._now_s = 0.0

    def update(self, observed: Observed) -> None:
        """Record since when each broker is down for which a step in flight may wait."""
        now_s = observed.seen.monotonic_s
        if now_s - self._now_s > RESTART_S:
            self._down_since = {}  # brokers that were down before may have been up meanwhile
        self._now_s = now_s
        states = (observed.state(tp) for tp in self._memory.roster.in_flight)
        down = {b for state in states if state for b in state.replicas} - observed.online
        self._down_since = {b: self._down_since.get(b, now_s) for b in down}

    def of(self, track: Track) -> Stall | None:
        stall = self._any(track)
        return stall if stall is not None and stall.kind is StallKind.STALLED else None

    def held_up_by(self, track: Track) -> str:
        """What a step waits for that is not stalled yet, as "broker 3 is down"; or ""."""
        stall = self._any(track)
        return stall.detail if stall is not None and stall.held_up else ""

    def _any(self, track: Track) -> Stall | None:
        timeline = self._memory.progress.timelines.get(track.tp)
        return None if timeline is None else timeline.stall

    def cancel_reason(self, stall: Stall) -> str | None:
        """Only `--on-stall cancel` has a stalled step cancelled."""
        since_s, timeout_s = self._down_since.get(stall.broker), self._options.stall_timeout_s
        if (
            self._options.on_stall is OnStall.CANCEL
            and stall.cause in {Cause.TARGET_DOWN, Cause.KEPT_OUT_OF_SYNC}
            and since_s is not None
            and self._now_s - since_s >= timeout_s
        ):
            return f"broker {stall.broker} offline for {timeout_s:.0f} s"
        return None


class _StepNotes(msgspec.Struct):
    """What is remembered about a step in flight. All moments are monotonic seconds."""

    listed: bool = False  # Kafka was seen to carry the step out
    electing_s: float | None = None  # first asked for
    elected_s: float | None = None  # last asked for
    cancelled_s: float | None = None  # last asked for
    cancels: int = 0  # asked for
    unseen_s: float | None = None  # since when the cluster does not describe it
    stalled: object = None  # the cause that was last reported


class StepsInFlight:
    """Settles steps in flight by polling their partitions, and never by guessing."""

    def __init__(self, memory: WorkingState, options: RunOptions) -> None:
        self._memory = memory
        self._stalls = Stalls(memory, options)
        self._notes: defaultdict[TopicPartition, _StepNotes] = defaultdict(_StepNotes)
        self._now_s = 0.0
        self._elections: list[Elect] = []
        self._cancels: dict[TopicPartition, str] = {}  # why; a read made for it decides
        self.cancelled_by_others: list[TopicPartition] = []  # by the last poll

    def take_elections(self) -> list[Elect]:
        """None while a replica is throttled: an election stalls producers."""
        elections = [elect for elect in self._elections if self._may_elect(elect.tp)]
        for elect in elections:
            notes = self._notes[elect.tp]
            notes.elected_s = self._now_s
            notes.electing_s = self._now_s if notes.electing_s is None else notes.electing_s
        self._elections = []
        return elections

    def judge_cancels(self, observed: Observed) -> list[AnyRunEvent]:
        """Return what a read made for them allows; the others are judged again at the next poll."""
        events: list[AnyRunEvent] = []
        for tp, reason in self._cancels.items():
            track, state = self._memory.run.tracks[tp], observed.state(tp)
            if may_cancel(track, observed):
                notes = self._notes[tp]
                notes.cancelled_s, notes.cancels = observed.seen.monotonic_s, notes.cancels + 1
                events.append(Cancel(tp.topic, tp.partition, reason=reason))
            elif track.step is not None and state is not None:
                if step_outcome(track.step, state) is StepOutcome.IN_FLIGHT:
                    events += self._not_cancelled(track, LAST_IN_SYNC)
            elif track.step is not None and not observed.gone(track):
                events += self._not_cancelled(track, _HIDDEN.format(observed.hidden(tp.topic)))
        self._cancels = {}
        return events

    def _may_elect(self, tp: TopicPartition) -> bool:
        run, track = self._memory.run, self._memory.run.tracks[tp]
        shut = run.cancel_gate.shut and track.cancel is None
        return not (shut or tp in run.throttled.partitions or track.step_cancelled_by_operator)

    @property
    def cancels_due(self) -> Collection[TopicPartition]:
        """They are cancelled before anything else is sent."""
        return self._cancels.keys()

    def cancel(self, track: Track) -> None:
        if track.step is not None:
            self._cancels[track.tp] = _BY_OPERATOR

    def judge(self, observed: Observed) -> list[AnyRunEvent]:
        self._elections, self._cancels, self.cancelled_by_others = [], {}, []
        self._now_s = observed.seen.monotonic_s
        self._memory.unanswered.note_poll(self._now_s)
        self._stalls.update(observed)
        events: list[AnyRunEvent] = []
        for tp in list(self._memory.roster.in_flight):
            track = self._memory.run.tracks[tp]
            if reason := observed.gone(track):
                if self._memory.doubts.confirmed(tp, reason, observed.seen):
                    self._notes.pop(tp, None)
                    events.append(self._memory.give_up(track, State.TOPIC_GONE, reason))
            elif track.step is not None:
                state = observed.state(tp)
                if state is not None:
                    self._memory.roster.led_by(tp, state.leader)
                judged = None if state is None else self._judge(track, track.step, state, observed)
                events += self._undescribed(track, observed) if judged is None else judged
        return events

    def _judge(
        self, track: Track, step: OpenStep, state: PartitionState, observed: Observed
    ) -> list[AnyRunEvent] | None:
        how, notes = step_outcome(step, state), self._notes[track.tp]
        if how is StepOutcome.IN_FLIGHT:
            self._memory.doubts.clear(track.tp)
            notes.listed, notes.unseen_s = True, None
            return self._still_in_flight(track, step, state)
        situation = observed.situation(track, state)
        if situation is None:
            return None
        notes.unseen_s = None
        if how in _ARRIVED and not self._certain(track.tp, step, state, observed):
            return []
        match how:
            case StepOutcome.REACHED:
                return self._reached(track, state, situation, observed)
            case StepOutcome.ELECTION_DUE:
                return self._elect(track, step, situation)
            case _:
                return self._diverted(track, step, state, situation, observed, how)

    def _undescribed(self, track: Track, observed: Observed) -> list[AnyRunEvent]:
        notes = self._notes[track.tp]
        notes.unseen_s = self._now_s if notes.unseen_s is None else notes.unseen_s
        if self._seconds_since(notes.unseen_s) < UNSEEN_S:
            return []
        hidden = observed.hidden(track.tp.topic)
        self._memory.roster.stall(track.tp, stalled=True)
        if track.step_cancelled_by_operator:
            return self._not_cancelled(track, _HIDDEN.format(hidden))
        return self._stalled(track, hidden, hidden)

    def _reached(
        self, track: Track, state: PartitionState, situation: Situation, observed: Observed
    ) -> list[AnyRunEvent]:
        if lagging := self._lagging(track, state, observed):
            return state_change(track, track.state, _LAGGING.format(_listed(lagging)))
        return self._end_step(track, situation)

    def _lagging(self, track: Track, state: PartitionState, observed: Observed) -> Brokers:
        """Return the brokers that have to be in sync before the next batch begins (KIP-1335).

        Kafka can complete a reassignment while a replica that stays is out of sync. Nothing waits
        for a broker that is offline.
        """
        run = self._memory.run
        waits = run.limits.in_batches and track.cancel is None and not run.pauses.whole
        if not waits or run.in_flight + run.over == len(run.tracks):
            return ()
        live = observed.online - {*state.offline, *state.isr}
        return tuple(broker for broker in state.replicas if broker in live)

    def _certain(
        self, tp: TopicPartition, step: OpenStep, state: PartitionState, observed: Observed
    ) -> bool:
        """Whether the requested replicas prove that the alter is over.

        Metadata shows the same list while an alter that only adds is under way. That alter may have
        been cancelled since. Or it may have arrived after the list of reassignments was read.
        """
        adding = {*step.begun.adding}
        if not adding or step.begun.removing or (observed.seen.fresh and adding <= {*state.isr}):
            self._memory.doubts.clear(tp)
            return True
        return self._memory.doubts.confirmed(tp, ("arrived", state.replicas), observed.seen)

    def _diverted(
        self,
        track: Track,
        step: OpenStep,
        state: PartitionState,
        situation: Situation,
        observed: Observed,
        how: StepOutcome,
    ) -> list[AnyRunEvent]:
        match how:
            case StepOutcome.TAKEN_OVER:
                what = f"reassigned it to {_listed(state.target)}"
                return self._left_to_others(track, state, what)
            case StepOutcome.AS_BEFORE if step.cancelled:
                return self._end_step(
                    track, situation, reached=False, reason="its step was cancelled"
                )
            case StepOutcome.AS_BEFORE if not self._arrived(track, step):
                return self._nothing_came(track, step, situation, observed)
            case _ if not self._memory.doubts.confirmed(
                track.tp,
                (how, state.replicas),
                observed.seen,
                echo={*state.replicas} == {*step.begun.before, *step.begun.replicas},
            ):
                return []
            case StepOutcome.AS_BEFORE if step.cancelled_by_operator:  # perhaps by somebody else
                return self._end_step(track, situation, reached=False, reason="it was cancelled")
            case _:
                changed = how is StepOutcome.CHANGED
                self.cancelled_by_others += [] if changed else [track.tp]
                what = f"gave it {_listed(state.replicas)}" if changed else "cancelled its step"
                return self._left_to_others(track, state, what)

    def _arrived(self, track: Track, step: OpenStep) -> bool:
        accepted = step.answered is not None and step.answered.verdict is Verdict.ACCEPTED
        return accepted or self._notes[track.tp].listed

    def _end_step(
        self, track: Track, situation: Situation, *, reached: bool = True, reason: str = ""
    ) -> list[AnyRunEvent]:
        """A step that something follows stays open while its request may still arrive, or again."""
        to_follow = next_step(situation, self._memory.run.limits)
        settled = isinstance(to_follow, Done) and not track.step_cancelled_by_operator
        yields_place = self._memory.yields_place(track, self._now_s)
        silent = yields_place and not isinstance(to_follow, Done)
        if self._memory.awaits_answer(track, self._now_s) and not (settled or silent):
            self._notes[track.tp].cancelled_s = None  # if it arrives again, so does the cancel
            return self._memory.keep_waiting(track)
        self._memory.doubts.clear(track.tp)
        self._notes.pop(track.tp, None)
        following = self._memory.end_step(track, situation)
        over = step_over_event(track, situation, reached=reached, reason=reason)
        if silent and not settled:
            self._memory.hold(track.tp, Hold.UNANSWERED)
            why = open_request_text(self._memory.unanswered.node(track.tp))
            return [
                over,
                state_event(track, state_when_cancelled(State.BLOCKED, track.cancel), why),
            ]
        return [over] if following is None else [over, *_state_after(following, track)]

    def _nothing_came(
        self, track: Track, step: OpenStep, situation: Situation, observed: Observed
    ) -> list[AnyRunEvent]:
        """The answer was lost: the request may be too, or it may still arrive."""
        what = ("as before", situation.replicas)
        certain = self._memory.doubts.confirmed(track.tp, what, observed.seen)
        if not certain:
            return []
        awaited = self._memory.awaits_answer(track, self._now_s)
        if awaited and not self._memory.yields_place(track, self._now_s):
            return self._memory.keep_waiting(track)
        if step.answered is not None and track.refusals >= MOST_TRIES:
            self._notes.pop(track.tp, None)
            reason = failure_reason(track.refusals, step.answered, step.answered.request)
            return self._memory.fail(track, reason)
        return self._end_step(track, situation, reached=False, reason="nothing came of the request")

    def _left_to_others(self, track: Track, state: PartitionState, what: str) -> list[AnyRunEvent]:
        self._notes.pop(track.tp, None)
        how, reason = State.CHANGED_ELSEWHERE, f"someone else {what}"
        return [self._memory.give_up(track, how, reason, state.original)]

    def _elect(self, track: Track, step: OpenStep, situation: Situation) -> list[AnyRunEvent]:
        """Ask for the election at the end of a step, repeatedly for a while."""
        if step.cancelled_by_operator:
            return self._end_step(track, situation, reached=False, reason=_BY_OPERATOR)
        notes, leader = self._notes[track.tp], step.begun.elect
        if notes.electing_s is not None and self._now_s - notes.electing_s >= ELECT_FOR_S:
            reason = f"broker {leader} was not elected in {ELECT_FOR_S:.0f} s"
            return self._end_step(track, situation, reached=False, reason=reason)
        if leader is not None and self._seconds_since(notes.elected_s) >= ELECT_AGAIN_S:
            self._elections.append(Elect(track.tp.topic, track.tp.partition, leader=leader))
        return []

    def _still_in_flight(
        self, track: Track, step: OpenStep, state: PartitionState
    ) -> list[AnyRunEvent]:
        if step.cancelled_by_operator:
            self._memory.roster.stall(track.tp, stalled=True)
            return self._cancel_step(track, state, _BY_OPERATOR)
        stall = self._stalls.of(track)
        self._memory.roster.stall(track.tp, stalled=stall is not None)
        if stall is None:
            state_now = State.ADDING if state.adding else State.DROPPING
            goes_on = state_when_cancelled(state_now, track.cancel)
            hindered = track.state in {State.STALLED, State.STOPPING} - {goes_on}
            why = self._stalls.held_up_by(track)
            return [state_event(track, goes_on, why)] if hindered or why != track.reason else []
        if reason := self._stalls.cancel_reason(stall):
            return self._cancel_step(track, state, reason)
        return self._stalled(track, (stall.cause, stall.broker), stall.detail)

    def _cancel_step(self, track: Track, state: PartitionState, reason: str) -> list[AnyRunEvent]:
        if not keeps_data(state):
            return self._not_cancelled(track, LAST_IN_SYNC)
        notes = self._notes[track.tp]
        again_s = min(CANCEL_LATEST_S, CANCEL_AGAIN_S * 2.0 ** max(0, notes.cancels - 1))
        if self._seconds_since(notes.cancelled_s) >= again_s:
            self._cancels[track.tp] = reason
        return []

    def _not_cancelled(self, track: Track, reason: str) -> list[AnyRunEvent]:
        if not track.step_cancelled_by_operator:
            return self._stalled(track, reason, reason)
        return state_change(track, State.REFUSED, reason)

    def _stalled(self, track: Track, why: object, reason: str) -> list[AnyRunEvent]:
        """Report that a step stalls, and why; not again for each new figure in the reason."""
        notes = self._notes[track.tp]
        reported = track.state is State.STALLED and (notes.stalled == why or track.reason == reason)
        notes.stalled = why
        return [] if reported else [state_event(track, State.STALLED, reason)]

    def _seconds_since(self, moment_s: float | None) -> float:
        return inf if moment_s is None else self._now_s - moment_s


def _state_after(following: Next, track: Track) -> list[AnyRunEvent]:
    queued = state_when_cancelled(State.QUEUED, track.cancel)
    events = standing_events(track, following)
    return [e for e in events if getattr(e, "state", None) is not queued]


def _listed(brokers: tuple[int, ...]) -> str:
    return f"broker{'' if len(brokers) == 1 else 's'} {', '.join(map(str, brokers))}"
