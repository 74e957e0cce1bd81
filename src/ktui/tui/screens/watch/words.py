"""The words of the list for a partition, and what they depend on beside its timeline."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from ktui.cluster.broker import TopicConfig
from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState
from ktui.execution.forecast.waits import HeldBy, WaitCause, wait_reason
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.text import urgent_text
from ktui.execution.run.track import Track, find_goal
from ktui.progress.memory import Health, health
from ktui.progress.timeline import Mark, Phase, Stall, StallKind, Timeline
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import (
    BATCH_BEGUN,
    CANCEL_SIGNS,
    COPYING,
    DROPPED,
    SIGNS,
    UNKNOWN,
    Piece,
    SignAt,
    SpanOf,
    slowest_share,
)
from ktui.tui.run_view.messages import foreign_words
from ktui.tui.run_view.rows import MovedElsewhere, RunRows

_KEYS = {
    HeldBy.CANCEL_GATE_SHUT: " O opens it.",
    HeldBy.PAUSED: " P in the list lets it go on.",
}
"""The keys of the view that help, by what holds a partition back."""
STATE_WIDTH = 12
OF_OTHERS = (State.FOREIGN, State.CHANGED_ELSEWHERE)
"""States of partitions that somebody else moves or has moved; their stalls are not the run's."""
_WORDS = {
    State.READY: ("ready", "in-sync"),
    State.DROPPING: ("dropping", "retiring"),
    State.ELECTING: ("electing", "next-leader"),
    State.STOPPING: ("stopping", "cancelled"),
    State.REFUSED: ("refused", "falling-behind"),
    State.ROLLING_BACK: ("rolling back", "next-leader"),
    State.STOPPED: ("stopped", "cancelled"),
    State.ROLLED_BACK: ("rolled back", "in-sync"),
    State.BLOCKED: ("blocked", "falling-behind"),
    State.FOREIGN: ("foreign", "foreign"),
    State.DONE: ("done", "in-sync"),
    State.CHANGED_ELSEWHERE: ("changed elsewhere", "foreign"),
    State.TOPIC_GONE: ("topic gone", "dim"),
    State.FAILED: ("FAILED", "stalled"),
}
_ENDED_WELL = (State.DONE, State.STOPPED, State.ROLLED_BACK)
_ROLES = {
    State.BLOCKED: "falling-behind",
    State.REFUSED: "falling-behind",
    State.FOREIGN: "foreign",
    State.CHANGED_ELSEWHERE: "foreign",
    State.FAILED: "stalled",
    State.STALLED: "stalled",
}
_HEALTH_WORDS = {
    Health.OK: ("in sync", "in-sync"),
    Health.UNDER_REPLICATED: ("out of ISR", "out-of-sync"),
    Health.UNDER_MIN_ISR: ("UNDER MIN", "stalled"),
    Health.OFFLINE: ("OFFLINE", "stalled"),
    Health.UNKNOWN: ("not known", "waiting"),
}


class WaitingWords(NamedTuple):
    """Why a partition waits, as the view shows it."""

    short: str
    sentence: str
    role: str = "waiting"


def waiting_words(cause: WaitCause, run: Run, track: Track) -> WaitingWords:
    """Return why a partition waits, with the key that helps and its colour."""
    reason = wait_reason(cause, run, track)
    if not isinstance(cause, HeldBy):
        return WaitingWords(reason.short, reason.sentence)
    return WaitingWords(reason.short, reason.sentence + _KEYS.get(cause, ""), "falling-behind")


def reported_by_run(track: Track, timeline: Timeline) -> bool:
    """Return whether the run reports on a partition: not if it moves again after it has ended."""
    over = track.state.ended and track.state not in OF_OTHERS
    return not (over and timeline.phase in (Phase.MOVING, Phase.STALLED))


def as_reported_by_run(stall: Stall, stalled_s: float | None) -> Stall:
    """Return a stall as the run's engine reports it, which may have watched for longer."""
    if stalled_s is None:
        return stall
    since_s = min(stall.since_s, stalled_s)
    return msgspec.structs.replace(stall, kind=StallKind.STALLED, since_s=since_s)


