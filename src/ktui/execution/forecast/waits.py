"""Why a partition of a run waits, as text."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from ktui.cluster.broker import racks_of
from ktui.cluster.observation import Observation
from ktui.execution.engine.observed import Observed
from ktui.execution.run.options import local_minute
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.text import urgent_text
from ktui.execution.run.track import Track, is_queued, queue_rank
from ktui.execution.time_left.forecast import TimeNeeded
from ktui.execution.time_left.rest import expected_situation, wanted_after
from ktui.pacing.choosing import (
    WaitsFor,
    WaitsForCut,
    WaitsForLoneStep,
    WaitsForNextWave,
    WaitsForOthers,
    waiting_for,
)
from ktui.pacing.limits import FIELDS, Full
from ktui.pacing.queue import Precedence, Usage
from ktui.pacing.room import NOTHING_FOREIGN, WaitsToGoAlone
from ktui.pacing.roster import Roster
from ktui.pacing.situation import Decision, Racks, Situation, Step
from ktui.pacing.steps import next_steps
from ktui.quantities import as_count

BETWEEN = (State.QUEUED, State.READY, State.ROLLING_BACK, State.STOPPING)


class HeldBy(enum.StrEnum):
    """The cause that keeps a partition from its next step, whatever room the limits leave."""

    NO_ENGINE = "no engine"
    CLUSTER_LOST = "cluster lost"
    CANCEL_GATE_SHUT = "cancel gate shut"  # by an operator, for all of the cluster
    RUN_PAUSED = "run paused"
    GATE_SHUT = "health gate shut"
    TIME_UP = "time up"  # the time of --until has come
    PAUSED = "paused"  # by itself, or with its topic
    TOO_LATE = "too late"  # not expected to end by --until, or within the window
    TOO_LATE_AS_ASSUMED = "too late, as assumed"  # no copy has shown its rate yet


WaitCause = HeldBy | WaitsFor  # what holds it, or the limit without room
_ALONE, _CUT = "goes alone", "cut together"


class Waits:
    """Find why a partition waits; `between` have begun, and have no step in flight."""

    def __init__(
        self,
        run: Run,
        *,
        between: Iterable[Track],
        needed: TimeNeeded,
        seen: Observation | None,
        now: datetime,
        owned: bool,
    ) -> None:
        self._run = run
        self._between = between
        self._needed = needed
        self._observed = None if seen is None else Observed(seen)
        self._now = now
        self._owned = owned

    def of(self, track: Track) -> WaitCause | None:
        if track.step is not None or track.state not in BETWEEN:
            return None
        situation = self._situation(track)
        steps = next_steps(situation, self._run.limits)
        adds = bool(steps and steps[0].adds)
        return self._held(track, adds=adds) or self._waits(track, situation, steps)

    def _held(self, track: Track, *, adds: bool) -> HeldBy | None:
        """Fewer causes hold a cancelled partition than others."""
        run, onward = self._run, track.cancel is None
        holds = (
            (HeldBy.NO_ENGINE, not self._owned),
            (HeldBy.CLUSTER_LOST, run.outage is not None),
            (HeldBy.CANCEL_GATE_SHUT, run.cancel_gate.shut and onward),
            (HeldBy.RUN_PAUSED, bool(run.pauses.whole) and run.pauses.stops(track.tp)),
            (HeldBy.GATE_SHUT, run.gate.shut and (onward or adds)),
            (HeldBy.PAUSED, run.pauses.holds(track.tp)),
        )
        held = next((hold for hold, holds_it in holds if holds_it), None)
        return held or (self._late(track) if onward else None)

    def _late(self, track: Track) -> HeldBy | None:
        ends_by = self._run.ends_by(self._now)
        if ends_by is None:
            return None
        left_s = (ends_by - self._now).total_seconds()
        if left_s <= 0:
            return HeldBy.TIME_UP
        if self._needed.of(track) <= left_s:
            return None
        return HeldBy.TOO_LATE_AS_ASSUMED if self._needed.assumed else HeldBy.TOO_LATE

    def _waits(self, track: Track, situation: Situation, steps: Sequence[Step]) -> WaitsFor | None:
        if not steps:
            return None
        return waiting_for(
            self._roster,
            track.tp,
            situation,
            steps,
            self._others,
            urgent=track.urgency is not None,
            yields=self._goes_last(track) and self._others_wait,
        )

    def _goes_last(self, track: Track) -> bool:
        return queue_rank(track, self._run.limits)[0] is Precedence.INTERNAL_LAST

    @cached_property
    def _others_wait(self) -> bool:
        """Whether a partition waits to begin that goes before the last internal ones."""
        return any(
            is_queued(track) and not self._goes_last(track) and self._held(track, adds=True) is None
            for track in self._run.tracks.values()
        )

    def _situation(self, track: Track) -> Situation:
        """Prefer the polled state, if it has the same replicas as the run."""
        state = None if self._observed is None else self._observed.state(track.tp)
        if self._observed is not None and state is not None and state.replicas == track.replicas:
            seen = self._observed.situation(track, state)
            if seen is not None and not seen.reassigning:
                return seen
        return expected_situation(track)

    @cached_property
    def _others(self) -> Usage:
        if self._observed is None:
            return NOTHING_FOREIGN
        return self._observed.others(self._run.tracks_in_flight, self._racks)

    @cached_property
    def _racks(self) -> Racks:
        """Prefer those polled: brokers may have come since the start of the run."""
        seen = {} if self._observed is None else self._observed.seen.brokers
        return {**self._run.racks, **racks_of(seen.values())}

    @cached_property
    def _roster(self) -> Roster:
        """Those that have begun: the others take no room."""
        run = self._run
        roster = Roster(run.limits, urgent_first=run.options.urgent_first, racks=self._racks)
        roster.cuts_lately = run.cuts.count(self._now.timestamp())
        in_flight = list(run.open_steps)
        wanted = (wanted_after(track, track.planned.size) for track, _ in in_flight)
        roster.add(  # not done while their steps are in flight, whatever comes of them
            replace(
                one, situation=replace(one.situation, reassigning=True), begun=True, first=False
            )
            for one in wanted
        )
        moves = (step.begun.move for _, step in in_flight)
        roster.submitted(Decision(run.batch, steps=tuple(moves)))
        for track, _ in in_flight:
            roster.stall(track.tp, stalled=track.state is State.STALLED)
        between = (
            (t, wanted_after(t, t.planned.size)) for t in filter(self._may_go, self._between)
        )
        roster.add(replace(w, begun=True, urgent=t.urgency is not None) for t, w in between)
        return roster

    def _may_go(self, track: Track) -> bool:
        run = self._run
        if not (run.pauses.whole or run.gate.shut or run.cancel_gate.shut):
            return not run.pauses.holds(track.tp)
        return track.cancel is not None and not run.pauses.stops(track.tp)


def waiting_tracks(run: Run) -> list[Track]:
    """Return the partitions that have begun and wait for a step, then the next one to begin."""
    tracks = run.tracks.values()
    between = [t for t in tracks if t.under_way and t.step is None and t.state in BETWEEN]
    queued = (track for track in tracks if is_queued(track))
    following = min(queued, key=lambda track: queue_rank(track, run.limits), default=None)
    return between if following is None else [*between, following]


class WaitReason(NamedTuple):
    """Why a partition waits."""

    code: str  # for scripts: the cause of the wait, or the limit without room
    short: str  # for a cell
    sentence: str


def wait_reasons(
    run: Run, needed: TimeNeeded, now: datetime, *, owned: bool
) -> list[tuple[Track, WaitReason]]:
    """Return why begun partitions and the next one wait, by the journal alone."""
    tracks = waiting_tracks(run)
    waits = Waits(run, between=tracks, needed=needed, seen=None, now=now, owned=owned)
    causes = ((track, waits.of(track)) for track in tracks)
    return [(track, wait_reason(cause, run, track)) for track, cause in causes if cause is not None]


def wait_reason(cause: WaitCause, run: Run, track: Track) -> WaitReason:
    """Return why a partition of a run waits, as text, and why it is urgent if it is."""
    reason = _reason_in_turn(cause, run, track)
    if track.urgency is None:
        return reason
    urgent, sentence = urgent_text(track.urgency), reason.sentence
    if isinstance(cause, Full) and cause.among_urgent:
        sentence += " Only what urgent partitions have in flight counts for it."
    short, sentence = f"{urgent}; {reason.short}", f"It goes first ({urgent}). {sentence}"
    return WaitReason(reason.code, short, sentence)


def _reason_in_turn(  # noqa: PLR0911 - one for each cause
    cause: WaitCause, run: Run, track: Track
) -> WaitReason:
    match cause:
        case HeldBy():
            return _held_reason(cause, run)
        case Full():
            return _full_reason(cause, track)
        case WaitsForCut():
            return _cut_reason(cause, run)
        case WaitsForOthers():
            return WaitReason(
                "internal last",
                "internal: last",
                "It is of one of Kafka's own topics, which go last: it begins once no other"
                " partition waits to begin.",
            )
        case WaitsForNextWave():
            left = as_count(cause.left, "partition")
            have = "has" if cause.left == 1 else "have"
            return WaitReason(
                "next wave",
                f"wave {cause.wave:,}: {cause.left:,} left",
                f"It begins with the next wave: {left} of wave {cause.wave:,} {have} not ended.",
            )
        case WaitsForLoneStep():
            return WaitReason(
                _ALONE,
                f"{cause.tp} goes alone",
                f"The step of {cause.tp} can never fit the limits, and goes alone: nothing else"
                " is submitted until it is over.",
            )
        case WaitsToGoAlone():
            return _alone_reason(cause)


def _alone_reason(cause: WaitsToGoAlone) -> WaitReason:
    adds, letter = as_count(cause.adds, "replica"), FIELDS[cause.limit].letter
    own = "" if cause.broker is None else f" of broker {cause.broker}"
    return WaitReason(
        _ALONE,
        f"adds {cause.adds:,}, {letter}{own} is {cause.most:,}",
        f"Its next step adds {adds}, more than {letter}{own} ({cause.most:,}) ever lets: it goes"
        " alone, once nothing else is in flight.",
    )


def _held_reason(hold: HeldBy, run: Run) -> WaitReason:
    until, deadline = _deadline(run)
    if hold is HeldBy.NO_ENGINE and run.exported is not None:
        return WaitReason(
            hold.value,
            "the run was exported",
            f"The run was exported to {run.exported.file}, and goes on where that is imported.",
        )
    short, sentence = {
        HeldBy.NO_ENGINE: (
            "the run waits for resume",
            f"The run has no engine. ktui resume {run.name} starts one.",
        ),
        HeldBy.CLUSTER_LOST: (
            "the run has lost the cluster",
            "The run's engine has lost the cluster, and decides nothing meanwhile.",
        ),
        HeldBy.CANCEL_GATE_SHUT: (
            "the cancel gate is shut",
            f"The cancel gate is shut by {run.cancel_gate.reason}.",
        ),
        HeldBy.RUN_PAUSED: (
            "the run is paused",
            f"The run is paused: {run.pauses.reason}. Nothing new is submitted.",
        ),
        HeldBy.GATE_SHUT: (
            "the gate is shut"
            if run.gate.until is None
            else f"waits until {local_minute(run.gate.until)}",
            f"The gate is shut: {run.gate.reason}. It opens by itself."
            if run.gate.until is None
            else f"No step begins yet: {run.gate.reason}.",
        ),
        HeldBy.TIME_UP: (f"past {until}", f"It is past {deadline}: nothing more is submitted."),
        HeldBy.PAUSED: ("paused by the operator", "It is paused, or its topic, by the operator."),
        HeldBy.TOO_LATE: (f"would not end by {until}", f"It is not expected to end by {deadline}."),
        HeldBy.TOO_LATE_AS_ASSUMED: (
            f"would not end by {until}",
            f"It is not expected to end by {deadline}, as assumed: no copy has shown its rate.",
        ),
    }[hold]
    return WaitReason(hold.value, short, sentence)


def _deadline(run: Run) -> tuple[str, str]:
    window = run.schedule.window
    if run.until is None:
        return "the end of its window", f"the end of its window, {window}"
    until = f"{run.until.astimezone():%H:%M}"
    also = f", or the end of its window, {window}" if window else ""
    return until, f"{until}, the time given with --until{also}"


def _full_reason(full: Full, track: Track) -> WaitReason:
    code = full.limit.replace("_", "-")
    if full.among_internal:
        return WaitReason(
            code,
            "one internal leader at a time",
            "Its next step moves its leader, which coordinates groups or transactions: of these"
            " one moves at a time, and one is moving.",
        )
    if full.limit != "partitions":
        return WaitReason(code, *FIELDS[full.limit].why_full(full))
    goes_on, are = "goes on" if track.begun else "begins", "is" if full.used == 1 else "are"
    under_way = as_count(full.most, "partition")
    words = f"P lets {under_way} be under way, and {full.used:,} {are}: it {goes_on} when"
    short = f"{full.used:,} of {full.most:,} under way (P)"
    return WaitReason(code, short, f"{words} one of them has ended.")


def _cut_reason(cut: WaitsForCut, run: Run) -> WaitReason:
    left = len(run.tracks) - run.over
    if left < cut.together:
        are = "is" if cut.ready == 1 else "are"
        return WaitReason(
            _CUT,
            f"drop waits: {cut.ready:,} of {left:,} ready",
            f"It has all its new replicas. The {left:,} that are left are cut once nothing is"
            f" adding any more ({cut.ready:,} {are} ready by now).",
        )
    have = "does" if cut.ready == 1 else "do"
    return WaitReason(
        _CUT,
        f"drop waits: {cut.ready:,} of {cut.together:,} ready",
        f"It has all its new replicas. All that have them are cut together once {cut.together:,} do"
        f" ({cut.ready:,} {have} by now), or once nothing is adding any more.",
    )
