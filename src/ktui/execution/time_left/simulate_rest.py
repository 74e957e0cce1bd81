"""Compute how long the rest of a run takes, by simulating it step by step with the run's pacing.

A simulation costs about 0.1 ms a step. Of many partitions, some stand for the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.run import Run
from ktui.execution.run.track import OpenStep, Track
from ktui.execution.time_left.copy_progress import CopyProgress
from ktui.execution.time_left.expected import expected_situation, situation_before
from ktui.pacing.decision import WantedPartition
from ktui.speed.bundles import Bundle, BundledCopies, Onto, bundled, go_together
from ktui.speed.capacity import Rates
from ktui.speed.copies import leader_or_first
from ktui.speed.simulate import (
    RestOfRun,
    StepInFlight,
    StepOverhead,
    simulate_rest_of_run,
)

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
    run: Run, headway: CopyProgress, rates: Rates, *, joining_s: int, grown: float
) -> Remaining:
    """Simulate the rest of a run. Of very many partitions, some stand for the others.

    Args:
        run: the whole run.
        headway: the progress of the copies in flight.
        rates: the rates of copies.
        joining_s: the seconds of a step that adds, beside copying.
        grown: the growth factor of waiting partitions since the start of the run.
    """
    rest = _rest_of(run)
    left = RestOfRun(
        [
            _in_flight(each, each.one.step, headway)
            for each in rest.in_flight
            if each.one.step is not None
        ],
        [
            *(wanted_after(track, track.planned.size * grown) for track in rest.begun),
            *(_wanted(each, grown, rest.together) for each in rest.fresh),
        ],
    )
    beside = StepOverhead(round(joining_s * rest.steps), round(headway.other_s * rest.steps))
    copies = BundledCopies(
        rates.copies(),
        {tp: Counter(map(_leader, others)) for tp, others in rest.together.items()},
        {tp: 1 + len(others) for tp, others in rest.in_turn.items()},
    )
    limits, least_s = run.limits, 0.0
    if limits.cuts_per_minute is not None and rest.steps > 1:  # a bundle would be cut at once
        least_s = _cuts_s(run, limits.cuts_per_minute)
        limits = msgspec.structs.replace(limits, cuts_per_minute=None)
    schedule = simulate_rest_of_run(left, limits, beside, copies)
    waiting_s = max(schedule.waiting_s, least_s - schedule.copying_s)
    return Remaining(min(_LONGEST_S, schedule.copying_s), min(_LONGEST_S, waiting_s))


def _cuts_s(run: Run, most: int) -> float:
    """Return the seconds in which all partitions are cut, at most so many a minute."""
    cut = sum(track.step is not None and track.step.begun.cut for track in run.tracks.values())
    return 60.0 * (sum(not track.state.ended for track in run.tracks.values()) - cut) / most


_Others = Mapping[TopicPartition, Sequence[Track]]
"""By partition, the others that it stands for; only those that stand for some."""


class _Rest(NamedTuple):
    """The partitions of a run that are not at their ends, those that are many in bundles."""

    in_flight: Sequence[Bundle[Track]]
    begun: Sequence[Track]
    """Those between two of their steps."""
    fresh: Sequence[Bundle[Track]]
    """Those without a step so far."""
    together: _Others
    """Those that are copied at the same time."""
    in_turn: _Others
    """Those that are copied one after the other."""

    @property
    def steps(self) -> float:
        """How many steps a step stands for, on average: it takes their time beside copying."""
        if not self.in_turn:
            return 1.0
        return sum(1 + len(each.others) for each in self.fresh) / len(self.fresh)


def _rest_of(run: Run) -> _Rest:
    in_flight = _bundled(list(filter(goes_to_target, run.tracks_in_flight.values())))
    waiting = [
        t for t in run.tracks.values() if not (t.state.ended or t.tp in run.tracks_in_flight)
    ]
    not_begun = [track for track in waiting if not track.under_way]
    fresh = _bundled(not_begun)
    together, in_turn = _many(in_flight), _many(fresh)
    if go_together([track.planned.size for track in not_begun], run.limits):
        together, in_turn = together | in_turn, {}
    return _Rest(in_flight, [t for t in waiting if t.under_way], fresh, together, in_turn)


def _bundled(tracks: Sequence[Track]) -> list[Bundle[Track]]:
    return bundled(tracks, lambda track: track.planned.size, _onto)


def _onto(track: Track) -> Onto:
    planned = track.planned
    return sorted({*planned.target} - {*planned.original}), planned.target


def _leader(track: Track) -> int:
    planned = track.planned
    return leader_or_first(planned.leader, planned.original)


def _many(bundles: Iterable[Bundle[Track]]) -> dict[TopicPartition, Sequence[Track]]:
    """Return the partitions that stand for others, and these."""
    return {each.one.tp: each.others for each in bundles if each.others}


def _wanted(bundle: Bundle[Track], grown: float, together: _Others) -> WantedPartition:
    """Return a partition with the bytes that count for it under V and W."""
    count = 1 + len(together.get(bundle.one.tp, ()))
    return wanted_after(bundle.one, bundle.size * count * grown)


def goes_to_target(track: Track) -> bool:
    """Whether its step goes on to its end: a cancelled step takes no time worth counting."""
    return track.step is not None and not track.step.cancelled_by_operator


def _in_flight(bundle: Bundle[Track], step: OpenStep, headway: CopyProgress) -> StepInFlight:
    track, begun, count = bundle.one, step.begun, 1 + len(bundle.others)
    left = headway.left(track.tp, step)
    if bundle.others:
        steps = [(each.tp, each.step) for each in (track, *bundle.others)]
        whole = sum(sum(headway.left(tp, of).values()) for tp, of in steps if of is not None)
        left = {broker: whole / len(begun.adding) for broker in begun.adding if whole}
    return StepInFlight(
        WantedPartition(
            track.tp,
            situation_before(track, step),
            round(bundle.size * count),
            track.planned.sized,
            track.planned.ahead,
            begun=True,
        ),
        begun.move,
        left,
    )


def wanted_after(track: Track, size: float) -> WantedPartition:
    """Return a partition as it stands after its step in flight, if it has one.

    Args:
        track: the partition.
        size: its bytes, or those of all that it stands for.
    """
    return WantedPartition(
        track.tp,
        expected_situation(track),
        round(size),
        track.planned.sized,
        track.planned.ahead,
        begun=track.under_way,
        first=track.cancel is not None,
    )
