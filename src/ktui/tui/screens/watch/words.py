"""What is wrong with a partition apart from any move, in words."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from ktui.cluster.broker import TopicConfig
from ktui.cluster.partition import PartitionState
from ktui.execution.run.pace import ASSUMED_BYTES_S
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.pacing.room import Full
from ktui.pacing.waiting_for import NothingElse, OneAlone, OthersOfCut, WaitsFor, WaveOver
from ktui.progress.health import Health, health
from ktui.progress.timeline import Phase, Stall, StallKind, Timeline
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece, caught_up
from ktui.tui.run_view.rows import RunRows
from ktui.tui.run_view.wait_reasons import ViewHold
from ktui.tui.screens.watch.run_banner import LETTERS


class WaitingWords(NamedTuple):
    """What is waited for."""

    short: str
    sentence: str
    role: str = "waiting"


def waiting_words(waits: ViewHold | WaitsFor, run: Run, track: Track) -> WaitingWords:
    """Say what a partition of a run waits for."""
    match waits:
        case ViewHold():
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


def _held(hold: ViewHold, run: Run) -> WaitingWords:
    until = "" if run.until is None else f"{run.until.astimezone():%H:%M}"
    given = f"{until}, the time given with --until"
    if hold is ViewHold.NO_PROCESS and run.exported is not None:
        return WaitingWords(
            "the run was exported",
            f"The run was exported to {run.exported.file}, and goes on where that is imported.",
        )
    rate = figures.as_rate(ASSUMED_BYTES_S)
    assumed = f"at {rate} a replica. That is assumed: no copy has shown its rate yet."
    short, sentence = {
        ViewHold.NO_PROCESS: (
            "the run waits for resume",
            f"No process carries the run on. ktui resume {run.name} has one go on with it.",
        ),
        ViewHold.CLUSTER_LOST: (
            "the run has lost the cluster",
            "The run's process has lost the cluster, and decides nothing meanwhile.",
        ),
        ViewHold.CANCEL_GATE_SHUT: (
            "the cancel gate is shut",
            f"The cancel gate is shut by {run.cancel_gate.reason}. O opens it.",
        ),
        ViewHold.RUN_PAUSED: (
            "the run is paused",
            f"The run is paused: {run.pauses.reason}. Nothing new is submitted.",
        ),
        ViewHold.GATE_SHUT: (
            "the gate is shut",
            f"The gate is shut: {run.gate.reason}. It opens by itself.",
        ),
        ViewHold.TIME_UP: (f"past {until}", f"It is past {given}: nothing more is submitted."),
        ViewHold.PAUSED: (
            "paused by the operator",
            "It is paused, or its topic, by the operator. P in the list lets it go on.",
        ),
        ViewHold.TOO_LATE: (
            f"would not end by {until}",
            f"It is not expected to end by {given}.",
        ),
        ViewHold.TOO_LATE_AS_ASSUMED: (
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


class HealthWords(NamedTuple):
    """A word for the state column, its role, and what is wrong; that is empty while all is well."""

    word: str
    role: str
    wrong: str
    health: Health

    @property
    def offline(self) -> bool:
        """Whether it has no leader."""
        return self.health is Health.OFFLINE

    @property
    def grave(self) -> bool:
        """Whether producers, or everybody, are refused."""
        return self.health in (Health.OFFLINE, Health.UNDER_MIN_ISR)

    @property
    def ill(self) -> bool:
        """Whether anything is known to be wrong."""
        return self.grave or self.health is Health.UNDER_REPLICATED


_HEALTH_WORDS = {
    Health.OK: ("in sync", "in-sync"),
    Health.UNDER_REPLICATED: ("out of ISR", "out-of-sync"),
    Health.UNDER_MIN_ISR: ("UNDER MIN", "stalled"),
    Health.OFFLINE: ("OFFLINE", "stalled"),
    Health.UNKNOWN: ("not known", "waiting"),
}


def health_words(state: PartitionState, config: TopicConfig | None) -> HealthWords:
    """Put a partition's health into words."""
    found = health(state, config)
    return HealthWords(*_HEALTH_WORDS[found], _wrong(found, state, config), found)


def _wrong(found: Health, state: PartitionState, config: TopicConfig | None) -> str:
    if found is Health.OK:
        return ""
    if found is Health.UNKNOWN:
        return "its metadata could not be read"
    away = ", ".join(str(b) for b in state.original if b not in state.isr)
    parts = [f"out of ISR: {away}"] if away else []
    if found is Health.OFFLINE:
        parts.insert(0, "no leader")
    elif found is Health.UNDER_MIN_ISR and config is not None:
        parts.insert(0, f"ISR {len(state.isr)}, min {config.min_insync_replicas}")
    return "; ".join(parts)
