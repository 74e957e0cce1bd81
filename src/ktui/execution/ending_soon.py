"""Steps in flight that may be over in a moment: the next look at them comes sooner."""

from __future__ import annotations

from datetime import datetime

from ktui.execution.memory import Memory
from ktui.pacing.decision import Move

SOON_POLLS = 2
"""A step that may be over within so many polls is about to end."""
QUICK_FOR_S = 5.0
"""A removal that is not over by then waits for somebody."""


def any_ends_soon(memory: Memory, now: datetime, poll_s: float) -> bool:
    """Say whether a step in flight is about to end.

    Args:
        memory: the steps, and how far they were at the last look.
        now: when that was.
        poll_s: the time between two looks otherwise.
    """
    flying = memory.roster.in_flight.values()
    return any(_ends_soon(move, memory, now, poll_s) for move in flying)


def _ends_soon(move: Move, memory: Memory, now: datetime, poll_s: float) -> bool:
    if not move.step.adds:  # what removes or elects is over at once, mostly
        step = memory.run.tracks[move.tp].step  # None: it is being submitted
        return step is None or (now - step.at).total_seconds() < QUICK_FOR_S
    timeline = memory.progress.timelines.get(move.tp)
    left = None if timeline is None else timeline.left_s
    return left is not None and left.low <= SOON_POLLS * poll_s
