"""What keeps new steps back, such as health or a deadline, and when an engine leaves its run."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Container, Iterable
from datetime import datetime
from math import inf
from typing import NamedTuple

from ktui.cluster.clock import Clock
from ktui.cluster.errors import Operation
from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.execution.engine.working_state import Hold, WorkingState
from ktui.execution.run.events import AnyRunEvent, Paused, PauseOrigin, StateEntered
from ktui.execution.run.options import RunOptions
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.execution.time_left.forecast import TimeLeftForecast, TimeNeeded
from ktui.pacing.situation import Decision, Move
from ktui.progress.memory import Health, health
from ktui.quantities import as_count

_LOST = {
    State.FAILED: "has failed",
    State.CHANGED_ELSEWHERE: "was changed by someone else",
    State.TOPIC_GONE: "was deleted with its topic",
}

SEVERAL = 3  # as many cancels by others, within a few polls, pause the run
TOGETHER_S, TOGETHER_POLLS = 5.0, 3  # cancels by others count together; the longer one applies

FASTER = 1.1
"""Factor by which copies have to be faster before partitions held as too late are judged again.

With less, each poll would judge thousands of them again; with more, some would begin later.
"""


class _Rates(NamedTuple):
    """How fast copies are at a moment."""

    bytes_s: float  # by themselves, onto all brokers
    in_flight: int  # those that share brokers

    def faster_than(self, before: _Rates) -> bool:
        """Whether copies are so much faster, or so many fewer, that it is worth judging again."""
        fewer = FASTER * self.in_flight <= before.in_flight
        return fewer or self.bytes_s >= FASTER * before.bytes_s


def closed_gate_reason(
    options: RunOptions, seen: Observation, ours: Container[TopicPartition]
) -> str | None:
    """Return why no step may begin, by others' partitions; offline is under min ISR."""
    if seen.census is None:
        return "the health of the cluster is not known yet"
    if options.most_under_min_isr is not None and (topic := _unjudged(seen, ours)):
        return f"min.insync.replicas of topic {topic} is not known yet"
    offline, under = _counted(seen, ours)
    for count, most, what in (
        (offline, options.most_offline, "offline"),
        (offline + under, options.most_under_min_isr, "under min ISR"),
    ):
        if most is not None and count > most:
            are = "partition outside the run is" if count == 1 else "partitions outside the run are"
            return f"{count:,} {are} {what}, more than the {most:,} allowed"
    return None


def _unjudged(seen: Observation, ours: Container[TopicPartition]) -> str | None:
    denied = {f.topic for f in seen.failures if f.operation is Operation.TOPIC_CONFIGS and f.denied}
    known = seen.topic_configs.keys() | denied
    lacking = (
        tp.topic
        for tp, state in seen.partitions.items()
        if tp not in ours and health(state, None) is Health.UNDER_REPLICATED
    )
    return next((topic for topic in lacking if topic not in known), None)


def _counted(seen: Observation, ours: Container[TopicPartition]) -> tuple[int, int]:
    offline = under = 0
    for tp, state in seen.partitions.items():
        if tp not in ours:
            how = health(state, seen.topic_configs.get(tp.topic))
            offline += how is Health.OFFLINE
            under += how is Health.UNDER_MIN_ISR
    return offline, under


def pause_after_failure(events: Iterable[AnyRunEvent], run: Run) -> list[Paused]:
    """Pause a run in batches after a failure: KIP-1335's tool submits no more then."""
    if not run.limits.in_batches or PauseOrigin.FAILURE in run.pauses.whole:
        return []
    states = (event for event in events if isinstance(event, StateEntered))
    lost = next((event for event in states if _is_lost(event, run)), None)
    if lost is None or all(t.under_way or t.state.ended for t in run.tracks.values()):
        return []
    reason = f"{lost.tp} {_LOST[lost.state]}: the rest is not submitted"
    return [Paused(by=PauseOrigin.FAILURE, reason=reason)]


def _is_lost(event: StateEntered, run: Run) -> bool:
    track = run.tracks[event.tp]
    return event.state in _LOST and track.under_way and track.cancel is None


