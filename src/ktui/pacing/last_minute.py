"""How many steps raised a leader epoch within the last minute."""

from __future__ import annotations

from collections import deque

import msgspec

from ktui.pacing.situation import Step

MINUTE_S = 60.0


class LastMinute(msgspec.Struct):
    """Counts what happened within the last minute, by any clock in seconds.

    A clock that is set back lets what it had passed count for a minute at most.
    """

    happened: deque[tuple[float, int]] = msgspec.field(default_factory=deque)
    """The times, each with how often it happened then; those of the last minute at least."""

    def add(self, at_s: float, count: int = 1) -> None:
        """Count what happens now."""
        while self.happened and not _recent(self.happened[0][0], at_s):
            self.happened.popleft()
        if self.happened and self.happened[-1][0] == at_s:
            count += self.happened.pop()[1]
        self.happened.append((at_s, count))

    def count(self, now_s: float) -> int:
        """Return how many happened within the minute before now."""
        return sum(count for at_s, count in self.happened if _recent(at_s, now_s))

    def next_end_s(self, now_s: float) -> float | None:
        """Return when the earliest of them leaves the minute; None where there is none."""
        ends = (at_s + MINUTE_S for at_s, _ in self.happened if _recent(at_s, now_s))
        return min(ends, default=None)


def _recent(at_s: float, now_s: float) -> bool:
    return abs(now_s - at_s) < MINUTE_S


def raises_epoch(step: Step) -> bool:
    """Whether a step raises the leader epoch: it removes a replica, or elects a leader.

    A cut counts even where it only puts replicas in order: it ends the partition's reassignment.
    """
    return bool(step.drops) or step.cut or step.moves_leader or step.elects is not None
