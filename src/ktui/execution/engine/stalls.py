"""Which steps in flight make no headway, and whose broker has been away for too long."""

from __future__ import annotations

from ktui.execution.engine.observed import Observed
from ktui.execution.engine.working_state import Memory
from ktui.execution.run.options import OnStall, RunOptions
from ktui.execution.run.track import Track
from ktui.progress.poll import RESTART_S
from ktui.progress.timeline import Cause, Stall, StallKind


class Stalls:
    """Tells how steps in flight are held up, by what the looks have shown."""

    def __init__(self, memory: Memory, options: RunOptions) -> None:
        self._memory = memory
        self._options = options
        self._down_since: dict[int, float] = {}
        self._now_s = 0.0

    def look(self, look: Observed) -> None:
        """Keep in mind since when each broker is down that a step in flight may wait for."""
        now_s = look.seen.monotonic_s
        if now_s - self._now_s > RESTART_S:
            self._down_since = {}  # who was seen down before may have been up meanwhile
        self._now_s = now_s
        states = (look.state(tp) for tp in self._memory.roster.in_flight)
        down = {b for state in states if state for b in state.replicas} - look.online
        self._down_since = {b: self._down_since.get(b, now_s) for b in down}

    def of(self, track: Track) -> Stall | None:
        """Say how a step makes no headway; None where it does."""
        timeline = self._memory.progress.timelines.get(track.tp)
        stall = None if timeline is None else timeline.stall
        return stall if stall is not None and stall.kind is StallKind.STALLED else None

    def past_patience(self, stall: Stall) -> str | None:
        """Say why a step is to be cancelled, where that was chosen; None while it is waited for."""
        since_s, timeout_s = self._down_since.get(stall.broker), self._options.stall_timeout_s
        if (
            self._options.on_stall is OnStall.CANCEL
            and stall.cause in {Cause.TARGET_DOWN, Cause.KEPT_OUT_OF_SYNC}
            and since_s is not None
            and self._now_s - since_s >= timeout_s
        ):
            return f"broker {stall.broker} offline for {timeout_s:.0f} s"
        return None