class CancelsByOthers:
    """Pauses a run whose steps others cancel: all of those in flight, or several of them.

    Somebody has an emergency, and the run must not begin the next steps against it. A step that
    was alone in flight counts as all of them. Cancels count together if they come within a few
    polls: they are seen one by one where metadata lags, or where they are sent one by one.

    A run of `ktui reassign` is not paused: it is submitted as a whole, and no engine is there to
    wait for an operator. Of its batches none follows (`pause_after_failure`).
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._began_s = -inf
        self._cancelled: set[TopicPartition] = set()
        self._uncancelled: set[TopicPartition] = set()  # in flight then, and cancelled by nobody

    def pause(
        self,
        cancelled: Collection[TopicPartition],
        in_flight: Iterable[Move],
        events: Iterable[AnyRunEvent],
        now_s: float,
    ) -> list[Paused]:
        """By this poll's cancels and its events, which the run has yet to apply."""
        if not cancelled or self._run.left_to_kafka:
            return []
        if now_s - self._began_s > max(TOGETHER_S, TOGETHER_POLLS * self._run.poll_s):
            self._began_s, self._cancelled = now_s, set()
            self._uncancelled = {move.tp for move in in_flight if move.step.alters}
        self._cancelled |= set(cancelled)
        self._uncancelled -= self._cancelled
        count = len(self._cancelled)
        if self._uncancelled and count < SEVERAL:
            return []
        over = {e.tp for e in events if isinstance(e, StateEntered) and e.state.ended}
        tracks = self._run.tracks.items()
        going = any(not track.state.ended and tp not in over for tp, track in tracks)
        if PauseOrigin.OTHERS in self._run.pauses.whole or not going:
            return []
        self._began_s = -inf
        which = f"{min(self._cancelled)}{f' and {count - 1:,} more' if count > 1 else ''}"
        steps = as_count(count, "step")
        every = "" if self._uncancelled else ", all that were in flight"
        fix = f"ktui continue {self._run.name} goes on with the rest"
        return [
            Paused(
                by=PauseOrigin.OTHERS, reason=f"others cancelled {steps}{every} ({which}). {fix}"
            )
        ]


class Deadline:
    """Holds what would end too late, until the run is faster; `forecast` knows the last poll."""

    def __init__(self, memory: WorkingState, forecast: TimeLeftForecast) -> None:
        self._memory = memory
        self._run = memory.run
        self._forecast = forecast
        self._held_at = _Rates(inf, 0)  # the slowest since the held ones were last judged
        self._throttle = self._run.throttled.in_force  # under which the held ones were last judged
        self._ends_by: datetime | None = None

    def learn(self, now: datetime) -> None:
        judged_by = self._throttle, self._ends_by
        self._throttle, self._ends_by = self._run.throttled.in_force, self._run.ends_by(now)
        changed = judged_by != (self._throttle, self._ends_by)
        if self._memory.held(Hold.TOO_LATE) and (changed or self._now.faster_than(self._held_at)):
            self._held_at, needed = self._now, self._forecast.time_needed()
            self._memory.release_all(Hold.TOO_LATE, lambda tp: not self._too_late(tp, now, needed))

    @property
    def _now(self) -> _Rates:
        return _Rates(self._forecast.together_bytes_s, len(self._run.tracks_in_flight))

    def hold_late(self, decision: Decision, now: datetime) -> bool:
        """Hold the partitions of a decision that would end too late; return whether there are any.

        A partition begins only if all of its steps fit. It goes on as long as its next step fits. A
        partition that an operator has called off goes on in any case.
        """
        if self._run.ends_by(now) is None:
            return False
        needed = self._forecast.time_needed()
        needed.beside(decision.moves)
        late = [move.tp for move in decision.moves if self._too_late(move.tp, now, needed)]
        for tp in late:
            self._memory.hold(tp, Hold.TOO_LATE)
        if late:
            held_at, now_at = self._held_at, self._now
            self._held_at = _Rates(
                min(held_at.bytes_s, now_at.bytes_s), max(held_at.in_flight, now_at.in_flight)
            )
        return bool(late)

    def passed(self, now: datetime) -> bool:
        return self._run.until is not None and now >= self._run.until

    @property
    def nothing_more_fits(self) -> bool:
        """Nothing fits before --until, or is in flight. A window comes again."""
        if self._run.until is None or self._ends_by != self._run.until:
            return False
        roster = self._memory.roster
        waits = roster.in_flight or roster.between or roster.ready or len(roster.queue)
        return bool(self._memory.held(Hold.TOO_LATE)) and not waits

    def _too_late(self, tp: TopicPartition, now: datetime, needed: TimeNeeded) -> bool:
        ends_by = self._run.ends_by(now)
        if ends_by is None or tp in self._run.cancelling:
            return False
        left_s = (ends_by - now).total_seconds()
        needed_s = needed.of(self._run.tracks[tp])
        return needed_s > left_s and self._waits_for_more(ends_by, needed_s)

    def _waits_for_more(self, ends_by: datetime, needed_s: float) -> bool:
        """No window is long enough for a move that takes longer."""
        hours = self._run.schedule.hours
        return ends_by == self._run.until or hours is None or needed_s <= hours.length_s


