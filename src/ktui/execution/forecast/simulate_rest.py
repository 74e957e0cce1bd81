"""How long the rest of a run takes: it is played, step by step, by what decides in the run.

A play costs about 0.1 ms for each step. Of many partitions some stand for the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ktui.execution.forecast.copy_progress import Headway
from ktui.execution.forecast.expected import before, situation
from ktui.execution.run.run import Run
from ktui.execution.run.track import OpenStep, Track
from ktui.pacing.decision import Decision, Move, WantedPartition
from ktui.pacing.limits import Limits
from ktui.planning.simulate.fair_share import BrokerBandwidth, FairShareCopies
from ktui.planning.simulate.schedule import (
    RestOfRun,
    StepInFlight,
    StepOverhead,
    simulate_rest_of_run,
)

_MOST = 200
"""So many partitions are played one by one, of those in flight and of those that wait."""

_LONGEST_S = 10 * 365 * 86_400.0
"""No more is told: a replica that hardly moves would take for ever."""


class Remaining(msgspec.Struct, frozen=True):
    """Seconds that are left."""

    copying_s: float
    """How long something is being copied: this part goes with the rate."""
    waiting_s: float


def remaining(
    run: Run, headway: Headway, rooms: BrokerBandwidth, *, joining_s: int, grown: float
) -> Remaining:
    """Play what is left.

    Of many that wait every k-th is played, and the time until the last of these begins counts k
    times; without a limit on partitions, each is played as if it were k times as large. So is, of
    many in flight, every k-th.

    Args:
        run: all of it.
        headway: how far the copies in flight are.
        rooms: what brokers take in and send.
        joining_s: what a step that adds takes beside copying.
        grown: how many times as large those that wait are as at the start of the run.
    """
    flying, every = _thinned(_by_target(filter(_flies, run.flying.values())))
    waiting = [t for t in run.tracks.values() if not (t.state.ended or t.tp in run.flying)]
    begun = [track for track in waiting if track.under_way]
    fresh = [track for track in waiting if not track.under_way]
    played, _ = _thinned(fresh if _one_by_one(run.limits) else _by_target(fresh))
    queue, each = _Queue(played), _stand_for(played, fresh)
    larger, longer = (1.0, each) if _one_by_one(run.limits) else (each, 1.0)
    left = RestOfRun(
        [_flying(track, track.step, headway, every) for track in flying if track.step is not None],
        [
            *(_wanted(track, grown) for track in begun),
            *(_wanted(track, grown * larger) for track in played),
        ],
    )
    beside = StepOverhead(joining_s, headway.other_s)
    schedule = simulate_rest_of_run(left, run.limits, beside, FairShareCopies(rooms), queue.told)
    whole_s = schedule.copying_s + schedule.waiting_s
    stretched = 1 + queue.last_s * (longer - 1) / whole_s if whole_s else 1.0
    copying_s = min(_LONGEST_S, schedule.copying_s * stretched)
    return Remaining(copying_s, min(_LONGEST_S, schedule.waiting_s * stretched))


def _one_by_one(limits: Limits) -> bool:
    """Whether partitions begin as others end: so many fewer of them take so much less time."""
    return limits.partitions is not None and limits.partitions < _MOST


class _Queue:
    """Hears when the last of those that wait begins."""

    def __init__(self, played: Sequence[Track]) -> None:
        self._to_begin = {track.tp for track in played}
        self.last_s = 0

    def told(self, now_s: int, decision: Decision) -> None:
        begun = self._to_begin & {move.tp for move in decision.moves}
        if begun:
            self._to_begin -= begun
            self.last_s = now_s


def _stand_for(played: Sequence[Track], of: Sequence[Track]) -> float:
    """Tell for how many each stands: by bytes, or by number where there are none."""
    size = sum(track.planned.size for track in played)
    if len(of) == len(played):
        return 1.0
    return sum(track.planned.size for track in of) / size if size else len(of) / len(played)


def _thinned(tracks: list[Track]) -> tuple[list[Track], float]:
    """Give some of many, and for how many each of them stands."""
    if len(tracks) <= _MOST:
        return tracks, 1.0
    thinned = [tracks[n * len(tracks) // _MOST] for n in range(_MOST)]
    return thinned, len(tracks) / _MOST


def _by_target(tracks: Iterable[Track]) -> list[Track]:
    """Have each broker's share among those that are played: with all at once the busiest tells."""
    return sorted(tracks, key=lambda track: track.planned.target)


def _flies(track: Track) -> bool:
    """Whether its step goes on to its end: what is called off takes no time to tell of."""
    return track.step is not None and not track.step.called_off


def _flying(track: Track, step: OpenStep, headway: Headway, every: float) -> StepInFlight:
    begun = step.begun
    return StepInFlight(
        WantedPartition(track.tp, before(track, step), track.planned.size, begun=True),
        Move(track.tp, begun.step, begun.alone, begun.holds_place),
        {broker: every * size for broker, size in headway.left(track.tp, step).items()},
    )


def _wanted(track: Track, grown: float) -> WantedPartition:
    return WantedPartition(
        track.tp,
        situation(track),
        round(track.planned.size * grown),
        begun=track.under_way,
        first=track.cancel is not None,
    )
