"""The seconds that a partition of a run needs, beside the copies in flight: for `--until`."""

from __future__ import annotations

from collections.abc import Iterable

from ktui.execution.run.run import Run
from ktui.execution.run.track import Track
from ktui.execution.time_left.copy_progress import leader_of
from ktui.pacing.decision import Move
from ktui.speed.answer import Source
from ktui.speed.capacity import Rates
from ktui.speed.copies import Pair

STEP_S = 3.0
"""Seconds a step takes beside copying, unless earlier runs have shown it.

Polls, and the election or the cut: measured on labs. With less, `--until` begins steps that end a
poll or two after it.
"""
_NOBODY = -1


class TimeNeeded:
    """Judge how long partitions of a run take, at the present moment.

    Args:
        run: the fold of its journal.
        rates: the rates of copies, by what is known now.
        step_s: the seconds of a step beside copying; None for the usual ones.
        known: whether the run has shown how fast it copies.
    """

    def __init__(self, run: Run, rates: Rates, step_s: float | None, *, known: bool) -> None:
        self._run = run
        self._rates = rates
        self._step_s = STEP_S if step_s is None else step_s
        self._load = rates.load()
        self._counted: set[object] = set()
        self.assumed = not known and rates.basis.source is Source.ASSUMED
        """Whether the rates are assumed: neither this run nor an earlier one has shown them."""
        for track in run.tracks_in_flight.values():
            step = track.step
            if step is not None and not step.cancelled_by_operator:
                self._count(track, [(leader_of(step), broker) for broker in step.begun.adding])

    def beside(self, moves: Iterable[Move]) -> None:
        """Count the copies of moves that are about to begin together."""
        for move in moves:
            track = self._run.tracks[move.tp]
            self._count(track, [(_leader(track), broker) for broker in move.step.adds])

    def _count(self, track: Track, pairs: Iterable[Pair]) -> None:
        self._counted.add(track.tp)
        for pair in pairs:
            self._load.add(pair)

    def bytes_s(self, pair: Pair) -> float:
        """Return the rate of a copy that is counted, in bytes a second."""
        return self._rates.of_copy(pair, self._load)

    def of(self, track: Track) -> float:
        """Return the seconds that must be left for a partition's next step to be submitted.

        A partition begins only if its whole move fits, with one replica after another. It goes on
        as long as its next step fits. Replicas that are added at once are copied at once.
        """
        missing = [broker for broker in track.planned.target if broker not in track.replicas]
        leader, size = _leader(track), track.planned.size
        copies_s = [size / self._alone_or_counted(track, (leader, broker)) for broker in missing]
        if track.begun:
            return self._step_s + max(copies_s, default=0.0)
        return sum(copies_s) + (len(copies_s) + 1) * self._step_s

    def _alone_or_counted(self, track: Track, pair: Pair) -> float:
        """Return the rate of a copy of a partition: as counted, else in addition to those."""
        if track.tp in self._counted and self._load.onto(pair[1]):
            return self.bytes_s(pair)
        self._load.add(pair)
        bytes_s = self.bytes_s(pair)
        self._load.add(pair, -1)
        return bytes_s


def _leader(track: Track) -> int:
    known = (track.planned.leader, *track.replicas)
    return next((broker for broker in known if broker is not None), _NOBODY)
