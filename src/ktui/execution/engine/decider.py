"""The core of a run: from what was seen to what is sent. It waits for nothing and sends nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType

import msgspec

from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigResource, WriteResult
from ktui.execution.engine.absent_brokers import AbsentBrokers, Leaving
from ktui.execution.engine.between_steps import BetweenSteps
from ktui.execution.engine.cancels_only import WhileShut
from ktui.execution.engine.deadline import Deadline
from ktui.execution.engine.health_gate import gate
from ktui.execution.engine.in_flight import Flights, any_ends_soon
from ktui.execution.engine.observed import Observed
from ktui.execution.engine.outcomes import Outcomes
from ktui.execution.engine.requeue import as_left, call_off, in_flight, join
from ktui.execution.engine.turn import Turn, turn
from ktui.execution.engine.working_state import Hold, Memory, now_in
from ktui.execution.run.events import (
    AnyRunEvent,
    By,
    Cancel,
    Ended,
    Gate,
    OpenRequest,
    Paused,
    Request,
    StepOver,
)
from ktui.execution.run.run import Run
from ktui.execution.run.states import State, called_off
from ktui.execution.run.unanswered import LastHeard, always_heard
from ktui.execution.throttle.desired import Resources, needed
from ktui.insights.prior import Prior
from ktui.pacing.choosing import decide_steps
from ktui.pacing.decision import Decision, Move
from ktui.pacing.limits import Limits, Mode
from ktui.progress.fold import fold
from ktui.progress.timeline import Timeline
from ktui.quantities import as_count

BLOCKED_EVERY_S = 30.0
FEW_BLOCKED = 500
"""So many blocked partitions are looked at in every poll, more of them now and then."""
Resting = Mapping[ConfigResource, str]
NONE_RESTS: Resting = MappingProxyType({})
QUICK_S = 0.2
"""The pause between two looks while a step is about to end."""


class Decider:
    """Carries a run on: `look`, `decide` and `answered` in turn.

    A turn costs what is in flight and what is about to begin, not what the plan holds. What it
    gives as events is the caller's to put into the journal and then to `Run.apply`, at once.

    Args:
        run: the fold of its journal so far.
        prior: how fast earlier runs on the cluster went, where that is known.
        heard: tells which brokers answer.
    """

    def __init__(
        self, run: Run, prior: Prior | None = None, heard: LastHeard = always_heard
    ) -> None:
        self.run = run
        self._options = run.options
        self._memory = Memory(run, heard)
        self._roster = self._memory.roster
        self._flights = Flights(self._memory, self._options)
        self._waiting = BetweenSteps(self._memory, self._options)
        self._outcomes = Outcomes(self._memory)
        self._deadline = Deadline(self._memory, prior)
        self._while_shut = WhileShut(self._memory)
        self._leaving = Leaving()
        self._absent = AbsentBrokers()
        self._others: Counter[int] = Counter()
        self._look: Observed | None = None
        """The last one."""
        self._at, self._at_s = datetime.max.replace(tzinfo=UTC), 0.0
        """When that was, as wall time and as monotonic seconds."""
        self._looked_at: set[TopicPartition] = set()
        self._watched: set[TopicPartition] = set()
        """To be looked at next."""
        self._blocked_at_s = 0.0
        self._resting: Resources = frozenset()
        """What no throttle could be set on when that was last gone through."""
        self._quick = False
        self._cancelled = False
        """In this turn."""
        self._take_up()

    def _take_up(self) -> None:
        """File every partition as its journal left it, with nothing to do until it was seen."""
        tracks = [track for track in self.run.tracks.values() if not track.state.ended]
        self._watched = {track.tp for track in tracks}
        self._roster.add(map(as_left, tracks))
        self._roster.submitted(in_flight(tracks, self.run.batch))
        self.apply_pauses()

    @property
    def interest(self) -> Interest:
        """What the next look has to show."""
        return Interest(
            partitions=frozenset(self._watched), fresh=True, unhealthy=self._options.gated
        )

    @property
    def next_batch(self) -> int:
        """The number of the next decision; within a wave, that of the wave."""
        roster = self._roster
        goes_on = roster.limits.mode is Mode.WAVE and (
            roster.in_flight or roster.between or roster.ready
        )
        return self.run.batch if goes_on else self.run.batch + 1

    @property
    def has_looked(self) -> bool:
        """Whether there was a look yet."""
        return self._look is not None

    @property
    def seen(self) -> Observation:
        """The last look, as it was taken in.

        Raises:
            LookupError: there was none.
        """
        if self._look is None:
            raise LookupError("there was no look yet")
        return self._look.seen

    @property
    def timelines(self) -> Mapping[TopicPartition, Timeline]:
        """How far the partitions in flight were at the last look."""
        return self._memory.progress.timelines

    @property
    def asked_s(self) -> float:
        """When the last look began: nothing in it is older."""
        return self.seen.asked_s

    @property
    def pause_s(self) -> float:
        """How long to wait before the next look: less while a step is about to end."""
        if self._flights.cancels_due:
            return 0.0
        return min(QUICK_S, self._options.poll_s) if self._quick else self._options.poll_s

    # ---------------------------------------------------------------- looking

    def look(self, seen: Observation, *, unowned: str | None = None) -> list[AnyRunEvent]:
        """Take in a look: what became of steps in flight, and how those that wait are.

        Args:
            seen: what was seen of the cluster.
            unowned: why no new step begins as far as it counts who owns the cluster; None where
                one may.
        """
        self._absent.look(seen.online, seen.monotonic_s)
        self._look = look = Observed(seen, self._absent.restarting)
        self._at, self._at_s = seen.at, seen.monotonic_s
        self._follow(look)
        self._leaving.look(look)
        self._looked_at = self._watched
        events = self._flights.look(look)
        self._deadline.learn(events, seen.at)
        landed = {event.tp for event in events if isinstance(event, StepOver)}
        waiting = (tp for tp in self._watched - landed if tp in self._roster)
        events += self._waiting.look(sorted(waiting, key=self._roster.rank), look)
        self._waiting.certain |= landed
        events += self._gate(look, unowned)
        self._others = look.others(self._roster.in_flight)
        self._watched = self._worth_watching()
        return events

    def reading(self, seen: Observation) -> Observed:
        """Return what was read of some partitions in the terms of their steps.

        Settings that are not told count as they were at the last look, as they did for the steps.
        """
        if self._look is not None:
            known = {**self._look.seen.topic_configs, **seen.topic_configs}
            seen = msgspec.structs.replace(seen, topic_configs=known)
        return Observed(seen, self._absent.restarting)

    def _follow(self, look: Observed) -> None:
        """Keep the timelines of what is in flight, for their stalls and the time they have left."""
        flying, before = self._roster.in_flight, self._memory.progress
        timelines = {tp: line for tp, line in before.timelines.items() if tp in flying}
        kept = msgspec.structs.replace(before, timelines=timelines, events=())
        self._memory.progress = fold(kept, look.only(flying))

    def _worth_watching(self) -> set[TopicPartition]:
        """Give who is looked at next: those begun, and the next of the queue, 2P of them."""
        roster = self._roster
        most = roster.limits.partitions
        ahead = len(roster.queue) if most is None else 2 * most
        watched = {*roster.in_flight, *roster.between, *roster.ready, *roster.queue.first(ahead)}
        held = (Hold.UNSEEN, Hold.UNANSWERED, Hold.THROTTLE)
        unseen = set[TopicPartition]().union(*map(self._memory.held, held))
        if len(roster.blocked) + len(unseen) <= FEW_BLOCKED or self._blocked_due:
            self._blocked_at_s = self._at_s
            watched |= roster.blocked.keys() | unseen
        return watched

    @property
    def _blocked_due(self) -> bool:
        return self._at_s - self._blocked_at_s >= BLOCKED_EVERY_S

    def _gate(self, look: Observed, unowned: str | None) -> list[AnyRunEvent]:
        """Say that the gate was shut or opened, or is shut for another reason."""
        gated = self._options.gated
        unhealthy = gate(self._options, look.seen, self.run.tracks) if gated else None
        self._while_shut.unhealthy = unhealthy is not None
        reason = unhealthy or unowned
        now = Gate(shut=reason is not None, reason=reason or "")
        return [] if now == self.run.gate else [now]

    # --------------------------------------------------------------- deciding

    @property
    def cancels_due(self) -> Collection[TopicPartition]:
        """The partitions whose steps are to be cancelled now, ahead of all else."""
        return self._flights.cancels_due

    def judge_cancels(self, look: Observed) -> list[AnyRunEvent]:
        """Return the cancels that a read made for them allows, and why others are not sent."""
        events = self._flights.judge_cancels(look)
        self._cancelled = self._cancelled or any(isinstance(event, Cancel) for event in events)
        return events

    def decide(self, *, may_look_again: bool = True, resting: Resting = NONE_RESTS) -> Turn:
        """Give what to send, by the last look and the limits in force now.

        Args:
            may_look_again: whether there is time for another look, if something is to begin that
                the last one did not show; otherwise it does not begin in this turn.
            resting: topics and brokers that no throttle can be set on now, each with why.
        """
        decision, held = self._with_throttles(resting)
        unseen = {move.tp for move in decision.moves} - self._looked_at
        self._watched |= unseen
        if unseen and may_look_again:
            return Turn(look_again=True, intents=tuple(held))
        decision = self._what_may_go(decision)
        situations = {move.tp: self._roster.situation(move.tp) for move in decision.moves}
        decided = turn(decision, situations, self._flights.take_elections(), held)
        if decided.decision is not None:
            self._roster.submitted(decision)
        self._quick = self._about_to_end(decided)
        return decided

    def _with_throttles(self, resting: Resting) -> tuple[Decision, list[AnyRunEvent]]:
        """Decide without those whose throttle cannot be set now: they keep no place from others.

        Returns:
            The decision, and why each partition is held that was not held before.
        """
        if resting.keys() != self._resting:
            self._resting = frozenset(resting)
            self._memory.release_all(Hold.THROTTLE, lambda _tp: True)
        held: list[AnyRunEvent] = []
        while True:
            decision = self._decision()
            waits = {move.tp: why for move in decision.moves if (why := self._why(move, resting))}
            if not waits:
                return decision, held
            for tp, why in waits.items():
                track = self.run.tracks[tp]
                self._memory.hold(tp, Hold.THROTTLE)
                state = called_off(State.BLOCKED, track.cancel)
                held += [] if track.reason == why else [now_in(track, state, why)]

    def _why(self, move: Move, resting: Resting) -> str | None:
        """Return why the throttle of a step cannot be set now; None where it can."""
        leaders = self._options.throttle_leaders
        need = needed(move, self.seen.partitions, leaders=leaders) & resting.keys()
        return next((f"its throttle cannot be set: {resting[r]}" for r in sorted(need)), None)

    def _what_may_go(self, decision: Decision) -> Decision:
        """Leave out of a decision what may not be sent now; fewer are within the limits, too."""
        held = self._outcomes.resting(self._at_s) | self.run.throttled.partitions
        certain = self._waiting.certain - held

        def may_go(move: Move) -> bool:
            known = move.tp in certain and move.tp not in self._memory.unanswered
            return known and not self._leaving.any(move.step.adds)

        return decision.only(may_go)

    def _decision(self) -> Decision:
        run = self.run
        shut = bool(run.pauses.whole) or run.gate.shut or run.cancel_gate.shut
        shut = shut or self._deadline.passed(self._at)
        if shut and not run.called_off:
            return Decision(self._roster.batch)
        self._while_shut.apply(shut=shut)
        decision = decide_steps(self._roster, self._others)
        while self._deadline.hold_late(decision, self._at):
            decision = decide_steps(self._roster, self._others)
        return decision.only(self._while_shut.may_go) if shut else decision

    def _about_to_end(self, decided: Turn) -> bool:
        """Whether the next look comes soon: what removes or elects is over at once, mostly."""
        at_once = any(sending.request is Request.ELECT for sending in decided.sendings)
        at_once, self._cancelled = at_once or self._cancelled, False
        return at_once or any_ends_soon(self._memory, self._at, self._options.poll_s)

    def answered(
        self, request: Request, results: Mapping[TopicPartition, WriteResult]
    ) -> list[AnyRunEvent]:
        """Take in what came back for one request."""
        return self._outcomes.answered(request, results, self._at_s)

    # --------------------------------------------------------------- commands

    def set_limits(self, limits: Limits) -> None:
        """Put other limits in force for the next decision; what is in flight stays as it is."""
        self._roster.set_limits(limits)

    def call_off(self, partitions: Iterable[TopicPartition]) -> list[AnyRunEvent]:
        """Carry out that operators called partitions off, as the run was just told.

        What is in flight is cancelled with the next requests that are sent, before all others.
        """
        events, unseen = call_off(partitions, self._memory, self._flights)
        self._watched |= unseen
        self.apply_pauses()
        return events

    def join(self, partitions: Collection[TopicPartition]) -> list[AnyRunEvent]:
        """Queue partitions that an extra plan brought, as the run was just told."""
        events = join(partitions, self._memory, self._look)
        self._watched |= set(partitions)
        self.apply_pauses()
        return events

    def awaits_answer(self, tp: TopicPartition) -> bool:
        """Whether something that was sent for a partition may come yet."""
        return tp in self._memory.unanswered

    @property
    def silent_brokers(self) -> set[int]:
        """The brokers that have answered nothing since they got a request of the run."""
        return self._memory.unanswered.silent

    def _open_requests(self) -> tuple[OpenRequest, ...]:
        """Return what was not answered, and may take effect after the end."""
        unanswered = self._memory.unanswered
        return tuple(
            OpenRequest(topic=tp.topic, partition=tp.partition, node=unanswered.node(tp))
            for tp in sorted(unanswered)
        )

    def apply_pauses(self) -> None:
        """Hold the topics and partitions that are paused by now, and let the others go on."""
        self._memory.release_all(Hold.PAUSED, lambda tp: not self.run.pauses.holds(tp))
        if self.run.pauses.topics or self.run.pauses.partitions:
            for tp in self.run.tracks:
                if self.run.pauses.holds(tp):
                    self._memory.hold(tp, Hold.PAUSED)

    def end(self) -> list[AnyRunEvent]:
        """Give the end of the run, or the pause for want of time, once either has come."""
        if self.run.over == len(self.run.tracks):
            if self.run.additions.waiting or not self.run.throttled.clean:
                return []
            counts = {state: n for state, n in self.run.counts.items() if n}
            return [Ended(counts=counts, open=self._open_requests())]
        if self.run.pauses.whole or self.run.called_off:
            return []
        left = len(self.run.tracks) - self.run.over
        if self._deadline.passed(self._at):
            words = f"the time given with --until has come, with {as_count(left, 'partition')} left"
        elif self._deadline.nothing_more_fits:
            words = f"none of the {left:,} left is expected to end by then"
        else:
            return []
        return [Paused(by=By.UNTIL, reason=words)]
