"""The context of a drawn row: what its words and place depend on beside its own timeline."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from ktui.cluster.broker import TopicConfig
from ktui.cluster.observation import Observation
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.track import Track
from ktui.progress.timeline import Phase, Timeline
from ktui.tui.draw.cells import CANCEL_SIGNS, SignAt, WaitedSpan
from ktui.tui.run_view.rows import MovedElsewhere, RunRows
from ktui.tui.screens.watch.words import HealthWords, health_words, reported_by_run


class RowContext(msgspec.Struct, frozen=True):
    """The data that a row's words depend on beyond its own timeline."""

    now_s: float
    """Monotonic second of the last observation."""
    configs: Mapping[str, TopicConfig] = msgspec.field(default_factory=dict)
    """Configs by topic, where they are known."""
    down: frozenset[int] = frozenset()
    """Brokers that are down: none of them leads."""
    health_first: bool = False
    """Whether a partition's health matters more than the fact that its move has ended."""
    run: RunRows | None = None
    """The run that the view is attached to."""
    run_began_s: float = 0.0
    """Monotonic second at which that run started."""

    def track(self, timeline: Timeline) -> Track | None:
        """Return the run's track of the partition; None if the run does not report on it."""
        if self.elsewhere(timeline) is not None:
            return None
        track = None if self.run is None else self.run.track(timeline.tp)
        return track if track is not None and reported_by_run(track, timeline) else None

    def elsewhere(self, timeline: Timeline) -> MovedElsewhere | None:
        """Return the other run that moves the partition, now that the one shown has ended."""
        return None if self.run is None else self.run.elsewhere.get(timeline.tp)

    def stalled_s(self, track: Track) -> float | None:
        """Return the monotonic second since which the run reports a step as stalled."""
        if track.state is not State.STALLED or track.since is None:
            return None
        return self._second_of(track.since)

    def cancel_sign(self, track: Track) -> SignAt | None:
        """Return the sign for the moment at which an operator cancelled a partition of the run.

        For a partition that had not begun, a rollback is a stop, too.
        """
        asked_at = None if self.run is None else self.run.cancelled_at.get(track.tp)
        at_s = None if asked_at is None else self._second_of(asked_at)
        if at_s is None or track.cancel is None:
            return None
        kind = track.cancel if track.begun else CancelKind.STOP
        return SignAt(at_s, CANCEL_SIGNS[kind])

    def waiting(self, track: Track) -> WaitedSpan:
        """Return the span for which a partition of the run has waited for its first step.

        A partition that ended without any step has waited until it ended.
        """
        steps_taken = () if self.run is None else self.run.steps_taken(track.tp)
        over_at = track.since if track.state.ended else None
        until_at = steps_taken[0].at if steps_taken else over_at
        return WaitedSpan(self.run_began_s, None if until_at is None else self._second_of(until_at))

    def _second_of(self, at: datetime) -> float | None:
        """Convert a time in the run's journal to a monotonic second."""
        began_at = None if self.run is None else self.run.run.started_at
        return None if began_at is None else self.run_began_s + (at - began_at).total_seconds()

    def health(self, timeline: Timeline) -> HealthWords:
        """Return a partition's health in words, apart from any move."""
        return health_words(timeline.state, self.configs.get(timeline.tp.topic))

    def shows_health(self, timeline: Timeline, condition: HealthWords) -> bool:
        """Return whether a partition's state column shows its health, and not its move."""
        if timeline.phase is Phase.TOPIC_GONE:
            return False
        if self.track(timeline) is not None:
            return condition.offline
        if timeline.phase.ended or timeline.phase is Phase.SETTLING:
            return self.health_first and condition.unhealthy
        return timeline.phase is Phase.SETTLED or condition.offline


def build_row_context(
    seen: Observation | None, run: RunRows | None, *, health_first: bool
) -> RowContext:
    """Build the context from the last observation and the run that the view is attached to."""
    if seen is None:
        return RowContext(0.0)
    began_at = None if run is None else run.run.started_at
    run_age_s = 0.0 if began_at is None else (seen.at - began_at).total_seconds()
    return RowContext(
        seen.monotonic_s,
        seen.topic_configs,
        seen.down,
        health_first,
        run=run,
        run_began_s=seen.monotonic_s - run_age_s,
    )
