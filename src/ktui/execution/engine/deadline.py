"""The time given with --until: no step that is not expected to end by then is submitted."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ktui.cluster.partition import TopicPartition
from ktui.execution.engine.working_state import Hold, Memory
from ktui.execution.run.events import AnyRunEvent
from ktui.execution.run.pace import Pace
from ktui.insights.prior import Prior
from ktui.pacing.decision import Decision

FASTER = 1.1
"""By so much the pace has to rise before those held as too late are gone through again."""


class Deadline:
    """Holds those that would end too late, and lets them go when the run turns out to be faster.

    Every call takes the time of the last look.
    """

    def __init__(self, memory: Memory, prior: Prior | None = None) -> None:
        self._memory = memory
        self._run = memory.run
        self._pace = Pace(prior)
        self._held_at_bytes_s = self._pace.bytes_s
        """The lowest pace at which one was held since they were last gone through."""
        self._throttle = self._run.throttled.rates
        """The one under which they were last gone through."""

    def learn(self, events: Iterable[AnyRunEvent], now: datetime) -> None:
        """Take in the steps that ended; the run has not been told of them yet."""
        self._pace.learn(events, self._run, now)
        throttle = self._run.throttled.rates
        if throttle != self._throttle or self._pace.bytes_s >= FASTER * self._held_at_bytes_s:
            self._throttle, self._held_at_bytes_s = throttle, self._pace.bytes_s
            self._memory.release_all(Hold.TOO_LATE, lambda tp: not self._too_late(tp, now))

    def hold_late(self, decision: Decision, now: datetime) -> bool:
        """Hold those of a decision that would not end in time; say if there are any.

        A partition begins only if all of it fits, and goes on as long as its next step does; what
        an operator has called off goes on in any case.
        """
        late = [move.tp for move in decision.moves if self._too_late(move.tp, now)]
        for tp in late:
            self._memory.hold(tp, Hold.TOO_LATE)
            self._held_at_bytes_s = min(self._held_at_bytes_s, self._pace.bytes_s)
        return bool(late)

    def passed(self, now: datetime) -> bool:
        """Whether the time has come: nothing is submitted any more."""
        return self._run.until is not None and now >= self._run.until

    @property
    def nothing_more_fits(self) -> bool:
        """Whether all that could be submitted would end too late, and nothing is in flight."""
        roster = self._memory.roster
        waits = roster.in_flight or roster.between or roster.ready or len(roster.queue)
        return bool(self._memory.held(Hold.TOO_LATE)) and not waits

    def _too_late(self, tp: TopicPartition, now: datetime) -> bool:
        if self._run.until is None or tp in self._run.called_off:
            return False
        left_s = (self._run.until - now).total_seconds()
        return self._pace.needed_s(self._run.tracks[tp], self._throttle) > left_s
