"""The text of a run's status, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktui.cli.output.gate import gate_line
from ktui.cli.output.table import table
from ktui.cli.run.runs import local_time, state_in_words
from ktui.cli.run.status_facts import StatusFacts
from ktui.cluster.text import clean
from ktui.execution.forecast.estimate import BY_EARLIER_RUNS
from ktui.execution.forecast.progress_text import copied_text, least_text, outage_text
from ktui.execution.forecast.wait_text import Waiting
from ktui.execution.host.catalog import RunState, extra_replicas_text
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.event_text import (
    KIND_IN_WORDS,
    batch_noun,
    chosen_text,
    event_sentence,
    limits_text,
    replica_list_text,
    schedule_text,
    scope_text,
)
from ktui.execution.run.events import RateChosen, RateHeld
from ktui.execution.run.held_text import held_text, reason_text
from ktui.execution.run.run import Run
from ktui.execution.run.schedule import NO_SCHEDULE, local_minute
from ktui.execution.run.states import Stage, State, count_stages
from ktui.execution.run.throttle_status import throttle_status
from ktui.execution.run.track import Track
from ktui.planning.objective import Objective
from ktui.quantities import as_count, as_duration, as_rate
from ktui.speed.answer import Span

_MOST_BROKERS = 5
"""The brokers that are shown with their rate under an objective."""

MOST_ROWS = 40
"""Rows shown of the partitions that wait, and of those that were cancelled."""

MOST_NOTES = 5
"""The last notes shown; `--events` has them all."""


def status_text(status: StatusFacts, state: StateDir) -> str:
    """Describe a run: its settings, its progress, the steps in flight, and all trouble."""
    run = status.run
    sections = [
        _head(status, state),
        _progress(status),
        _in_flight(run),
        _troubled(status),
        _waiting(status.waits),
        _cancelled(status),
    ]
    text = "\n\n".join("\n".join(lines) for lines in sections if lines)
    return "\n".join(map(clean, text.split("\n")))


def _head(status: StatusFacts, state: StateDir) -> list[str]:
    run = status.run
    batch = f", batch {run.batch:,}" if run.batch else ""
    facts = [
        *_origin(run),
        *_ownership(status),
        *_settings(status),
        *_health(status),
        *_cancel_gate(status, state),
        *_notes(run),
    ]
    width = max(len(name) for name, _ in facts)
    lines = [f"  {name:<{width}}  {value}" for name, value in facts]
    return [f"run {run.name}: {state_in_words(status.state)}{batch}", *lines]


def _origin(run: Run) -> Iterator[tuple[str, str]]:
    if run.started is not None:
        yield "plan", f"{run.started.plan}, {as_count(run.started.partitions, 'partition')}"
        for each in run.additions.plans:
            count = as_count(each.added.partitions, "partition")
            yield "added", f"{each.added.plan}, {count}, {local_time(each.at)}"
        off = ", not owned: others are not kept from it" if run.ownership_off else ""
        yield "cluster", f"{run.started.cluster_id}{off}"
        yield "started", local_time(run.started_at)


def _ownership(status: StatusFacts) -> Iterator[tuple[str, str]]:
    run = status.run
    if status.state is RunState.ENDED:
        yield "ended", local_time(run.ended_at)
    elif status.owner is not None:
        yield "owner", str(status.owner)
    elif run.exported is not None:
        yield "exported", f"{local_time(run.at)}, {event_sentence(run.exported)}"
    elif status.state is RunState.SUBMITTED:
        yield "owner", "none: Kafka goes on alone; to end it: ktui reassign --verify"
    else:
        why = f" ({run.left})" if run.left else ""
        yield "owner", f"none{why}; to resume it: ktui resume {run.name}"
    if status.silent is not None:
        yield "engine", status.silent
    if (extra := extra_replicas_text(run, status.owner)) is not None:
        yield "replicas", extra


def _settings(status: StatusFacts) -> Iterator[tuple[str, str]]:
    run = status.run
    batch = f"{batch_noun(run.limits)} {run.limits_changed_at + 1:,}"
    since = f", since {batch}" if run.limits_changed_at else ""
    yield "limits", f"{limits_text(run.limits)}{since}"
    yield from _throttle(run, owned=status.owned)
    yield "options", ", ".join(_options(run))
    for by, reason in run.pauses.whole.items():
        yield "paused", f"by {by.words}{f': {reason}' if reason else ''}"
    scope = scope_text(sorted(run.pauses.topics), sorted(run.pauses.partitions))
    if scope:
        yield "paused", scope


def _throttle(run: Run, *, owned: bool) -> Iterator[tuple[str, str]]:
    throttle = throttle_status(run)
    if throttle.bounded:
        yield "throttle", throttle.words
    if throttle.rates.objective is not None and not run.ended:
        yield from _objective(throttle.rates.objective, throttle.held)
    if throttle.chosen is not None and not run.ended:
        yield "done by", _promise(run, throttle.chosen)
    if throttle.refusal:
        yield "throttle", f"refused: {throttle.refusal}"
    if (why := throttle.remaining(owned=owned)) is not None:
        yield "throttle", f"{why}; see: ktui throttle {run.name}"


def _objective(objective: Objective, held: RateHeld | None) -> Iterator[tuple[str, str]]:
    """Yield the objective and its rates, then the brokers with the lowest ones."""
    words = "nothing was copied yet" if held is None else held_text(held, objective)
    yield "objective", f"{objective}: {words}"
    brokers = () if held is None else held.brokers
    receiving = [each for each in brokers if each.rate is not None]
    for each in sorted(receiving, key=lambda each: each.rate or 0)[:_MOST_BROKERS]:
        figure = "none" if each.figure is None else objective.value(each.figure)
        why = "" if each.why is None else f"; {reason_text(each.why, each.rate or 0, objective)}"
        yield f"broker {each.broker}", f"{as_rate(each.rate)}, {objective.name} {figure}{why}"


def _promise(run: Run, chosen: RateChosen) -> str:
    by = "" if run.schedule.by is None else local_minute(run.schedule.by)
    rates = run.throttled.rates
    named = bool(rates) and rates == run.throttled.bounded
    binds = f"; the throttle of {rates.words} is lower" if named and not chosen.late else ""
    return f"{by}: {chosen_text(chosen)}{binds}"


def _options(run: Run) -> Iterator[str]:
    chosen = run.options
    yield f"on stall {chosen.on_stall} (after {as_duration(chosen.stall_timeout_s)})"
    yield f"on foreign change {chosen.on_foreign_change}"
    if chosen.urgent_first:
        yield "urgent first"
    if chosen.stop_on_failure:
        yield "stop on failure"
    if run.until is not None:
        yield f"until {local_time(run.until)}"
    if run.schedule != NO_SCHEDULE:
        yield schedule_text(run.schedule)
    if chosen.most_under_min_isr is not None:
        yield f"at most {chosen.most_under_min_isr:,} others under min ISR"
    if chosen.most_offline is not None:
        yield f"at most {chosen.most_offline:,} others offline"
    if not chosen.record:
        yield "not recorded"
    yield f"a poll every {chosen.poll_s:g} s"


def _health(status: StatusFacts) -> Iterator[tuple[str, str]]:
    run, recording = status.run, status.recording
    if status.outage is not None:
        yield "cluster", f"lost {outage_text(status.outage)}"
    if run.gate.until is not None:
        yield "waits", run.gate.reason
    elif run.gate.shut:
        yield "gate", f"shut: {run.gate.reason}"
    if run.damage is not None:
        yield "journal", f"recovered: {run.damage}"
    if recording.on or recording.reason:
        yield "recording", recording.reason or "on"


def _cancel_gate(status: StatusFacts, state: StateDir) -> Iterator[tuple[str, str]]:
    if status.cancel_gate is not None:
        yield "gate", gate_line(status.cancel_gate, state, status.run.name)


def _notes(run: Run) -> Iterator[tuple[str, str]]:
    for note in run.notes[-MOST_NOTES:]:
        by = f", {note.event.who}" if note.event.who else ""
        yield "note", f"{note.event.text} ({local_time(note.at)}{by})"


def _progress(status: StatusFacts) -> list[str]:
    run, copied = status.run, status.copied
    done = f"done {run.counts[State.DONE]:,} of {as_count(len(run.tracks), 'partition')}"
    between = sum(t.state is State.QUEUED and t.under_way for t in run.tracks.values())
    stages = count_stages(run.counts, between, {Stage.HELD_UP: run.held_up})
    others = [f"{count:,} {stage}" for stage, count in stages.items() if stage is not Stage.DONE]
    done = ", ".join((done, *others))
    sizes = f", {copied_text(run, copied)}" if run.copies.whole else ""
    rows = [(state.words, f"{run.counts[state]:,}") for state in State if run.counts[state]]
    by = f" {BY_EARLIER_RUNS}" if copied.by_earlier_runs else ""
    known = None if run.held_up else copied.left_s  # nobody knows how long that lasts
    left = "" if known is None else f", {_left(known)} left{by}"
    least = [] if status.least is None else [f"at least {least_text(run, status.least)}"]
    return [f"{done}{sizes}{left}", *least, table(("STATE", "PARTITIONS"), rows, right=(1,))]


def _left(left_s: Span) -> str:
    low, middle, high = map(as_duration, (left_s.low, left_s.middle, left_s.high))
    return middle if low == high else f"{middle} ({low}-{high})"


def _in_flight(run: Run) -> list[str]:
    if not run.tracks_in_flight:
        return ["nothing is in flight"]
    header: tuple[str, ...] = (
        "PARTITION", "STATE", "BATCH", "REPLICAS", "TO", "ELECT", "TARGET", "SINCE"
    )  # fmt: skip
    tracks = run.tracks_in_flight.values()
    rows = [_step_row(track) for track in tracks]
    held_up = [track.held_up_by for track in tracks]
    if any(held_up):
        header = (*header, "HELD UP")
        rows = [(*row, why or "-") for row, why in zip(rows, held_up, strict=True)]
    return [f"in flight: {as_count(len(rows), 'step')}", table(header, rows, right=(2, 5))]


def _step_row(track: Track) -> tuple[str, ...]:
    begun = None if track.step is None else track.step.begun
    return (
        str(track.tp),
        track.state.words,
        "-" if track.batch is None else f"{track.batch:,}",
        replica_list_text(track.replicas),
        "-" if begun is None else replica_list_text(begun.replicas),
        "-" if begun is None or begun.elect is None else str(begun.elect),
        replica_list_text(track.target),
        local_time(track.since),
    )


def _troubled(status: StatusFacts) -> list[str]:
    run = status.run
    if not run.troubled:
        return []
    header = ("PARTITION", "STATE", "SINCE", "REPLICAS", "TARGET", "REASON")
    rows = [
        (
            *_state(track),
            replica_list_text(track.replicas),
            replica_list_text(track.target),
            status.reason(track) or "-",
        )
        for track in run.troubled.values()
    ]
    return [f"in trouble: {as_count(len(rows), 'partition')}", table(header, rows)]


def _waiting(waits: Sequence[Waiting]) -> list[str]:
    if not waits:
        return []
    rows = [(*_state(each.track), each.reason.sentence) for each in waits]
    header = ("PARTITION", "STATE", "SINCE", "WHY")
    return ["waiting for their next step", *_first_rows(header, rows)]


def _cancelled(status: StatusFacts) -> list[str]:
    """List the partitions that operators have cancelled, those still moving first."""
    cancelled = sorted(status.cancelled, key=lambda each: each[0].state.ended)
    if not cancelled:
        return []
    header = ("PARTITION", "ASKED", "STATE", "SINCE", "REPLICAS", "ORIGINAL", "TARGET")
    rows = [
        (
            str(track.tp),
            KIND_IN_WORDS[kind],
            track.state.words,
            local_time(track.since),
            replica_list_text(track.replicas),
            replica_list_text(track.original),
            replica_list_text(track.target),
        )
        for track, kind in cancelled
    ]
    return [f"cancelled: {as_count(len(cancelled), 'partition')}", *_first_rows(header, rows)]


def _state(track: Track) -> tuple[str, str, str]:
    return str(track.tp), track.state.words, local_time(track.since)


def _first_rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield table(header, rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        yield f"and {len(rows) - MOST_ROWS:,} more"
