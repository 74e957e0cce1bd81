"""The `--until` deadline: no step is submitted that is not expected to end by then."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ktui.cluster.partition import TopicPartition
from ktui.execution.engine.working_state import Hold, WorkingState
from ktui.execution.run.events import AnyRunEvent
from ktui.execution.run.pace import Pace
from ktui.insights.prior import Prior
from ktui.pacing.decision import Decision

FASTER = 1.1
"""Factor by which the pace has to rise before partitions held as too late are judged again."""


class Deadline:
    """Holds partitions that would end too late, until the run turns out to be faster.

    Every call takes the time of the last poll.
    """

    def __init__(self, memory: WorkingState, prior: Prior | None = None) -> None:
        self._memory = memory
        self._run = memory.run
        self._pace = Pace(prior)
        self._held_at_bytes_s = self._pace.bytes_s
        """The lowest pace at which a partition was held since the held ones were last judged."""
        self._throttle = self._run.throttled.rates
        """The throttle under which the held partitions were last judged."""

    def learn(self, events: Iterable[AnyRunEvent], now: datetime) -> None:
        """Learn from steps that ended. Call this before the run applies those events."""
        self._pace.learn(events, self._run, now)
        throttle = self._run.throttled.rates
        if throttle != self._throttle or self._pace.bytes_s >= FASTER * self._held_at_bytes_s:
            self._throttle, self._held_at_bytes_s = throttle, self._pace.bytes_s
            self._memory.release_all(Hold.TOO_LATE, lambda tp: not self._too_late(tp, now))

    def hold_late(self, decision: Decision, now: datetime) -> bool:
        """Hold the partitions of a decision that would end too late; return whether there are any.

        A partition begins only if all of its steps fit. It goes on as long as its next step fits. A
        partition that an operator has called off goes on in any case.
        """
        late = [move.tp for move in decision.moves if self._too_late(move.tp, now)]
        for tp in late:
            self._memory.hold(tp, Hold.TOO_LATE)
            self._held_at_bytes_s = min(self._held_at_bytes_s, self._pace.bytes_s)
        return bool(late)

    def passed(self, now: datetime) -> bool:
        """Whether the deadline has come: nothing is submitted any more."""
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