def never_begun(track: Track) -> bool:
    """Whether a partition was stopped before its first step."""
    return track.state is State.STOPPED and not track.begun


def run_state(
    track: Track, rows: RunRows, timeline: Timeline, now_s: float, stalled_s: float | None
) -> Piece:
    """Return the word for the state of a partition of the run."""
    if track.state is State.QUEUED:
        return Piece(_queued(track, rows), "waiting")
    ours = track.step is not None and timeline.phase is Phase.STALLED
    if track.state is State.STALLED or ours:
        stall = timeline.stall
        since_s = stalled_s if stall is None else as_reported_by_run(stall, stalled_s).since_s
        age = "" if since_s is None else f" {figures.as_age(now_s - since_s)}"
        return Piece(f"STALLED{age}", "stalled", bold=True)
    if track.state is State.ADDING:
        return _copying(track, rows, timeline, now_s)
    if track.state is State.ROLLING_BACK and track.step is None:
        return Piece("to roll back", "next-leader")
    if never_begun(track):
        return Piece("not started", "dim")
    return state_piece(track.state)


def state_piece(state: State) -> Piece:
    """Return the word for a state that needs no figures."""
    word, role = _WORDS[state]
    return Piece(word, role, bold=role == "stalled")


def _copying(track: Track, rows: RunRows, timeline: Timeline, now_s: float) -> Piece:
    stall = timeline.stall
    if stall is not None and stall.held_up:
        return held_up(stall, now_s)
    if stall is not None and stall.alarm:
        return Piece(f"behind {figures.as_age(now_s - stall.since_s)}", "falling-behind")
    return Piece(_step(track, rows, timeline), "moving")


def held_up(stall: Stall, now_s: float) -> Piece:
    """Return the word for a copy that cannot go on now."""
    return Piece(f"held up {figures.as_age(now_s - stall.since_s)}", "falling-behind")


def _queued(track: Track, rows: RunRows) -> str:
    place = rows.place(track)
    if place is None:
        return f"waits {track.steps}/{track.steps + rows.steps_left(track)}"
    return f"queued ({place:,})" if place < 1_000 else f"queued {place}"  # noqa: PLR2004 - what fits


def _step(track: Track, rows: RunRows, timeline: Timeline) -> str:
    step = f"step {track.steps}/{track.steps + rows.steps_left(track)}"
    share, approximate = slowest_share(timeline)
    if share is None:
        return step
    with_share = f"{step} {figures.as_share(share, approximate=approximate)}"
    return with_share if len(with_share) <= STATE_WIDTH else step


def run_waits(track: Track, rows: RunRows) -> WaitingWords | None:
    """Return what a partition waits for; None if it does not wait, or goes next."""
    waits = None if rows.waits is None else rows.waits.of(track)
    return None if waits is None else waiting_words(waits, rows.run, track)


def run_reason(track: Track, rows: RunRows) -> Piece | None:
    """Return the reason for a state; None if the state needs none."""
    waits = run_waits(track, rows)
    if waits is not None:
        return Piece("; ".join(filter(None, (track.reason, waits.short))), waits.role)
    words, mover = track.reason, rows.movers.get(track.tp)
    if track.state is State.FOREIGN and (mover is not None or not words):
        words = foreign_words(mover)
    if track.urgency is not None and track.state is State.QUEUED:
        words = "; ".join(filter(None, (urgent_text(track.urgency), words)))
    return Piece(words, _ROLES.get(track.state, "waiting")) if words else None


class HealthWords(NamedTuple):
    """A word for the state column, its role, and what is wrong (empty while all is well)."""

    word: str
    role: str
    wrong: str
    health: Health

    @property
    def offline(self) -> bool:
        return self.health is Health.OFFLINE

    @property
    def severe(self) -> bool:
        return self.health in (Health.OFFLINE, Health.UNDER_MIN_ISR)

    @property
    def unhealthy(self) -> bool:
        return self.severe or self.health is Health.UNDER_REPLICATED


def health_words(state: PartitionState, config: TopicConfig | None) -> HealthWords:
    """Put a partition's health into words."""
    found = health(state, config)
    if found is Health.OK:  # one for all: every row of every poll asks
        return _WELL
    return HealthWords(*_HEALTH_WORDS[found], _wrong(found, state, config), found)


