"""Why a partition of a run waits, as text."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from ktui.execution.forecast.waits import HeldBy, WaitCause, Waits, waiting_tracks
from ktui.execution.run.options import local_minute
from ktui.execution.run.run import Run
from ktui.execution.run.text import urgent_text
from ktui.execution.run.track import Track
from ktui.execution.time_left.forecast import TimeNeeded
from ktui.pacing.choosing import (
    WaitsForCut,
    WaitsForLoneStep,
    WaitsForNextWave,
    WaitsForOthers,
    WaitsToGoAlone,
)
from ktui.pacing.limits import FIELDS, Full
from ktui.quantities import as_count


class WaitReason(NamedTuple):
    """Why a partition waits: for a cell, and in full."""

    short: str
    sentence: str


class Waiting(NamedTuple):
    """A partition that waits, and why."""

    track: Track
    code: str
    """For scripts, as `wait_code` has it."""
    reason: WaitReason


def wait_reasons(run: Run, needed: TimeNeeded, now: datetime, *, owned: bool) -> list[Waiting]:
    """Return why the partitions that have begun wait, and why the next one to begin does.

    The reasons come from the run's journal alone: the cluster is not polled.

    Args:
        run: the run.
        needed: judges how long partitions take.
        now: the present time.
        owned: whether the run has an engine.
    """
    tracks = waiting_tracks(run)
    waits = Waits(run, between=tracks, needed=needed, seen=None, now=now, owned=owned)
    causes = ((track, waits.of(track)) for track in tracks)
    return [
        Waiting(track, wait_code(cause), wait_reason(cause, run, track))
        for track, cause in causes
        if cause is not None
    ]


def wait_code(cause: WaitCause) -> str:
    """Return the code for scripts: the cause of the wait, or the limit without room."""
    match cause:
        case HeldBy():
            return cause.value
        case Full():
            return cause.limit.replace("_", "-")
        case WaitsForNextWave():
            return "next wave"
        case WaitsForCut():
            return "cut together"
        case WaitsForOthers():
            return "internal last"
        case WaitsForLoneStep() | WaitsToGoAlone():
            return "goes alone"


def wait_reason(cause: WaitCause, run: Run, track: Track) -> WaitReason:
    """Return why a partition of a run waits, as text, and why it is urgent if it is."""
    reason = _reason_in_turn(cause, run, track)
    if track.urgency is None:
        return reason
    short, sentence = f"{urgent_text(track.urgency)}; {reason.short}", reason.sentence
    if isinstance(cause, Full) and cause.among_urgent:
        sentence += " Only what urgent partitions have in flight counts for it."
    return WaitReason(short, f"It goes first ({urgent_text(track.urgency)}). {sentence}")


def _reason_in_turn(  # noqa: PLR0911 - one for each cause
    cause: WaitCause, run: Run, track: Track
) -> WaitReason:
    match cause:
        case HeldBy():
            return _held_reason(cause, run)
        case Full():
            return _full_reason(cause, track)
        case WaitsForCut():
            return _cut_reason(cause, run)
        case WaitsForOthers():
            return WaitReason(
                "internal: last",
                "It is of one of Kafka's own topics, which go last: it begins once no other"
                " partition waits to begin.",
            )
        case WaitsForNextWave():
            left = as_count(cause.left, "partition")
            have = "has" if cause.left == 1 else "have"
            return WaitReason(
                f"wave {cause.wave:,}: {cause.left:,} left",
                f"It begins with the next wave: {left} of wave {cause.wave:,} {have} not ended.",
            )
        case WaitsForLoneStep():
            return WaitReason(
                f"{cause.tp} goes alone",
                f"The step of {cause.tp} can never fit the limits, and goes alone: nothing else"
                " is submitted until it is over.",
            )
        case WaitsToGoAlone():
            return _alone_reason(cause)


def _alone_reason(cause: WaitsToGoAlone) -> WaitReason:
    adds, letter = as_count(cause.adds, "replica"), FIELDS[cause.limit].letter
    own = "" if cause.broker is None else f" of broker {cause.broker}"
    return WaitReason(
        f"adds {cause.adds:,}, {letter}{own} is {cause.most:,}",
        f"Its next step adds {adds}, more than {letter}{own} ({cause.most:,}) ever lets: it goes"
        " alone, once nothing else is in flight.",
    )


def _held_reason(hold: HeldBy, run: Run) -> WaitReason:
    until, deadline = _deadline(run)
    if hold is HeldBy.NO_ENGINE and run.exported is not None:
        return WaitReason(
            "the run was exported",
            f"The run was exported to {run.exported.file}, and goes on where that is imported.",
        )
    short, sentence = {
        HeldBy.NO_ENGINE: (
            "the run waits for resume",
            f"The run has no engine. ktui resume {run.name} starts one.",
        ),
        HeldBy.CLUSTER_LOST: (
            "the run has lost the cluster",
            "The run's engine has lost the cluster, and decides nothing meanwhile.",
        ),
        HeldBy.CANCEL_GATE_SHUT: (
            "the cancel gate is shut",
            f"The cancel gate is shut by {run.cancel_gate.reason}.",
        ),
        HeldBy.RUN_PAUSED: (
            "the run is paused",
            f"The run is paused: {run.pauses.reason}. Nothing new is submitted.",
        ),
        HeldBy.GATE_SHUT: (
            "the gate is shut"
            if run.gate.until is None
            else f"waits until {local_minute(run.gate.until)}",
            f"The gate is shut: {run.gate.reason}. It opens by itself."
            if run.gate.until is None
            else f"No step begins yet: {run.gate.reason}.",
        ),
        HeldBy.TIME_UP: (f"past {until}", f"It is past {deadline}: nothing more is submitted."),
        HeldBy.PAUSED: (
            "paused by the operator",
            "It is paused, or its topic, by the operator.",
        ),
        HeldBy.TOO_LATE: (
            f"would not end by {until}",
            f"It is not expected to end by {deadline}.",
        ),
        HeldBy.TOO_LATE_AS_ASSUMED: (
            f"would not end by {until}",
            f"It is not expected to end by {deadline}, as assumed: no copy has shown its rate.",
        ),
    }[hold]
    return WaitReason(short, sentence)


def _deadline(run: Run) -> tuple[str, str]:
    """Return the time by which steps are to end, in short and with where it comes from."""
    window = run.schedule.window
    if run.until is None:
        return "the end of its window", f"the end of its window, {window}"
    until = f"{run.until.astimezone():%H:%M}"
    also = f", or the end of its window, {window}" if window else ""
    return until, f"{until}, the time given with --until{also}"


def _full_reason(full: Full, track: Track) -> WaitReason:
    if full.among_internal:
        return WaitReason(
            "one internal leader at a time",
            "Its next step moves its leader, which coordinates groups or transactions: of these"
            " one moves at a time, and one is moving.",
        )
    if full.limit != "partitions":
        return WaitReason(*FIELDS[full.limit].why_full(full))
    goes_on, are = "goes on" if track.begun else "begins", "is" if full.used == 1 else "are"
    under_way = as_count(full.most, "partition")
    words = f"P lets {under_way} be under way, and {full.used:,} {are}: it {goes_on} when"
    short = f"P {full.used:,} of {full.most:,} in use"
    return WaitReason(short, f"{words} one of them has ended.")


def _cut_reason(cut: WaitsForCut, run: Run) -> WaitReason:
    left = len(run.tracks) - run.over
    if left < cut.together:
        are = "is" if cut.ready == 1 else "are"
        return WaitReason(
            f"cut: {cut.ready:,} of {left:,} ready",
            f"It has all its new replicas. The {left:,} that are left are cut once nothing is"
            f" adding any more ({cut.ready:,} {are} ready by now).",
        )
    have = "does" if cut.ready == 1 else "do"
    return WaitReason(
        f"cut: {cut.ready:,} of {cut.together:,} ready",
        f"It has all its new replicas. All that have them are cut together once {cut.together:,} do"
        f" ({cut.ready:,} {have} by now), or once nothing is adding any more.",
    )
