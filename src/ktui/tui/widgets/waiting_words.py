"""What the view says of what a partition waits for: in a row shortly, in the detail in full."""

from __future__ import annotations

from typing import NamedTuple

from ktui.execution.pace import ASSUMED_BYTES_S
from ktui.execution.run import Run
from ktui.execution.track import Track
from ktui.pacing.room import Full
from ktui.pacing.waiting_for import NothingElse, OneAlone, OthersOfCut, WaitsFor, WaveOver
from ktui.tui import figures
from ktui.tui.runs.waits import Hold
from ktui.tui.widgets.run_lines import LETTERS


class WaitingWords(NamedTuple):
    """What is waited for."""

    short: str
    sentence: str
    role: str = "waiting"


def waiting_words(waits: Hold | WaitsFor, run: Run, track: Track) -> WaitingWords:
    """Say what a partition of a run waits for."""
    match waits:
        case Hold():
            return _held(waits, run)
        case Full():
            return _full(waits, track)
        case OthersOfCut():
            return _of_cut(waits)
        case WaveOver():
            left = figures.as_count(waits.left, "partition")
            have = "has" if waits.left == 1 else "have"
            return WaitingWords(
                f"wave {waits.wave:,}: {waits.left:,} left",
                f"It begins with the next wave: {left} of wave {waits.wave:,} {have} not ended.",
            )
        case OneAlone():
            return WaitingWords(
                f"{waits.tp} goes alone",
                f"The step of {waits.tp} can never fit the limits, and goes alone: nothing else"
                " is submitted until it is over.",
            )
        case NothingElse():
            adds = figures.as_count(waits.adds, "replica")
            return WaitingWords(
                f"adds {waits.adds:,}, M is {waits.most:,}",
                f"Its next step adds {adds}, more than M ({waits.most:,}) ever lets: it goes"
                " alone, once nothing else is in flight.",
            )


def _held(hold: Hold, run: Run) -> WaitingWords:
    until = "" if run.until is None else f"{run.until.astimezone():%H:%M}"
    given = f"{until}, the time given with --until"
    if hold is Hold.NO_PROCESS and run.exported is not None:
        return WaitingWords(
            "the run was exported",
            f"The run was exported to {run.exported.file}, and goes on where that is imported.",
        )
    rate = figures.as_rate(ASSUMED_BYTES_S)
    assumed = f"at {rate} a replica. That is assumed: no copy has shown its rate yet."
    short, sentence = {
        Hold.NO_PROCESS: (
            "the run waits for resume",
            f"No process carries the run on. ktui resume {run.name} has one go on with it.",
        ),
        Hold.CLUSTER_LOST: (
            "the run has lost the cluster",
            "The run's process has lost the cluster, and decides nothing meanwhile.",
        ),
        Hold.CANCEL_GATE_SHUT: (
            "the cancel gate is shut",
            f"The cancel gate is shut by {run.cancel_gate.reason}. O opens it.",
        ),
        Hold.RUN_PAUSED: (
            "the run is paused",
            f"The run is paused: {run.pauses.reason}. Nothing new is submitted.",
        ),
        Hold.GATE_SHUT: (
            "the gate is shut",
            f"The gate is shut: {run.gate.reason}. It opens by itself.",
        ),
        Hold.TIME_UP: (f"past {until}", f"It is past {given}: nothing more is submitted."),
        Hold.PAUSED: (
            "paused by the operator",
            "It is paused, or its topic, by the operator. P in the list lets it go on.",
        ),
        Hold.TOO_LATE: (
            f"would not end by {until}",
            f"It is not expected to end by {given}.",
        ),
        Hold.TOO_LATE_AS_ASSUMED: (
            f"would not end by {until}",
            f"It is not expected to end by {given}, {assumed}",
        ),
    }[hold]
    return WaitingWords(short, sentence, "falling-behind")


def _full(full: Full, track: Track) -> WaitingWords:
    letter = LETTERS[full.limit]
    used = f"{letter} {full.used:,} of {full.most:,}"
    foreign = f", {full.others:,} foreign" if full.others else ""
    are = "is" if full.used == 1 else "are"
    theirs = f", {full.others:,} of them by others" if full.others else ""
    match full.limit:
        case "partitions":
            goes_on = "goes on" if track.begun else "begins"
            under_way = figures.as_count(full.most, "partition")
            words = f"P lets {under_way} be under way, and {full.used:,} {are}: it {goes_on} when"
            return WaitingWords(f"{used} in use", f"{words} one of them has ended.")
        case "leader_movements":
            moves = figures.as_count(full.most, "leader movement")
            words = f"Its next step moves its leader: L lets {moves} be in flight, and"
            return WaitingWords(f"{used} in use", f"{words} {full.used:,} {are}.")
        case "per_broker":
            adds = figures.as_count(full.most, "replica")
            words = f"Its next step adds a replica on broker {full.broker}: B lets {adds} be added"
            return WaitingWords(
                f"{used}, broker {full.broker}{foreign}",
                f"{words} on one broker, and {full.used:,} {are} there{theirs}.",
            )
        case _:
            adds = figures.as_count(full.most, "replica")
            words = f"Its next step adds to the cluster: M lets {adds} be added at once, and"
            return WaitingWords(f"{used} in use{foreign}", f"{words} {full.used:,} {are}{theirs}.")


def _of_cut(cut: OthersOfCut) -> WaitingWords:
    if cut.together is None:
        return WaitingWords(
            "cut when nothing adds",
            "It has all its new replicas, and is cut together with all others that are ready when"
            " nothing is adding any more.",
        )
    are = "is" if cut.ready == 1 else "are"
    others = figures.as_count(cut.together - 1, "other")
    return WaitingWords(
        f"cut: {cut.ready:,} of {cut.together:,} ready",
        f"It has all its new replicas, and is cut together with {others}, when {cut.together:,} are"
        f" ready ({cut.ready:,} {are} by now), or when nothing is adding any more.",
    )
