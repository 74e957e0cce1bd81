"""The text of a run's status, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktui.cli.output.table import table
from ktui.cli.run.runs import local_time, state_in_words
from ktui.cluster.text import clean
from ktui.execution.forecast.estimate import BY_EARLIER_RUNS, UNTOLD, CopiedBytes
from ktui.execution.forecast.progress_text import outage_text
from ktui.execution.forecast.wait_text import Waiting
from ktui.execution.host.catalog import RunState, recording_now, run_state
from ktui.execution.host.ownership import Holder
from ktui.execution.run.event_text import (
    KIND_IN_WORDS,
    batch_noun,
    event_sentence,
    limits_text,
    pause_origin_text,
    replica_list_text,
    scope_text,
)
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.throttle_standing import left_throttle_text, throttle_wait_text
from ktui.execution.run.track import Track
from ktui.progress.timeline import Range
from ktui.quantities import as_bytes, as_count, as_duration

MOST_ROWS = 40
"""Rows shown of the partitions that wait, and of those that were cancelled."""


def status_text(
    run: Run,
    owner: Holder | None,
    copied: CopiedBytes = UNTOLD,
    cancel_gate: str | None = None,
    silent: str | None = None,
    waits: Sequence[Waiting] = (),
) -> str:
    """Describe a run: its settings, its progress, the steps in flight, and all trouble.

    Args:
        run: the run, from its journal.
        owner: the process that owns it.
        copied: the progress of its copies, with the time left where that is known.
        cancel_gate: who has shut the cluster's cancel gate, and how to open it.
        silent: for how long its engine has not polled the cluster.
        waits: the partitions that wait, and why.
    """
    sections = [
        _head(run, owner, cancel_gate, silent),
        _progress(run, copied),
        _in_flight(run),
        _troubled(run),
        _waiting(waits),
        _called_off(run),
    ]
    text = "\n\n".join("\n".join(lines) for lines in sections if lines)
    return "\n".join(map(clean, text.split("\n")))


def _head(run: Run, owner: Holder | None, cancel_gate: str | None, silent: str | None) -> list[str]:
    state = run_state(run, owner)
    batch = f", batch {run.batch:,}" if run.batch else ""
    facts = [
        *_origin(run),
        *_ownership(run, owner, state),
        *(() if silent is None else (("engine", silent),)),
        *_settings(run, owner),
        *_health(run, owner),
        *(() if cancel_gate is None else (("gate", cancel_gate),)),
    ]
    width = max(len(name) for name, _ in facts)
    lines = [f"  {name:<{width}}  {value}" for name, value in facts]
    return [f"run {run.name}: {state_in_words(state)}{batch}", *lines]


def _origin(run: Run) -> Iterator[tuple[str, str]]:
    if run.started is not None:
        yield "plan", f"{run.started.plan}, {as_count(run.started.partitions, 'partition')}"
        for each in run.additions.plans:
            count = as_count(each.added.partitions, "partition")
            yield "added", f"{each.added.plan}, {count}, {local_time(each.at)}"
        off = ", not owned: others are not kept from it" if run.ownership_off else ""
        yield "cluster", f"{run.started.cluster_id}{off}"
        yield "started", local_time(run.started_at)


def _ownership(run: Run, owner: Holder | None, state: RunState) -> Iterator[tuple[str, str]]:
    if state is RunState.ENDED:
        yield "ended", local_time(run.ended_at)
    elif owner is not None:
        yield "owner", str(owner)
    elif run.exported is not None:
        yield "exported", f"{local_time(run.at)}, {event_sentence(run.exported)}"
    else:
        why = f" ({run.left})" if run.left else ""
        yield "owner", f"none{why}; to resume it: ktui resume {run.name}"


def _settings(run: Run, owner: Holder | None) -> Iterator[tuple[str, str]]:
    batch = f"{batch_noun(run.limits)} {run.limits_changed_at + 1:,}"
    since = f", since {batch}" if run.limits_changed_at else ""
    yield "limits", f"{limits_text(run.limits)}{since}"
    yield from _throttle(run, owner)
    yield "options", ", ".join(_options(run))
    for by, reason in run.pauses.whole.items():
        yield "paused", f"by {pause_origin_text(by)}{f': {reason}' if reason else ''}"
    scope = scope_text(sorted(run.pauses.topics), sorted(run.pauses.partitions))
    if scope:
        yield "paused", scope


def _throttle(run: Run, owner: Holder | None) -> Iterator[tuple[str, str]]:
    throttled = run.throttled
    if throttled.rates:
        words = throttled.rates.with_leaders(throttled=run.options.throttle_leaders)
        yield "throttle", words
    if throttled.refusal:
        yield "throttle", f"refused: {throttled.refusal}"
    why = throttle_wait_text(run) or (left_throttle_text(run) if owner is None else None)
    if why is not None:
        yield "throttle", f"{why}; see: ktui throttle {run.name}"


def _options(run: Run) -> Iterator[str]:
    chosen = run.options
    yield f"on stall {chosen.on_stall} (after {as_duration(chosen.stall_timeout_s)})"
    yield f"on foreign change {chosen.on_foreign_change}"
    if chosen.stop_on_failure:
        yield "stop on failure"
    if run.until is not None:
        yield f"until {local_time(run.until)}"
    if chosen.most_under_min_isr is not None:
        yield f"at most {chosen.most_under_min_isr:,} others under min ISR"
    if chosen.most_offline is not None:
        yield f"at most {chosen.most_offline:,} others offline"
    if not chosen.record:
        yield "not recorded"
    yield f"a poll every {chosen.poll_s:g} s"


def _health(run: Run, owner: Holder | None) -> Iterator[tuple[str, str]]:
    if run.outage is not None and owner is not None:
        yield "cluster", f"lost {outage_text(run.outage)}"
    if run.gate.shut:
        yield "gate", f"shut: {run.gate.reason}"
    if run.damage is not None:
        yield "journal", f"recovered: {run.damage}"
    recording = recording_now(run, owner)
    if recording.on or recording.reason:
        yield "recording", recording.reason or "on"


def _progress(run: Run, copied: CopiedBytes) -> list[str]:
    done = f"done {run.counts[State.DONE]:,} of {as_count(len(run.tracks), 'partition')}"
    copies = run.copies
    sizes = f", {as_bytes(copies.done)} of {as_bytes(copies.whole)} copied" if copies.whole else ""
    rows = [(state.words, f"{run.counts[state]:,}") for state in State if run.counts[state]]
    by = f" {BY_EARLIER_RUNS}" if copied.by_earlier_runs else ""
    left = "" if copied.left_s is None else f", {_left(copied.left_s)} left{by}"
    return [f"{done}{sizes}{left}", table(("STATE", "PARTITIONS"), rows, right=(1,))]


def _left(left_s: Range) -> str:
    low, middle, high = map(as_duration, (left_s.low, left_s.middle, left_s.high))
    return middle if low == high else f"{middle} ({low}-{high})"


def _in_flight(run: Run) -> list[str]:
    if not run.flying:
        return ["nothing is in flight"]
    header = ("PARTITION", "STATE", "BATCH", "REPLICAS", "TO", "ELECT", "TARGET", "SINCE")
    rows = [_flying(track) for track in run.flying.values()]
    return [f"in flight: {as_count(len(rows), 'step')}", table(header, rows, right=(2, 5))]


def _flying(track: Track) -> tuple[str, ...]:
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


def _waiting(waits: Sequence[Waiting]) -> list[str]:
    if not waits:
        return []
    rows = [
        (
            str(each.track.tp),
            each.track.state.words,
            local_time(each.track.since),
            each.reason.sentence,
        )
        for each in waits[:MOST_ROWS]
    ]
    more = [f"and {len(waits) - MOST_ROWS:,} more"] if len(waits) > MOST_ROWS else []
    return [
        "waiting for their next step",
        table(("PARTITION", "STATE", "SINCE", "WHY"), rows),
        *more,
    ]


def _troubled(run: Run) -> list[str]:
    if not run.troubled:
        return []
    header = ("PARTITION", "STATE", "SINCE", "REPLICAS", "TARGET", "REASON")
    rows = [
        (
            str(track.tp),
            track.state.words,
            local_time(track.since),
            replica_list_text(track.replicas),
            replica_list_text(track.target),
            track.reason or "-",
        )
        for track in run.troubled.values()
    ]
    return [f"in trouble: {as_count(len(rows), 'partition')}", table(header, rows)]


def _called_off(run: Run) -> list[str]:
    """List the partitions that operators have cancelled, those still moving first."""
    cancelled = [track for track in run.tracks.values() if track.cancel is not None]
    if not cancelled:
        return []
    shown = sorted(cancelled, key=lambda track: track.state.ended)[:MOST_ROWS]
    header = ("PARTITION", "ASKED", "STATE", "SINCE", "REPLICAS", "ORIGINAL", "TARGET")
    rows = [
        (
            str(track.tp),
            "-" if track.cancel is None else KIND_IN_WORDS[track.cancel],
            track.state.words,
            local_time(track.since),
            replica_list_text(track.replicas),
            replica_list_text(track.original),
            replica_list_text(track.target),
        )
        for track in shown
    ]
    more = [f"and {len(cancelled) - MOST_ROWS:,} more"] if len(cancelled) > MOST_ROWS else []
    return [f"called off: {as_count(len(cancelled), 'partition')}", table(header, rows), *more]
