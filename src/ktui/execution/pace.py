"""How long a partition is expected to take, by what the run has seen of others."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ktui.execution.events import Event, StepOver
from ktui.execution.run import Run, Track

ASSUMED_BYTES_S = 50e6
"""How fast one replica is copied, as long as none has been."""
STEP_S = 3.0
"""What a step takes beside copying: polls, and the election or the cut."""
_WEIGHT = 0.2
"""Of the latest step, in the average."""
_TELLING = 1_000_000
"""Bytes: smaller copies say nothing of a rate."""


class Pace:
    """The average rate at which replicas of the run were copied, step by step."""

    def __init__(self) -> None:
        self.bytes_s = ASSUMED_BYTES_S
        """Of one replica."""
        self._known = False

    def learn(self, events: Iterable[Event], run: Run, now: datetime) -> None:
        """Take in the steps that ended; the run has not been told of them yet."""
        for event in events:
            if isinstance(event, StepOver) and event.reached:
                track = run.tracks[event.tp]
                step, size = track.step, track.planned.size
                if step is not None and step.begun.adding and size >= _TELLING:
                    took_s = max(0.001, (now - step.at).total_seconds())
                    self._take(size / took_s)

    def expected_s(self, track: Track) -> float:
        """Give the seconds in which a partition goes all its way, one replica after another."""
        adds = _missing(track)
        return adds * self._copy_s(track) + (adds + 1) * STEP_S

    def step_s(self, track: Track) -> float:
        """Give the seconds of a partition's next step: it copies as long as a replica is missing.

        Replicas that are added at once are copied at once.
        """
        return STEP_S + (self._copy_s(track) if _missing(track) else 0.0)

    def _copy_s(self, track: Track) -> float:
        return track.planned.size / self.bytes_s

    def _take(self, bytes_s: float) -> None:
        weight = _WEIGHT if self._known else 1.0
        self.bytes_s += weight * (bytes_s - self.bytes_s)
        self._known = True


def _missing(track: Track) -> int:
    return sum(broker not in track.replicas for broker in track.planned.target)