_WELL = HealthWords(*_HEALTH_WORDS[Health.OK], "", Health.OK)


def _wrong(found: Health, state: PartitionState, config: TopicConfig | None) -> str:
    if found is Health.UNKNOWN:
        return "its metadata could not be read"
    away = ", ".join(str(b) for b in state.original if b not in state.isr)
    parts = [f"out of ISR: {away}"] if away else []
    if found is Health.OFFLINE:
        parts.insert(0, "no leader")
    elif found is Health.UNDER_MIN_ISR and config is not None:
        parts.insert(0, f"ISR {len(state.isr)}, min {config.min_insync_replicas}")
    return "; ".join(parts)


class RowContext(msgspec.Struct, frozen=True):
    """The data that a row's words depend on beyond its own timeline."""

    now_s: float
    configs: Mapping[str, TopicConfig] = msgspec.field(default_factory=dict)
    down: frozenset[int] = frozenset()  # brokers that are down: none of them leads
    health_first: bool = False
    """Whether a partition's health matters more than the fact that its move has ended."""
    run: RunRows | None = None
    run_began_s: float = 0.0
    now_at: datetime | None = None
    ended_s: float | None = None
    """Where the timelines of an ended run end: what came later is not the run's."""

    @property
    def until_s(self) -> float:
        """The moment of the last cell of the timelines."""
        return self.now_s if self.ended_s is None else self.ended_s

    @property
    def until_at(self) -> datetime | None:
        if self.now_at is None:
            return None
        return self.now_at - timedelta(seconds=self.now_s - self.until_s)

    def track(self, timeline: Timeline) -> Track | None:
        if self.elsewhere(timeline) is not None:
            return None
        track = None if self.run is None else self.run.track(timeline.tp)
        return track if track is not None and reported_by_run(track, timeline) else None

    def elsewhere(self, timeline: Timeline) -> MovedElsewhere | None:
        return None if self.run is None else self.run.elsewhere.get(timeline.tp)

    def stalled_s(self, track: Track) -> float | None:
        if track.state is not State.STALLED or track.since is None:
            return None
        return self._second_of(track.since)

    def cancel_sign(self, track: Track) -> SignAt | None:
        """Return the sign for the moment at which an operator cancelled a partition of the run.

        For a partition that had not begun, a rollback is a stop, too.
        """
        asked_at = None if self.run is None else self.run.cancelled_at.get(track.tp)
        at_s = None if asked_at is None else self._second_of(asked_at)
        if at_s is None or track.cancel is None:
            return None
        kind = track.cancel if track.begun else CancelKind.STOP
        return SignAt(at_s, CANCEL_SIGNS[kind])

    def leaving(self, timeline: Timeline) -> frozenset[int]:
        """Return the replicas that the run is to remove, also by a step that has not begun."""
        return self.to_change(timeline)[0]

    def to_change(self, timeline: Timeline) -> tuple[frozenset[int], list[int], int | None]:
        """Return `leaving`, what steps that have not begun are to add, and who is to lead."""
        track, now = self.track(timeline), timeline.state
        if track is None or track.state.ended:
            return frozenset(), [], None
        goal = find_goal(track, now.replicas, now.isr, now.leader).replicas
        leaving = frozenset(now.replicas) - frozenset(goal) - frozenset(now.adding)
        return leaving, [broker for broker in goal if broker not in now.replicas], goal[0]

    def past_spans(self, timeline: Timeline) -> list[SpanOf]:
        """Return what a run's journal says of a partition's time, besides what polls saw."""
        track = self.track(timeline)
        if track is None:
            return []
        records = () if self.run is None else self.run.steps_taken(track.tp)
        over_at = track.since if track.state.ended else None
        until_at = records[0].at if records else over_at
        spans = [
            SpanOf(
                self.run_began_s, self._second_of(until_at), SIGNS[Mark.WAITING], healthy_too=True
            )
        ]
        for number, record in enumerate(records, 1):
            over_s = self._second_of(record.over_at)
            if record.begun.adding:
                spans.append(SpanOf(self._second_of(record.at) or 0.0, over_s, COPYING))
            if over_s is not None and number < len(records):
                next_s = self._second_of(records[number].at)
                spans.append(SpanOf(over_s, next_s, SIGNS[Mark.IN_SYNC]))
        over_s = self._second_of(over_at)
        if over_s is not None and never_begun(track):  # there is nothing of it to follow
            spans.append(SpanOf(over_s, None, SIGNS[Mark.NOTHING], healthy_too=True))
        return spans

    def signs(self, timeline: Timeline, cell_s: float) -> list[SignAt]:
        """Return the signs of a partition's timeline: what happened at a moment, worst last.

        Of a move that is not the run's nothing is known before the first poll that listed it,
        unless an earlier poll had not.
        """
        track = self.track(timeline)
        if track is None and timeline.phase is Phase.SETTLED:
            return []
        if track is None and not timeline.seen_from_start:
            return [SignAt(timeline.began_s - cell_s, UNKNOWN)]
        if track is None:
            return [SignAt(timeline.began_s, BATCH_BEGUN)]
        recent = timeline.recent
        polled_s = recent.end_s - recent.slot_s * len(recent.marks)
        signs, batch = [], None
        for record in () if self.run is None else self.run.steps_taken(track.tp):
            at_s, over_s = self._second_of(record.at), self._second_of(record.over_at)
            if at_s is not None and record.begun.batch != batch:
                signs.append(SignAt(at_s, BATCH_BEGUN))
                batch = record.begun.batch
            if over_s is None or not record.reached:
                continue
            if record.begun.removing:
                signs.append(SignAt(over_s, DROPPED))
            if record.begun.moves_leader and over_s < polled_s:  # else the polls have it
                signs.append(SignAt(over_s, SIGNS[Mark.LEADER_MOVED]))
        cancelled = self.cancel_sign(track)
        return signs if cancelled is None else [*signs, cancelled]

    def _second_of(self, at: datetime | None) -> float | None:
        if at is None:
            return None
        began_at = None if self.run is None else self.run.run.started_at
        return None if began_at is None else self.run_began_s + (at - began_at).total_seconds()

    def health(self, timeline: Timeline) -> HealthWords:
        return health_words(timeline.state, self.configs.get(timeline.tp.topic))

    def needs_no_hand(self, timeline: Timeline) -> bool:
        """Return whether a partition's move has ended well: a dead broker is no trouble of it."""
        track = self.track(timeline)
        well = timeline.phase is Phase.DONE if track is None else track.state in _ENDED_WELL
        return well and not self.health_first and not self.health(timeline).severe

    def shows_health(self, timeline: Timeline, condition: HealthWords) -> bool:
        """Return whether a partition's state column shows its health, and not its move."""
        if timeline.phase is Phase.TOPIC_GONE:
            return False
        if self.track(timeline) is not None:
            return condition.offline
        if timeline.phase.ended or timeline.phase is Phase.SETTLING:
            return self.health_first and condition.unhealthy
        return timeline.phase is Phase.SETTLED or condition.offline


_AFTER, _LEAST_AFTER_S = 0.05, 2.0  # what a timeline shows after the end of its run


def build_row_context(
    seen: Observation | None, run: RunRows | None, *, health_first: bool, of_run: bool = False
) -> RowContext:
    """Build the context from the last observation and the run that the view is attached to.

    `of_run`: the rows are the run's, so nothing after its end belongs on their timelines.
    """
    if seen is None:
        return RowContext(0.0)
    began_at = None if run is None else run.run.started_at
    run_age_s = 0.0 if began_at is None else (seen.at - began_at).total_seconds()
    ended_s = None
    if of_run and run is not None and run.run.ended_at and began_at and not run.elsewhere:
        lasted_s = (run.run.ended_at - began_at).total_seconds()
        after_s = (1.0 + _AFTER) * lasted_s + _LEAST_AFTER_S
        ended_s = seen.monotonic_s - run_age_s + after_s if after_s < run_age_s else None
    return RowContext(
        seen.monotonic_s,
        seen.topic_configs,
        seen.down,
        health_first,
        run=run,
        run_began_s=seen.monotonic_s - run_age_s,
        now_at=seen.at,
        ended_s=ended_s,
    )
