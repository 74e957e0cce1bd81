"""When an engine leaves a run that Kafka goes on with alone."""

from __future__ import annotations

from collections.abc import Callable

from ktui.cluster.clock import Clock
from ktui.cluster.observation import Observation
from ktui.execution.run.run import Run

LeaveWhen = Callable[[Run, Observation], str | None]
"""Returns, from a run and its last poll, why to leave it after a turn; None to go on."""

STUCK_S = 10.0
"""Seconds after which nothing more is expected: longer than a throttle takes to be in force."""


def never(_run: Run, _seen: Observation) -> str | None:
    """Return None: the engine carries the run on to its end."""
    return None


class Submitted:
    """Leave once every partition has begun. The last ones go on without the engine (KIP-1335).

    A partition that cannot begin is waited for while others are in flight under the limits, and
    then for `STUCK_S` more.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left: int | None = None
        self._since_s = 0.0

    def __call__(self, run: Run, _seen: Observation) -> str | None:
        """Return why the run is to be left now; None to go on."""
        tracks = run.tracks.values()
        left = sum(not track.under_way and not track.state.ended for track in tracks)
        left += len(run.additions.waiting)  # their earlier move is being cancelled
        if not left:
            return "all of its partitions are submitted"
        limited = run.limits.partitions is not None and run.in_flight > 0
        now_s = self._clock.monotonic()
        if left != self._left or limited:
            self._left, self._since_s = left, now_s
        if now_s - self._since_s >= STUCK_S:
            return f"{left:,} of its partitions cannot be submitted"
        return None


class Settled:
    """Leave once the outcome of each step that Kafka has completed is known.

    After `STUCK_S` the rest is left for another time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_s = clock.monotonic()

    def __call__(self, run: Run, seen: Observation) -> str | None:
        """Return why the run is to be left now; None to go on."""
        listed = seen.reassigning
        waits = run.cancelling or run.additions.waiting
        if not waits and all(tp in listed for tp in run.tracks_in_flight):
            return "what is in flight goes on without it"
        if self._clock.monotonic() - self._since_s >= STUCK_S:
            return "not all outcomes are known yet"
        return None
