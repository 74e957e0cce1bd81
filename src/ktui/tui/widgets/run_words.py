"""What the list says of a partition of the run: one vocabulary with scripts and the journal."""

from __future__ import annotations

from ktui.execution.run import Track
from ktui.execution.states import State
from ktui.progress.timeline import Phase, Timeline
from ktui.tui import figures
from ktui.tui.cells import Piece, caught_up
from ktui.tui.runs.rows import RunRows

STATE_WIDTH = 12
"""Cells of the column of states."""
OF_OTHERS = (State.FOREIGN, State.CHANGED_ELSEWHERE)
"""States of what somebody else moves, or has moved: a stall of theirs is none of the run's."""
_WORDS = {
    State.READY: ("ready", "in-sync"),
    State.DROPPING: ("dropping", "retiring"),
    State.ELECTING: ("electing", "next-leader"),
    State.STOPPING: ("stopping", "cancelled"),
    State.BLOCKED: ("blocked", "falling-behind"),
    State.FOREIGN: ("foreign", "foreign"),
    State.DONE: ("done", "done"),
    State.CHANGED_ELSEWHERE: ("changed", "foreign"),
    State.TOPIC_GONE: ("topic gone", "gone"),
    State.FAILED: ("FAILED", "stalled"),
}
_REASONS = {
    State.READY: "waits for the cut",
    State.FOREIGN: "someone else is reassigning it",
}
_ROLES = {
    State.BLOCKED: "falling-behind",
    State.FOREIGN: "foreign",
    State.CHANGED_ELSEWHERE: "foreign",
    State.FAILED: "stalled",
    State.STALLED: "stalled",
}


def told_by_run(track: Track, timeline: Timeline) -> bool:
    """Whether the run tells of a partition: not once it is over and then moved again."""
    over = track.state.ended and track.state not in OF_OTHERS
    return not (over and timeline.phase in (Phase.MOVING, Phase.STALLED))


def run_state(track: Track, rows: RunRows, timeline: Timeline, now_s: float) -> Piece:
    """Give the word for where a partition of the run stands."""
    if track.state is State.QUEUED:
        return Piece(_queued(track, rows), "waiting")
    ours = track.state.in_flight and timeline.phase is Phase.STALLED
    if track.state is State.STALLED or ours:
        since_s = now_s if timeline.stall is None else timeline.stall.since_s
        age = f" {figures.as_age(now_s - since_s)}" if timeline.stall is not None else ""
        return Piece(f"STALLED{age}", "stalled", bold=True)
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


def run_reason(track: Track, rows: RunRows) -> Piece | None:
    """Give what there is to say of a state; None while it says all."""
    if track.reason:
        return Piece(track.reason, _ROLES.get(track.state, "waiting"))
    if track.state is State.QUEUED and rows.run.pauses.holds(track.tp):
        return Piece("paused by the operator", "falling-behind")
    words = _REASONS.get(track.state)
    return None if words is None else Piece(words, _ROLES.get(track.state, "waiting"))
