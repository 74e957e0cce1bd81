"""When an engine leaves a run that Kafka goes on with alone."""

from __future__ import annotations

import enum
from collections.abc import Callable

from ktui.cluster.clock import Clock
from ktui.cluster.observation import Observation
from ktui.execution.run.events import PauseOrigin
from ktui.execution.run.run import Run
from ktui.execution.run.track import Track


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
