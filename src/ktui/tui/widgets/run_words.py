"""What the list says of a partition of the run: one vocabulary with scripts and the journal."""

from __future__ import annotations

import msgspec

from ktui.execution.states import State
from ktui.execution.track import Track
from ktui.progress.timeline import Phase, Stall, StallKind, Timeline
from ktui.tui import figures
from ktui.tui.cells import Piece, caught_up
from ktui.tui.runs.rows import RunRows
from ktui.tui.widgets.waiting_words import WaitingWords, waiting_words

STATE_WIDTH = 12
"""Cells of the column of states."""
OF_OTHERS = (State.FOREIGN, State.CHANGED_ELSEWHERE)
"""States of what somebody else moves, or has moved: a stall of theirs is none of the run's."""
_WORDS = {
    State.READY: ("ready", "in-sync"),
    State.DROPPING: ("dropping", "retiring"),
    State.ELECTING: ("electing", "next-leader"),
    State.STOPPING: ("stopping", "cancelled"),
    State.REFUSED: ("refused", "falling-behind"),
    State.ROLLING_BACK: ("rolling back", "next-leader"),
    State.STOPPED: ("stopped", "cancelled"),
    State.ROLLED_BACK: ("rolled back", "cancelled"),
    State.BLOCKED: ("blocked", "falling-behind"),
    State.FOREIGN: ("foreign", "foreign"),
    State.DONE: ("done", "done"),
    State.CHANGED_ELSEWHERE: ("changed elsewhere", "foreign"),
    State.TOPIC_GONE: ("topic gone", "gone"),
    State.FAILED: ("FAILED", "stalled"),
}
_REASONS = {
    State.FOREIGN: "someone else is reassigning it",
}
_ROLES = {
    State.BLOCKED: "falling-behind",
    State.REFUSED: "falling-behind",
    State.FOREIGN: "foreign",
    State.CHANGED_ELSEWHERE: "foreign",
    State.FAILED: "stalled",
    State.STALLED: "stalled",
}


def told_by_run(track: Track, timeline: Timeline) -> bool:
    """Whether the run tells of a partition: not once it is over and then moved again."""
    over = track.state.ended and track.state not in OF_OTHERS
    return not (over and timeline.phase in (Phase.MOVING, Phase.STALLED))


def as_told(stall: Stall, stalled_s: float | None) -> Stall:
    """Give a stall as the run's process tells it: it may have looked for longer than this view.

    Args:
        stall: as this view has seen it.
        stalled_s: the monotonic second since which the run tells of it; None where it does not.
    """
    if stalled_s is None:
        return stall
    since_s = min(stall.since_s, stalled_s)
    return msgspec.structs.replace(stall, kind=StallKind.STALLED, since_s=since_s)


def run_state(
    track: Track, rows: RunRows, timeline: Timeline, now_s: float, stalled_s: float | None
) -> Piece:
    """Give the word for where a partition of the run stands."""
    if track.state is State.QUEUED:
        return Piece(_queued(track, rows), "waiting")
    ours = track.step is not None and timeline.phase is Phase.STALLED
    if track.state is State.STALLED or ours:
        stall = timeline.stall
        since_s = stalled_s if stall is None else as_told(stall, stalled_s).since_s
        age = "" if since_s is None else f" {figures.as_age(now_s - since_s)}"
        return Piece(f"STALLED{age}", "stalled", bold=True)
    if track.state is State.ADDING and (stall := timeline.stall) is not None and stall.alarm:
        return Piece(f"behind {figures.as_age(now_s - stall.since_s)}", "falling-behind")
    if track.state is State.ADDING:
        return Piece(_step(track, rows, timeline), "moving")
    word, role = _WORDS[track.state]
    return Piece(word, role, bold=role == "stalled")


def _queued(track: Track, rows: RunRows) -> str:
    place = rows.place(track)
    if place is None:
        return f"queued {track.steps}/{track.steps + rows.steps_left(track)}"
    return f"queued ({place:,})" if place < 1_000 else f"queued {place}"  # noqa: PLR2004 - what fits


def _step(track: Track, rows: RunRows, timeline: Timeline) -> str:
    step = f"step {track.steps}/{track.steps + rows.steps_left(track)}"
    share, approximate = caught_up(timeline)
    if share is None:
        return step
    with_share = f"{step} {figures.as_share(share, approximate=approximate)}"
    return with_share if len(with_share) <= STATE_WIDTH else step


def run_waits(track: Track, rows: RunRows) -> WaitingWords | None:
    """Say what a partition waits for; None for one that does not, or goes next."""
    waits = None if rows.waits is None else rows.waits.of(track)
    return None if waits is None else waiting_words(waits, rows.run, track)


def run_reason(track: Track, rows: RunRows) -> Piece | None:
    """Give what there is to say of a state; None while it says all."""
    waits = run_waits(track, rows)
    if waits is not None:
        return Piece("; ".join(filter(None, (track.reason, waits.short))), waits.role)
    words = track.reason or _REASONS.get(track.state)
    return Piece(words, _ROLES.get(track.state, "waiting")) if words else None
