"""Compute how long the rest of a run takes, by simulating it step by step with the run's pacing.

A simulation costs about 0.1 ms a step. Of many partitions, some stand for the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ktui.execution.run.run import Run
from ktui.execution.run.track import OpenStep, Track
from ktui.execution.time_left.broker_capacity import BrokerRates
from ktui.execution.time_left.copy_progress import CopyProgress
from ktui.execution.time_left.expected import expected_situation, situation_before
from ktui.pacing.decision import Decision, WantedPartition
from ktui.pacing.limits import Limits
from ktui.planning.simulate.both_ends import CopiesOfBothEnds, CopyLoad
from ktui.planning.simulate.schedule import (
    RestOfRun,
    StepInFlight,
    StepOverhead,
    simulate_rest_of_run,
)

_MOST = 200
"""The most partitions simulated one by one, of those in flight and of those that wait."""

_LONGEST_S = 10 * 365 * 86_400.0
"""The longest result, 10 years in seconds: a replica that hardly moves would take for ever."""


class Remaining(msgspec.Struct, frozen=True):
    """The seconds that are left."""

    copying_s: float
    """Seconds in which something is being copied: this part depends on the rate."""
    waiting_s: float
    """Seconds in which nothing is being copied."""

    @property
    def whole_s(self) -> float:
        """All seconds."""
        return self.copying_s + self.waiting_s


def simulate_remaining(
    run: Run, headway: CopyProgress, rates: BrokerRates, *, joining_s: int, grown: float
) -> Remaining:
    """Simulate the rest of a run.

    Of many waiting partitions every k-th is simulated, and the time until the last of these begins
    counts k times. Without a limit on partitions, each is simulated as if k times as large instead.
    Of many partitions in flight every k-th is simulated, also as if k times as large.

    Args:
        run: the whole run.
        headway: the progress of the copies in flight.
        rates: the rates at which brokers receive.
        joining_s: the seconds of a step that adds, beside copying.
        grown: the growth factor of waiting partitions since the start of the run.
    """
    in_flight, every = _thinned(_by_target(filter(goes_to_target, run.tracks_in_flight.values())))
    waiting = [
        t for t in run.tracks.values() if not (t.state.ended or t.tp in run.tracks_in_flight)
    ]
    begun = [track for track in waiting if track.under_way]
    fresh = [track for track in waiting if not track.under_way]
    simulated, _ = _thinned(fresh if _one_by_one(run.limits) else _by_target(fresh))
    queue, each = _Queue(simulated), _stand_for(simulated, fresh)
    larger, longer = (1.0, each) if _one_by_one(run.limits) else (each, 1.0)
    left = RestOfRun(
        [
            _in_flight(track, track.step, headway, every)
            for track in in_flight
            if track.step is not None
        ],
        [
            *(wanted_after(track, grown) for track in begun),
            *(wanted_after(track, grown * larger) for track in simulated),
        ],
    )
    beside = StepOverhead(joining_s, headway.other_s)
    copying = CopiesOfBothEnds(rates.of_copy, CopyLoad(rates.throttle.leaves_free))
    schedule = simulate_rest_of_run(left, run.limits, beside, copying, queue.on_decision)
    whole_s = schedule.copying_s + schedule.waiting_s
    stretched = 1 + queue.last_s * (longer - 1) / whole_s if whole_s else 1.0
    copying_s = min(_LONGEST_S, schedule.copying_s * stretched)
    return Remaining(copying_s, min(_LONGEST_S, schedule.waiting_s * stretched))


def _one_by_one(limits: Limits) -> bool:
    """Whether partitions begin as others end, so that the time is proportional to their number."""
    by_size = limits.bytes_in_flight is not None or limits.bytes_per_broker is not None
    return by_size or (limits.partitions is not None and limits.partitions < _MOST)


class _Queue:
    """Record when the last of the waiting partitions begins."""

    def __init__(self, simulated: Sequence[Track]) -> None:
        self._to_begin = {track.tp for track in simulated}
        self.last_s = 0

    def on_decision(self, now_s: int, decision: Decision) -> None:
        begun = self._to_begin & {move.tp for move in decision.moves}
        if begun:
            self._to_begin -= begun
            self.last_s = now_s


def _stand_for(simulated: Sequence[Track], of: Sequence[Track]) -> float:
    """Return for how many partitions each one stands: by bytes, or by number if there are none."""
    size = sum(track.planned.size for track in simulated)
    if len(of) == len(simulated):
        return 1.0
    return sum(track.planned.size for track in of) / size if size else len(of) / len(simulated)


def _thinned(tracks: list[Track]) -> tuple[list[Track], float]:
    """Return at most `_MOST` of the partitions, and for how many each of them stands."""
    if len(tracks) <= _MOST:
        return tracks, 1.0
    thinned = [tracks[n * len(tracks) // _MOST] for n in range(_MOST)]
    return thinned, len(tracks) / _MOST


def _by_target(tracks: Iterable[Track]) -> list[Track]:
    """Sort so that a sample keeps each broker's share: with all at once, the busiest one counts."""
    return sorted(tracks, key=lambda track: track.planned.target)


def goes_to_target(track: Track) -> bool:
    """Whether its step goes on to its end: a cancelled step takes no time worth counting."""
    return track.step is not None and not track.step.cancelled_by_operator


def _in_flight(track: Track, step: OpenStep, headway: CopyProgress, every: float) -> StepInFlight:
    begun = step.begun
    return StepInFlight(
        WantedPartition(
            track.tp,
            situation_before(track, step),
            track.planned.size,
            track.planned.sized,
            track.planned.ahead,
            begun=True,
        ),
        begun.move,
        {broker: every * size for broker, size in headway.left(track.tp, step).items()},
    )


def wanted_after(track: Track, grown: float) -> WantedPartition:
    """Return a partition as it stands after its step in flight, if there is one."""
    return WantedPartition(
        track.tp,
        expected_situation(track),
        round(track.planned.size * grown),
        track.planned.sized,
        track.planned.ahead,
        begun=track.under_way,
        first=track.cancel is not None,
    )
