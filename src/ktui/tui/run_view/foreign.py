"""Moves that are none of the followed run's."""

from __future__ import annotations

from ktui.execution.run.run import Run
from ktui.progress.timeline import Phase, Progress, Timeline

_OPEN = (Phase.MOVING, Phase.STALLED)


def foreign_moves(run: Run, progress: Progress) -> list[Timeline]:
    """Return the open moves that are no step in flight of a run, the longest stalled first."""
    ours = run.tracks_in_flight.keys() | run.cancelling.keys()
    moves = [t for t in progress.timelines.values() if t.phase in _OPEN and t.tp not in ours]
    return sorted(moves, key=_stalled_since)


def _stalled_since(move: Timeline) -> float:
    stall = move.stall
    return float("inf") if stall is None else stall.since_s
