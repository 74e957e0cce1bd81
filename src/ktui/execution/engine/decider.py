"""The core of a run: turns observations into decisions. It awaits nothing and sends nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType

import msgspec

from ktui.cluster.broker import racks_of
from ktui.cluster.observation import Census, Observation
from ktui.cluster.observer import Interest
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigResource, WriteResult
from ktui.execution.engine.between_steps import (
    BetweenSteps,
    as_journaled,
    requeue_cancelled,
    requeue_joined,
    steps_to_restore,
)
from ktui.execution.engine.gates import (
    CancelsByOthers,
    CancelsOnly,
    Deadline,
    closed_gate_reason,
    pause_after_failure,
)
from ktui.execution.engine.in_flight import StepsInFlight, first_end_s
from ktui.execution.engine.observed import AbsentBrokers, Observed, SuspectedBrokers
from ktui.execution.engine.requests import Turn, build_turn
from ktui.execution.engine.working_state import AnswerHandler, Hold, WorkingState, state_event
from ktui.execution.run.events import (
    AnyRunEvent,
    Cancel,
    Ended,
    OpenRequest,
    Paused,
    PauseOrigin,
    Request,
    StepGate,
    StepOver,
)
from ktui.execution.run.options import NO_SCHEDULE
from ktui.execution.run.run import Run
from ktui.execution.run.states import State, state_when_cancelled
from ktui.execution.run.unanswered import LastHeard, always_heard
from ktui.execution.throttle.desired import Resources, throttle_resources
from ktui.execution.time_left.forecast import Promise
from ktui.insights import Prior
from ktui.pacing.choosing import decide_steps
from ktui.pacing.limits import Limits, Mode, Shape
from ktui.pacing.room import NOTHING_FOREIGN
from ktui.pacing.situation import Decision, Move
from ktui.progress.flows import Flows
from ktui.progress.fold import fold
from ktui.progress.timeline import Timeline
from ktui.quantities import as_count
from ktui.speed.shown import SpeedShown

BLOCKED_EVERY_S = 30.0
FEW_BLOCKED = 500  # as many blocked ones are in every poll; more of them only every 30 s
UnthrottleableReasons = Mapping[ConfigResource, str]
NONE_UNTHROTTLEABLE: UnthrottleableReasons = MappingProxyType({})
LEAST_AHEAD = 50  # without a limit P, twice as many queued partitions are polled at least
LONGEST_PAUSE_S = 10.0  # seconds between two polls while nothing may begin or is in flight
QUICK_S = 0.2  # the fewest seconds between two polls: a step is about to end


class Decider:
    """Carries a run on, by calls of `process_poll`, `decide` and `process_answer` in turn.

    A turn costs as much as is in flight and about to begin, not as much as the plan holds. The
    caller puts the returned events into the journal and then applies them to the run, at once.
    """

    def __init__(
        self, run: Run, prior: Prior | None = None, heard: LastHeard = always_heard
    ) -> None:
        self.run = run
        self._options = run.options
        self._memory = WorkingState(run, heard)
        self._roster = self._memory.roster
        self._steps = StepsInFlight(self._memory, self._options)
        self._between = BetweenSteps(self._memory, self._options)
        self._answers = AnswerHandler(self._memory)
        self._promise = Promise(run, prior)
        self._deadline = Deadline(self._memory, self._promise.forecast)
        self._cancels_only = CancelsOnly(self._memory)
        self._cancels_by_others = CancelsByOthers(run)
        self._suspected = SuspectedBrokers()
        self._absent = AbsentBrokers()
        self._others = NOTHING_FOREIGN
        self._observed: Observed | None = None
        self._polled_at, self._polled_s = datetime.max.replace(tzinfo=UTC), 0.0  # the last poll
        self._polled: set[TopicPartition] = set()
        self._to_poll: set[TopicPartition] = set()
        self._census: Census | None = None  # the last one whose unhealthy partitions were judged
        self._blocked_at_s = 0.0
        self._looked_in: tuple[object, ...] = ()
        self._looked_to = 0  # how far back in the queue was looked since the brokers changed
        self._unthrottleable: Resources = frozenset()
        self._nothing_due: tuple[object, ...] | None = None  # grounds of a decision without steps
        self._pause_s = run.poll_s
        self._cancelled = False
        self._restore()

    def _restore(self) -> None:
        tracks = [track for track in self.run.tracks.values() if not track.state.ended]
        self._to_poll = {track.tp for track in tracks}
        self._roster.add(map(as_journaled, tracks))
        self._roster.submitted(steps_to_restore(tracks, self.run.batch))
        self.apply_pauses()

    @property
    def interest(self) -> Interest:
        return Interest(
            partitions=frozenset(self._to_poll),
            fresh=True,
            unhealthy=self._options.gated,
            log_dirs=self._memory.cordons.to_read,
            health=self._options.urgent_first,
        )

    @property
    def next_batch(self) -> int:
        roster = self._roster
        goes_on = roster.limits.mode is Mode.WAVE and (
            roster.in_flight or roster.between or roster.ready
        )
        return self.run.batch if goes_on else self.run.batch + 1

    @property
    def has_polled(self) -> bool:
        return self._observed is not None

    @property
    def last_poll(self) -> Observation:
        """As it was taken in. Raises LookupError: there was none."""
        if self._observed is None:
            raise LookupError("the cluster was not polled yet")
        return self._observed.seen

    @property
    def timelines(self) -> Mapping[TopicPartition, Timeline]:
        return self._memory.progress.timelines

    @property
    def flows(self) -> Flows:
        return self._memory.progress.flows

    @property
    def speed_shown(self) -> SpeedShown | None:
        if self._observed is None:
            return None
        return self._promise.forecast.shown(self._polled_at, len(self._observed.seen.brokers))

    @property
    def pause_s(self) -> float:
        if self._steps.cancels_due:
            return 0.0
        if self._waits_for_schedule:
            return self._until_schedule_s
        return max(min(QUICK_S, self.run.poll_s), min(self._pause_s, self.run.poll_s))

    @property
    def waits_for_steps(self) -> bool:
        """Whether only the end of a step in flight brings the run on, and no passing of time."""
        roster, run, limits = self._roster, self.run, self._roster.limits
        if self._observed is None or not roster.in_flight:
            return False
        seen = self._observed.seen
        others = roster.between or roster.blocked or roster.stalled
        held = any(self._memory.held(why) for why in Hold)
        health = self._options.gated or self._options.urgent_first
        by_time = run.schedule != NO_SCHEDULE or run.gate.shut or health
        controlled = run.throttled.in_force or run.throttled.rates.objective is not None
        budget = limits.cuts_per_minute
        cuts_wait = budget is not None and roster.cuts_lately + len(roster.ready) >= budget
        trouble = len(seen.online) < len(seen.brokers) or self._steps.cancels_due
        return not (others or held or by_time or controlled or cuts_wait or trouble)

    @property
    def _waits_for_schedule(self) -> bool:
        run = self.run
        return run.gate.until is not None and not (run.tracks_in_flight or run.cancelling)

    @property
    def _until_schedule_s(self) -> float:
        begins_at = self.run.schedule.begins_at(self._polled_at)
        left_s = 0.0 if begins_at is None else (begins_at - self._polled_at).total_seconds()
        return max(self.run.poll_s, min(LONGEST_PAUSE_S, left_s))

    # --------------------------------------------------------------- polling

    def process_poll(
        self, seen: Observation, *, unowned: str | None = None, forbidden: str | None = None
    ) -> list[AnyRunEvent]:
        """`unowned` and `forbidden` (by --while) say why no new step may begin; None if one may."""
        self._absent.update(seen.online, seen.monotonic_s)
        self._memory.cordons.update(seen)
        self._observed = observed = self._in_terms_of_run(seen)
        self._polled_at, self._polled_s = seen.at, seen.monotonic_s
        self._follow(observed)
        self._suspected.update(observed)
        self._polled = self._to_poll
        events = self._steps.judge(observed)
        self._promise.learn(events, seen.at)
        self._deadline.learn(seen.at)
        events += self._cancels_by_others.pause(
            self._steps.cancelled_by_others,
            self._roster.in_flight.values(),
            events,
            seen.monotonic_s,
        )
        landed = {event.tp for event in events if isinstance(event, StepOver)}
        waiting = (tp for tp in self._to_poll - landed if tp in self._roster)
        events += self._between.judge(waiting, observed)
        self._between.certain |= landed
        events += pause_after_failure(events, self.run)
        events += self._gate(observed, unowned or forbidden)
        self._roster.set_racks({**self._roster.racks, **racks_of(seen.brokers.values())})
        self._others = observed.others(self._roster.in_flight, self._roster.racks)
        self._to_poll = self._next_to_poll(observed) | self._perhaps_urgent(seen.census)
        return events

    def keep_promise(self) -> list[AnyRunEvent]:
        """Return the rate for --by from now on; call it once the events of a poll are applied."""
        self._promise.update(self._polled_at, self.timelines)
        return [*self._promise.choose(self._polled_at)]

    def interpret(self, seen: Observation) -> Observed:
        """Settings that the read lacks are those of the last poll, as for the steps."""
        if self._observed is not None:
            known = {**self._observed.seen.topic_configs, **seen.topic_configs}
            seen = msgspec.structs.replace(seen, topic_configs=known)
        return self._in_terms_of_run(seen)

    def _in_terms_of_run(self, seen: Observation) -> Observed:
        whole = self._roster.limits.shape is Shape.WHOLE
        closed = self._memory.cordons.closed
        return Observed(seen, self._absent.restarting, closed, asks_kafka=whole)

    def _follow(self, observed: Observed) -> None:
        in_flight, before = self._roster.in_flight, self._memory.progress
        timelines = {tp: line for tp, line in before.timelines.items() if tp in in_flight}
        kept = msgspec.structs.replace(before, timelines=timelines, events=())
        self._memory.progress = fold(kept, observed.only(in_flight))

    def _next_to_poll(self, observed: Observed) -> set[TopicPartition]:
        roster = self._roster
        soon = [*roster.queue.first(self._ahead), *self._farther(observed)]
        to_poll = {*roster.in_flight, *roster.between, *roster.ready, *soon}
        held = (Hold.UNSEEN, Hold.UNANSWERED, Hold.THROTTLE)
        unseen = set[TopicPartition]().union(*map(self._memory.held, held))
        blocked_due = self._polled_s - self._blocked_at_s >= BLOCKED_EVERY_S
        if len(roster.blocked) + len(unseen) <= FEW_BLOCKED or blocked_due:
            self._blocked_at_s = self._polled_s
            to_poll |= roster.blocked.keys() | unseen
        return to_poll

    def _farther(self, observed: Observed) -> list[TopicPartition]:
        """Some of those far back, all in turn once brokers have changed: one may need less."""
        if observed.environment != self._looked_in:
            first = not self._looked_in  # the first poll shows all of them
            self._looked_to = len(self._roster.queue) if first else self._ahead
            self._looked_in = observed.environment
        found = self._roster.queue.first(self._ahead, after=self._looked_to)
        self._looked_to += len(found)
        return found

    def _perhaps_urgent(self, census: Census | None) -> set[TopicPartition]:
        """Queued ones that may be urgent by a census that was not judged yet."""
        if not self._options.urgent_first or census is None or census is self._census:
            return set()
        self._census, roster = census, self._roster
        return {
            tp
            for tp, in_sync in zip(census.unhealthy, census.in_sync or (), strict=False)
            if tp in roster.queue and in_sync < roster.situation(tp).safe_in_sync
        }

    @property
    def _ahead(self) -> int:
        """How many queued partitions are polled; others are once a decision takes them."""
        limits, in_flight = self._roster.limits, len(self._roster.in_flight)
        if limits.shape is Shape.WHOLE and limits.partitions is None:
            return len(self._roster.queue)
        return 2 * (max(LEAST_AHEAD, in_flight) if limits.partitions is None else limits.partitions)

    def _gate(self, observed: Observed, forbidden: str | None) -> list[AnyRunEvent]:
        gated = self._options.gated
        unhealthy = (
            closed_gate_reason(self._options, observed.seen, self.run.tracks) if gated else None
        )
        self._cancels_only.unhealthy = unhealthy is not None
        begins_at = self.run.schedule.begins_at(observed.seen.at)
        later = None if begins_at is None else self.run.schedule.reason(begins_at)
        reason = later or unhealthy or forbidden
        now = StepGate(shut=reason is not None, reason=reason or "", until=begins_at)
        return [] if now == self.run.gate else [now]

    # --------------------------------------------------------------- deciding

    @property
    def cancels_due(self) -> Collection[TopicPartition]:
        return self._steps.cancels_due

    def judge_cancels(self, observed: Observed) -> list[AnyRunEvent]:
        events = self._steps.judge_cancels(observed)
        self._cancelled = self._cancelled or any(isinstance(event, Cancel) for event in events)
        return events

    def decide(
        self,
        *,
        may_look_again: bool = True,
        unthrottleable: UnthrottleableReasons = NONE_UNTHROTTLEABLE,
    ) -> Turn:
        """Return what to send, by the last poll and the limits now in force.

        `may_look_again`: there is time for another poll if a partition is to begin that the last
        one did not show; otherwise that partition does not begin in this turn.
        """
        decision, held = self._with_throttles(unthrottleable)
        not_polled = {move.tp for move in decision.moves} - self._polled
        self._to_poll |= not_polled
        if not_polled and may_look_again:
            return Turn(look_again=True, intents=tuple(held))
        decision = self._allowed(decision)
        situations = {move.tp: self._roster.situation(move.tp) for move in decision.moves}
        decided = build_turn(decision, situations, self._steps.take_elections(), held)
        if decided.decision is not None:
            self._roster.submitted(decision)
        self._pause_s = self._until_step_ends(decided)
        return decided

    def _with_throttles(
        self, unthrottleable: UnthrottleableReasons
    ) -> tuple[Decision, list[AnyRunEvent]]:
        """Decide without what cannot be throttled; also return why it is newly held."""
        if unthrottleable.keys() != self._unthrottleable:
            self._unthrottleable = frozenset(unthrottleable)
            self._memory.release_all(Hold.THROTTLE, lambda _tp: True)
        held: list[AnyRunEvent] = []
        while True:
            decision = self._decision()
            reasons = {
                move.tp: why
                for move in decision.moves
                if (why := self._no_throttle_reason(move, unthrottleable))
            }
            if not reasons:
                return decision, held
            for tp, why in reasons.items():
                track = self.run.tracks[tp]
                self._memory.hold(tp, Hold.THROTTLE)
                state = state_when_cancelled(State.BLOCKED, track.cancel)
                held += [] if track.reason == why else [state_event(track, state, why)]

    def _no_throttle_reason(self, move: Move, unthrottleable: UnthrottleableReasons) -> str | None:
        leaders = self._options.throttle_leaders
        needed = throttle_resources(move, self.last_poll.partitions, leaders=leaders)
        reasons = (unthrottleable[each] for each in sorted(needed & unthrottleable.keys()))
        return next((f"its throttle cannot be set: {reason}" for reason in reasons), None)

    def _allowed(self, decision: Decision) -> Decision:
        held = self._answers.backing_off(self._polled_s) | self.run.throttled.partitions
        certain = self._between.certain - held

        def may_go(move: Move) -> bool:
            known = move.tp in certain and move.tp not in self._memory.unanswered
            return known and not self._suspected.any(move.step.adds)

        return decision.only(may_go)

    def _decision(self) -> Decision:
        run = self.run
        shut = bool(run.pauses.whole) or run.gate.shut or run.cancel_gate.shut
        shut = shut or self._deadline.passed(self._polled_at)
        shut = shut or run.schedule.begins_at(self._polled_at) is not None  # changed since the poll
        if shut and not run.cancelling:
            return Decision(self._roster.batch)
        self._cancels_only.apply(shut=shut)
        self._roster.cuts_lately = run.cuts.count(self._polled_at.timestamp())
        if self._nothing_due == self._grounds:
            return Decision(self._roster.batch)
        decision = decide_steps(self._roster, self._others)
        while self._deadline.hold_late(decision, self._polled_at):
            decision = decide_steps(self._roster, self._others)
        self._nothing_due = None if any(decision.moves) else self._grounds
        return decision.only(self._cancels_only.may_go) if shut else decision

    @property
    def _grounds(self) -> tuple[object, ...]:
        roster = self._roster
        return roster.changes, roster.cuts_lately, roster.batch, self._others

    def _until_step_ends(self, decided: Turn) -> float:
        """Until a step may be over: elections and cancels mostly are at once."""
        at_once = any(sending.request is Request.ELECT for sending in decided.sendings)
        at_once, self._cancelled = at_once or self._cancelled, False
        return 0.0 if at_once else first_end_s(self._memory, self._polled_at, self.run.poll_s)

    def process_answer(
        self, request: Request, results: Mapping[TopicPartition, WriteResult]
    ) -> list[AnyRunEvent]:
        events = self._answers.process_answer(request, results, self._polled_s)
        return [*events, *pause_after_failure(events, self.run)]

    # --------------------------------------------------------------- commands

    def set_limits(self, limits: Limits) -> None:
        """Steps in flight stay as they are."""
        self._roster.set_limits(limits)

    def cancel(self, partitions: Iterable[TopicPartition]) -> list[AnyRunEvent]:
        """The run has applied it; steps in flight are cancelled before all else."""
        events, not_polled = requeue_cancelled(partitions, self._memory, self._steps, self._polled)
        self._to_poll |= not_polled
        self.apply_pauses()
        return events

    def join(self, partitions: Collection[TopicPartition]) -> list[AnyRunEvent]:
        events = requeue_joined(partitions, self._memory, self._observed)
        self._to_poll |= set(partitions)
        self.apply_pauses()
        return events

    def has_open_request(self, tp: TopicPartition) -> bool:
        return tp in self._memory.unanswered

    @property
    def brokers(self) -> frozenset[int]:
        return frozenset(() if self._observed is None else self._observed.seen.brokers)

    @property
    def silent_brokers(self) -> set[int]:
        return self._memory.unanswered.silent

    def _open_requests(self) -> tuple[OpenRequest, ...]:
        unanswered = self._memory.unanswered
        return tuple(
            OpenRequest(tp.topic, tp.partition, unanswered.node(tp)) for tp in sorted(unanswered)
        )

    def apply_pauses(self) -> None:
        self._memory.release_all(Hold.PAUSED, lambda tp: not self.run.pauses.holds(tp))
        if self.run.pauses.topics or self.run.pauses.partitions:
            for tp in self.run.tracks:
                if self.run.pauses.holds(tp):
                    self._memory.hold(tp, Hold.PAUSED)

    def end(self) -> list[AnyRunEvent]:
        if self.run.over == len(self.run.tracks):
            if self.run.additions.waiting or not self.run.throttled.clean:
                return []
            counts = {state: n for state, n in self.run.counts.items() if n}
            return [Ended(counts=counts, open=self._open_requests())]
        if self.run.pauses.whole or self.run.cancelling:
            return []
        left = len(self.run.tracks) - self.run.over
        if self._deadline.passed(self._polled_at):
            words = f"the time given with --until has come, with {as_count(left, 'partition')} left"
        elif self._deadline.nothing_more_fits:
            words = f"none of the {left:,} left is expected to end by the time given with --until"
        else:
            return []
        return [Paused(by=PauseOrigin.UNTIL, reason=words)]
