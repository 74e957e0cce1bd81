"""Steps in flight: what has become of each, and what that calls for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from math import inf

import msgspec

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import Verdict
from ktui.execution.engine.landing import Landing, landing
from ktui.execution.engine.observed import Observed
from ktui.execution.engine.request_check import LAST_IN_SYNC, keeps_data, may_cancel
from ktui.execution.engine.stalls import Stalls
from ktui.execution.engine.working_state import Hold, Memory, now_in, stands, step_over
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.events import AnyRunEvent, Cancel, Elect
from ktui.execution.run.options import RunOptions
from ktui.execution.run.refusals import MOST_TRIES, refused_too_often
from ktui.execution.run.states import State, called_off
from ktui.execution.run.track import OpenStep, Track
from ktui.execution.run.unanswered import GIVEN_UP_S, waits_in_words
from ktui.pacing.decision import Move
from ktui.pacing.situation import Done, Next, Situation
from ktui.pacing.steps import next_step

SOON_POLLS = 2
"""A step that may be over within so many polls is about to end."""
QUICK_FOR_S = 5.0
"""A removal that is not over by then waits for somebody."""


def any_ends_soon(memory: Memory, now: datetime, poll_s: float) -> bool:
    """Say whether a step in flight is about to end.

    Args:
        memory: the steps, and how far they were at the last look.
        now: when that was.
        poll_s: the time between two looks otherwise.
    """
    flying = memory.roster.in_flight.values()
    return any(_ends_soon(move, memory, now, poll_s) for move in flying)


def _ends_soon(move: Move, memory: Memory, now: datetime, poll_s: float) -> bool:
    if not move.step.adds:  # what removes or elects is over at once, mostly
        step = memory.run.tracks[move.tp].step  # None: it is being submitted
        return step is None or (now - step.at).total_seconds() < QUICK_FOR_S
    timeline = memory.progress.timelines.get(move.tp)
    left = None if timeline is None else timeline.left_s
    return left is not None and left.low <= SOON_POLLS * poll_s


ELECT_AGAIN_S = 2.0
ELECT_FOR_S = 30.0
"""An election that its winner is not in sync for is given up then, and its place freed."""
CANCEL_AGAIN_S, CANCEL_LATEST_S = 10.0, 60.0
"""How long a cancel without effect is left alone: doubled each time."""
UNSEEN_S = 5.0
"""A step of which the cluster tells nothing for so long is shown as stalled."""

_CALLED_OFF = "an operator has called it off"
_HIDDEN = "it is not cancelled: {}"


class _Mind(msgspec.Struct):
    """What is kept in mind of a step in flight; moments are monotonic seconds."""

    listed: bool = False
    """Whether Kafka was seen to be at it."""
    electing_s: float | None = None
    """When the first election was asked for."""
    elected_s: float | None = None
    """When the last one was."""
    cancelled_s: float | None = None
    """When the last cancel was asked for."""
    cancels: int = 0
    """How many were."""
    unseen_s: float | None = None
    """Since when the cluster does not tell how the partition is."""
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
        self._cancels: dict[TopicPartition, str] = {}
        """The steps to cancel, each with why; a read made for the cancel decides."""

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

    def judge_cancels(self, look: Observed) -> list[AnyRunEvent]:
        """Return the cancels that a read made for them allows, and why others are not sent.

        Those are judged again at the next look.
        """
        events: list[AnyRunEvent] = []
        for tp, reason in self._cancels.items():
            track, state = self._memory.run.tracks[tp], look.state(tp)
            if may_cancel(track, look):
                mind = self._minds[tp]
                mind.cancelled_s, mind.cancels = look.seen.monotonic_s, mind.cancels + 1
                events.append(Cancel(topic=tp.topic, partition=tp.partition, reason=reason))
            elif track.step is not None and state is not None:
                if landing(track.step, state) is Landing.FLYING:
                    events += self._not_cancelled(track, LAST_IN_SYNC)
            elif track.step is not None and not look.gone(track):
                events += self._not_cancelled(track, _HIDDEN.format(look.hidden(tp.topic)))
        self._cancels = {}
        return events

    def _may_elect(self, tp: TopicPartition) -> bool:
        run, track = self._memory.run, self._memory.run.tracks[tp]
        shut = run.cancel_gate.shut and track.cancel is None
        return not (shut or tp in run.throttled.partitions or track.step_called_off)

    @property
    def cancels_due(self) -> Collection[TopicPartition]:
        """The partitions whose steps are to be cancelled before anything else is sent."""
        return self._cancels.keys()

    def call_off(self, track: Track) -> None:
        """Have a step cancelled as soon as a read made for it allows."""
        if track.step is not None:
            self._cancels[track.tp] = _CALLED_OFF

    def look(self, look: Observed) -> list[AnyRunEvent]:
        """Judge every step in flight."""
        self._elections, self._cancels = [], {}
        self._now_s = look.seen.monotonic_s
        self._memory.unanswered.look(self._now_s)
        self._stalls.look(look)
        events: list[AnyRunEvent] = []
        for tp in list(self._memory.roster.in_flight):
            track = self._memory.run.tracks[tp]
            if reason := look.gone(track):
                if self._memory.doubts.confirmed(tp, reason, look.seen):
                    events.append(self._give_up(track, State.TOPIC_GONE, reason))
            elif track.step is not None:
                state = look.state(tp)
                told = None if state is None else self._judge(track, track.step, state, look)
                events += self._unseen(track, look) if told is None else told
        return events

    def _judge(
        self, track: Track, step: OpenStep, state: PartitionState, look: Observed
    ) -> list[AnyRunEvent] | None:
        """Judge one step; None where its topic's settings are needed and not told."""
        how, mind = landing(step, state), self._minds[track.tp]
        if how is Landing.FLYING:
            self._memory.doubts.clear(track.tp)
            mind.listed, mind.unseen_s = True, None
            return self._flying(track, step, state)
        situation = look.situation(track, state)
        if situation is None:
            return None
        mind.unseen_s = None
        if how in _ARRIVED and not self._certain(track.tp, step, state, look):
            return []
        match how:
            case Landing.REACHED:
                return self._over(track, situation)
            case Landing.ELECTION_DUE:
                return self._elect(track, step, situation)
            case _:
                return self._strayed(track, step, state, situation, look, how)

    def _unseen(self, track: Track, look: Observed) -> list[AnyRunEvent]:
        """Say why nothing becomes of a step of which the cluster tells nothing for a while."""
        mind = self._minds[track.tp]
        mind.unseen_s = self._now_s if mind.unseen_s is None else mind.unseen_s
        if self._since(mind.unseen_s) < UNSEEN_S:
            return []
        hidden = look.hidden(track.tp.topic)
        self._memory.roster.stall(track.tp, stalled=True)
        if track.step_called_off:
            return self._not_cancelled(track, _HIDDEN.format(hidden))
        return self._stalled(track, hidden, hidden)

    def _certain(
        self, tp: TopicPartition, step: OpenStep, state: PartitionState, look: Observed
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
        look: Observed,
        how: Landing,
    ) -> list[AnyRunEvent]:
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
    ) -> list[AnyRunEvent]:
        """End a step, and say where its partition stands then.

        Not while a request of it may come yet, or once more, and something else is to follow.
        """
        to_follow = next_step(situation, self._memory.run.limits)
        settled = isinstance(to_follow, Done) and not track.step_called_off
        lets_others_go = self._memory.lets_others_go(track, self._now_s)
        silent = lets_others_go and not isinstance(to_follow, Done)
        if self._awaited(track) and not (settled or silent):
            self._minds[track.tp].cancelled_s = None  # should it come again, so does the cancel
            return self._memory.waits(track)
        self._memory.doubts.clear(track.tp)
        self._minds.pop(track.tp, None)
        following = self._memory.landed(track, situation)
        over = step_over(track, situation, reached=reached, reason=reason)
        if silent and not settled:
            self._memory.hold(track.tp, Hold.UNANSWERED)
            why = waits_in_words(self._memory.unanswered.node(track.tp))
            return [over, now_in(track, called_off(State.BLOCKED, track.cancel), why)]
        return [over] if following is None else [over, *_then(following, track)]

    def _nothing_came(
        self, track: Track, step: OpenStep, situation: Situation, look: Observed
    ) -> list[AnyRunEvent]:
        """An answer was lost, and maybe its request: what is still on its way may come yet."""
        what = ("as before", situation.replicas)
        certain = self._memory.doubts.confirmed(track.tp, what, look.seen)
        if not certain:
            return []
        if self._awaited(track) and not self._memory.lets_others_go(track, self._now_s):
            return self._memory.waits(track)
        if step.answered is not None and track.refusals >= MOST_TRIES:
            self._minds.pop(track.tp, None)
            reason = refused_too_often(track.refusals, step.answered)
            return self._memory.failed(track, reason)
        return self._over(track, situation, reached=False, reason="nothing came of the request")

    def _awaited(self, track: Track) -> bool:
        """Whether an open request of a step is waited for; a stop does so only for a while."""
        unanswered = self._memory.unanswered
        silent_s = unanswered.silent_for(track.tp, self._now_s)
        ends = track.cancel is CancelKind.STOP and silent_s >= GIVEN_UP_S
        return track.tp in unanswered and not ends

    def _left_to_others(self, track: Track, state: PartitionState, what: str) -> list[AnyRunEvent]:
        self._minds.pop(track.tp, None)
        how, reason = State.CHANGED_ELSEWHERE, f"someone else {what}"
        return [self._memory.give_up(track, how, reason, state.original)]

    def _give_up(self, track: Track, state: State, reason: str) -> AnyRunEvent:
        self._minds.pop(track.tp, None)
        return self._memory.give_up(track, state, reason)

    def _elect(self, track: Track, step: OpenStep, situation: Situation) -> list[AnyRunEvent]:
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

    def _flying(self, track: Track, step: OpenStep, state: PartitionState) -> list[AnyRunEvent]:
        if step.called_off:
            self._memory.roster.stall(track.tp, stalled=True)
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

    def _cancel_step(self, track: Track, state: PartitionState, reason: str) -> list[AnyRunEvent]:
        """Cancel a step, again and again until it is over or what led to that has passed."""
        if not keeps_data(state):
            return self._not_cancelled(track, LAST_IN_SYNC)
        mind = self._minds[track.tp]
        again_s = min(CANCEL_LATEST_S, CANCEL_AGAIN_S * 2.0 ** max(0, mind.cancels - 1))
        if self._since(mind.cancelled_s) >= again_s:
            self._cancels[track.tp] = reason
        return []

    def _not_cancelled(self, track: Track, reason: str) -> list[AnyRunEvent]:
        """Say why a step is not cancelled, once."""
        if not track.step_called_off:
            return self._stalled(track, reason, reason)
        told = (track.state, track.reason) == (State.REFUSED, reason)
        return [] if told else [now_in(track, State.REFUSED, reason)]

    def _stalled(self, track: Track, why: object, reason: str) -> list[AnyRunEvent]:
        """Say that a step stalls, and why; not again for each new figure in the reason."""
        mind = self._minds[track.tp]
        told = track.state is State.STALLED and (mind.stalled == why or track.reason == reason)
        mind.stalled = why
        return [] if told else [now_in(track, State.STALLED, reason)]

    def _since(self, moment_s: float | None) -> float:
        return inf if moment_s is None else self._now_s - moment_s


def _then(following: Next, track: Track) -> list[AnyRunEvent]:
    """Say where a partition stands after its step; `step_over` has left it queued."""
    queued = called_off(State.QUEUED, track.cancel)
    events = stands(track, following)
    return [e for e in events if getattr(e, "state", None) is not queued]


def _adding(state: PartitionState) -> State:
    return State.ADDING if state.adding else State.DROPPING


_ARRIVED = frozenset({Landing.REACHED, Landing.ELECTION_DUE})


def _listed(brokers: tuple[int, ...]) -> str:
    return f"broker{'' if len(brokers) == 1 else 's'} {', '.join(map(str, brokers))}"