class CancelsOnly:
    """Lets cancelled partitions go on while the run is paused, or the cancel gate is shut.

    They go before all others. They do not wait for places that others hold: those others may not go
    on.
    """

    def __init__(self, memory: WorkingState) -> None:
        self._memory = memory
        self._run = memory.run
        self.unhealthy = False  # the cluster's health lets no new step begin

    def apply(self, *, shut: bool) -> None:
        roster = self._memory.roster
        self._memory.release_all(Hold.SHUT, lambda tp: not shut or self._is_cancelled(tp))
        if shut:
            for tp in (*roster.between, *roster.ready):
                if not self._is_cancelled(tp):
                    self._memory.hold(tp, Hold.SHUT)

    def may_go(self, move: Move) -> bool:
        """Bad health holds back only steps that add load, not those that reduce it."""
        return self._is_cancelled(move.tp) and not (self.unhealthy and move.step.adds)

    def _is_cancelled(self, tp: TopicPartition) -> bool:
        return tp in self._run.cancelling and not self._run.pauses.stops(tp)


class Leaving(enum.StrEnum):
    """When an engine leaves a run before its end."""

    SUBMITTED = "submitted"  # once every partition has begun
    SETTLED = "settled"
    """Once the outcome of all that Kafka has completed is known; nothing more begins."""


LeaveWhen = Callable[[Run, Observation | None], str | None]  # why to leave after a turn, if so

STUCK_S = 10.0  # then nothing more is expected: longer than a throttle takes to be in force

ENDING_PAUSES = (PauseOrigin.SIGNAL, PauseOrigin.UNTIL, PauseOrigin.FAILURE)
"""Only `resume` lifts them."""


def when_paused(run: Run, _seen: Observation | None) -> str | None:
    """Return which pause ends the process now; None to carry the run on, else to its end."""
    return None if run.in_flight else _ending_pause(run)


def _ending_pause(run: Run) -> str | None:
    if any(not run.pauses.stops(tp) for tp in run.cancelling):
        return None
    whole = run.pauses.whole
    reasons = (whole[by] or f"paused by {by.words}" for by in ENDING_PAUSES if by in whole)
    return next(reasons, None)


class LeaveSubmitted:
    """Leave once Kafka has every partition's move. It completes the last ones alone (KIP-1335).

    A partition that cannot begin, or whose request was not answered, is waited for while others are
    in flight under the limits, or an operator or the cluster's health holds all of them, and then
    for `STUCK_S` more.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left: int | None = None
        self._since_s = 0.0

    def __call__(self, run: Run, seen: Observation | None) -> str | None:
        paused = _ending_pause(run)
        if paused is not None or seen is None:
            return paused
        tracks = run.tracks.values()
        left = sum(not _is_with_kafka(track, seen) for track in tracks)
        left += len(run.additions.waiting)  # their earlier move is being cancelled
        if not left:
            return "all of its partitions are submitted"
        limited = run.limits.partitions is not None and run.in_flight > 0
        limited = limited or bool(run.pauses.whole) or run.cancel_gate.shut or run.gate.shut
        now_s = self._clock.monotonic()
        if left != self._left or limited:
            self._left, self._since_s = left, now_s
        if now_s - self._since_s >= STUCK_S:
            return f"{left:,} of its partitions cannot be submitted"
        return None


def _is_with_kafka(track: Track, seen: Observation) -> bool:
    """Nothing of a partition is left to submit: it has ended, or Kafka has its request."""
    if track.state.ended or track.step is None or not track.open_alter:
        return track.state.ended or track.step is not None
    state = seen.partitions.get(track.tp)
    return state is not None and state.reassigning and state.target == track.sent


class LeaveSettled:
    """Leave once the outcome of all that Kafka has completed is known, or after `STUCK_S`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_s = clock.monotonic()

    def __call__(self, run: Run, seen: Observation | None) -> str | None:
        is_over = run.over == len(run.tracks)
        waits = run.cancelling or run.additions.waiting or is_over
        known = seen is not None and run.tracks_in_flight.keys() <= seen.reassigning.keys()
        if known and not waits:
            goes_on = "what is in flight goes on without it"
            return goes_on if run.in_flight else "nothing of it is in flight"
        if self._clock.monotonic() - self._since_s < STUCK_S:
            return None
        return "its throttle is not put back yet" if is_over else "not all outcomes are known yet"
