"""Stalled steps in flight, and brokers that have been away for too long."""

from __future__ import annotations

from ktui.execution.engine.observed import Observed
from ktui.execution.engine.working_state import WorkingState
from ktui.execution.run.options import OnStall, RunOptions
from ktui.execution.run.track import Track
from ktui.progress.poll import RESTART_S
from ktui.progress.timeline import Cause, Stall, StallKind


class Stalls:
    """Finds out from polls which steps in flight are stalled."""

    def __init__(self, memory: WorkingState, options: RunOptions) -> None:
        self._memory = memory
        self._options = options
        self._down_since: dict[int, float] = {}
        self._now_s = 0.0

    def look(self, observed: Observed) -> None:
        """Record since when each broker is down for which a step in flight may wait."""
        now_s = observed.seen.monotonic_s
        if now_s - self._now_s > RESTART_S:
            self._down_since = {}  # brokers that were down before may have been up meanwhile
        self._now_s = now_s
        states = (observed.state(tp) for tp in self._memory.roster.in_flight)
        down = {b for state in states if state for b in state.replicas} - observed.online
        self._down_since = {b: self._down_since.get(b, now_s) for b in down}

    def of(self, track: Track) -> Stall | None:
        """Return the stall of a step; None while the step makes progress."""
        timeline = self._memory.progress.timelines.get(track.tp)
        stall = None if timeline is None else timeline.stall
        return stall if stall is not None and stall.kind is StallKind.STALLED else None

    def past_patience(self, stall: Stall) -> str | None:
        """Return why a stalled step is to be cancelled; None while the run waits for it.

        Only `--on-stall cancel` has it cancelled.
        """
        since_s, timeout_s = self._down_since.get(stall.broker), self._options.stall_timeout_s
        if (
            self._options.on_stall is OnStall.CANCEL
            and stall.cause in {Cause.TARGET_DOWN, Cause.KEPT_OUT_OF_SYNC}
            and since_s is not None
            and self._now_s - since_s >= timeout_s
        ):
            return f"broker {stall.broker} offline for {timeout_s:.0f} s"
        return None
