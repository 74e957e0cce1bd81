"""The least time that the rest of a run could take under its limits, whatever its order."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ktui.execution.run.run import Run
from ktui.execution.run.track import OpenStep, Track
from ktui.execution.time_left.copy_progress import CopyProgress
from ktui.execution.time_left.expected import situation_before
from ktui.execution.time_left.simulate_rest import goes_to_target, wanted_after
from ktui.pacing.decision import WantedPartition
from ktui.speed.answer import Basis, Bound
from ktui.speed.capacity import Rates
from ktui.speed.least_time import least_time


class LeastLeft(msgspec.Struct, frozen=True):
    """The least time that the rest of a run could take, and how close its forecast is."""

    bound: Bound
    times: float
    """The time left by the forecast, as a multiple of the least one; at least 1."""
    basis: Basis
    """Where the rates of both come from."""


def least_remaining(run: Run, headway: CopyProgress, rates: Rates, *, grown: float) -> Bound | None:
    """Compute the least time of the rest; None where nothing is copied any more.

    It takes about 20 microseconds for each partition that has not ended.

    Args:
        run: the whole run.
        headway: the progress of the copies in flight.
        rates: the rates of copies.
        grown: the growth factor of waiting partitions since the start of the run.
    """
    return least_time(_wanted(run, headway, grown), run.limits, rates)


def _wanted(run: Run, headway: CopyProgress, grown: float) -> Iterator[WantedPartition]:
    """Yield all that is left; a step in flight apart from those that follow it."""
    for track in list(run.tracks.values()):  # another thread may add some
        if track.state.ended:
            continue
        step = track.step
        if step is not None and goes_to_target(track):
            yield from _in_flight(track, step, headway)
        yield wanted_after(track, track.planned.size * grown)


def _in_flight(track: Track, step: OpenStep, headway: CopyProgress) -> Iterator[WantedPartition]:
    """Yield the copies of a step, all with the least that one of them lacks."""
    left, before = headway.left(track.tp, step), situation_before(track, step)
    if left:
        now = msgspec.structs.replace(before, target=(*before.replicas, *left))
        yield WantedPartition(track.tp, now, round(min(left.values())), begun=True)
