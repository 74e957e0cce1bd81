"""The use of the limits: by steps in flight, and by what was sent within the last minute."""

from __future__ import annotations

from collections import Counter, deque

import msgspec

from ktui.pacing.decision import Demand, Move, Place
from ktui.pacing.limits import COUNTED

MINUTE_S = 60.0


_COSTS = tuple((field, limit.costs) for field, limit in COUNTED if limit.costs is not None)


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


class Usage(msgspec.Struct):
    """How much of each limit is in use, by all partitions, by urgent ones alone, or by others."""

    places: int = 0
    """Partitions that hold a place under P."""
    steps_in_places: int = 0
    """Steps in flight that hold a place."""
    coordinators_moving: int = 0
    """Steps in flight that move the leader of an internal partition."""
    steps_adding: int = 0
    alone: int = 0
    """Steps in flight that no other step may join."""
    taken: dict[str, Counter[Place]] = msgspec.field(
        default_factory=lambda: {field: Counter[Place]() for field, _ in COUNTED}
    )
    """What the steps take of each limit, by its field and by where it is counted."""

    def count_place(self, move: Move, sign: int = 1) -> None:
        """Count a step in flight under P, and whether any other may join it."""
        self.steps_in_places += sign * move.holds_place
        self.alone += sign * move.alone

    def count(self, demand: Demand, sign: int = 1) -> None:
        """Count what a step in flight takes; with a sign of -1, one that is over."""
        self.coordinators_moving += sign * demand.moves_coordinator
        self.steps_adding += sign * bool(demand.adds)
        for field, costs in _COSTS:
            taken = self.taken[field]
            for place, many in costs(demand):
                taken[place] += sign * many

    @property
    def adding(self) -> int:
        """How many replicas are being added."""
        return self.taken["replica_movements"][None]
