"""The time a partition is expected to take, by the copies of this run or of earlier ones."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from ktui.execution.run.events import AnyRunEvent, StepOver
from ktui.execution.run.run import Run
from ktui.execution.run.track import Track
from ktui.insights.prior import Prior
from ktui.planning.throttle_rates import ThrottleRates

ASSUMED_BYTES_S = 50e6
"""The assumed rate of one replica until one has been copied, if no earlier run is known."""
STEP_S = 3.0
"""Seconds a step takes beside copying, unless known: polls, and the election or the cut."""
_WEIGHT = 0.2
"""The weight of the latest step in the average."""
_SMALLEST_SAMPLE = 1_000_000
"""Bytes; smaller copies say nothing about a rate."""


class Pace(msgspec.Struct):
    """The average rate at which replicas of the run were copied, step by step."""

    bytes_s: float = ASSUMED_BYTES_S
    """Bytes a second of one replica."""
    step_s: float = STEP_S
    """Seconds a step takes beside copying."""
    known_bytes_s: float = 0.0
    """The rate that this run has shown, in bytes a second; 0 until then."""
    by_earlier_runs: bool = False
    """Whether earlier runs have shown the rate."""

    @classmethod
    def after(cls, prior: Prior | None) -> Pace:
        """Return the pace of a run that has none of its own yet.

        Args:
            prior: the rates of earlier runs on the cluster; None if there are none.
        """
        if prior is None:
            return cls()
        return cls(prior.replica_bytes_s.p50, prior.step_s, by_earlier_runs=True)

    @property
    def assumed(self) -> bool:
        """Whether the rate is assumed: neither this run nor an earlier one has shown one."""
        return not (self.by_earlier_runs or self.known_bytes_s)

    def learn(self, events: Iterable[AnyRunEvent], run: Run, now: datetime) -> None:
        """Learn from the steps that ended; call this before the run applies the events."""
        for event in events:
            if isinstance(event, StepOver) and event.reached:
                track = run.tracks[event.tp]
                step = track.step
                if step is not None and step.begun.adding:
                    self.learn_step(track.planned.size, (now - step.at).total_seconds())

    def learn_step(self, size: int, took_s: float) -> None:
        """Learn from a step that copied replicas of `size` bytes in `took_s` seconds."""
        if size >= _SMALLEST_SAMPLE:
            weight = _WEIGHT if self.known_bytes_s else 1.0
            self.bytes_s += weight * (size / max(0.001, took_s) - self.bytes_s)
            self.known_bytes_s = self.bytes_s

    def needed_s(self, track: Track, throttle: ThrottleRates) -> float:
        """Return the seconds that must be left for a partition's next step to be submitted.

        A partition begins only if its whole move fits, with one replica after another. It goes on
        as long as its next step fits. Replicas that are added at once are copied at once. No copy
        is expected to be faster than the throttle of its broker.
        """
        missing = [broker for broker in track.planned.target if broker not in track.replicas]
        copies_s = [track.planned.size / self._rate(throttle.of(broker)) for broker in missing]
        if track.begun:
            return self.step_s + max(copies_s, default=0.0)
        return sum(copies_s) + (len(copies_s) + 1) * self.step_s

    def _rate(self, throttle: int | None) -> float:
        return self.bytes_s if throttle is None else min(self.bytes_s, throttle)
