"""The rates of a run over time, from the run's events."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from ktui.execution.run.events import JournalEntry, decode
from ktui.execution.run.run import Run
from ktui.execution.run.throttle_ledger import ThrottleLedger
from ktui.recording.lines import from_wall_ms, wall_ms
from support.pipeline_oracle.runs import RecordedRun, named
from support.pipeline_oracle.tables import Happened

Row = dict[str, Any]
_KINDS = ("started", "throttle", "schedule", "budget_shared", "rate_chosen", "rate_held")


def rates(run: RecordedRun) -> list[Row]:
    """Return the rows of the table `rates` of one run: none before its start."""
    return [row for begun, row in _all_rates(run) if begun]


def _all_rates(run: RecordedRun) -> list[tuple[bool, Row]]:
    """Return the rows, and whether the start of the run was recorded by then."""
    found: list[tuple[bool, Row]] = []
    fold, last_t = Run(run.name), 0
    for happened in run.events:
        event = decode(happened.event)
        if happened.t > last_t:  # a recorder's times may go back
            if found and fold.tracks_in_flight:
                found[-1][1]["in_flight_ms"] += happened.t - last_t
            last_t = happened.t
        if not {*named(event)} <= fold.tracks.keys():
            continue
        fold.apply(JournalEntry(happened.entry, from_wall_ms(happened.at), event))
        if _content(happened)["event"] in _KINDS:
            found.append((fold.started is not None, _row(run, happened, fold.throttled)))
    return found


def summed_up(run: RecordedRun) -> Row:
    """Return the columns of the table `runs` about the run's rates."""
    by = run.fold.schedule.by
    held: Row = {}
    objective = run.fold.throttled.rates.objective
    for _, row in _all_rates(run):
        if objective is None or row["objective"] != str(objective):
            held = {}
        elif row["kind"] == "rate_held":
            held = row
    in_force = [(row["bytes_s"], row["brokers"]) for row in rates(run)]
    changes = sum(in_force[n] != in_force[n - 1] for n in range(1, len(in_force)))
    by_t = None if by is None else wall_ms(by)
    return {
        "objective": None if objective is None else str(objective),
        "windows": held.get("windows"),
        "kept": held.get("kept"),
        "by": by_t,
        "by_t": by_t,
        "late_ms": None if by_t is None or run.ended is None else run.ended - by_t,
        "rate_changes": changes if in_force else None,
    }


def _content(happened: Happened) -> Row:
    content: Row = json.loads(happened.event)
    return content


def _row(run: RecordedRun, happened: Happened, ledger: ThrottleLedger) -> Row:
    event, in_force = _content(happened), ledger.in_force
    held = event["event"] == "rate_held"
    ends_at = event.get("ends_at")
    return {
        "cluster_id": run.cluster_id,
        "run": run.name,
        "run_id": run.run_id,
        "entry": happened.entry,
        "at": happened.t,
        "t": happened.t,
        "kind": event["event"],
        "bytes_s": in_force.every,
        "brokers": [[("broker", b.broker), ("bytes_s", b.bytes_s)] for b in in_force.brokers],
        "chosen_by": _chooser(ledger),
        "in_flight_ms": 0,
        "objective": None if ledger.rates.objective is None else str(ledger.rates.objective),
        "figure": event.get("figure"),
        "reason": event.get("reason", "") if held and "figure" not in event else None,
        "windows": event.get("windows", 0) if held else None,
        "kept": event.get("kept", 0) if held else None,
        "ends_at": None if ends_at is None else wall_ms(datetime.fromisoformat(ends_at)),
        "late": event.get("late", False) if event["event"] == "rate_chosen" else None,
    }


def _chooser(ledger: ThrottleLedger) -> str | None:
    """Return whose rate is the lowest; of several, the operator before a budget and promises."""
    found: list[tuple[int, int, str]] = []
    if ledger.rates.every is not None:
        found.append((ledger.rates.every, 0, "operator"))
    if ledger.rates.budget is not None:
        found.append((min([*ledger.shares.values()] or [ledger.rates.budget]), 1, "budget"))
    if ledger.chosen is not None and ledger.chosen.rate is not None:
        found.append((ledger.chosen.rate, 2, "by"))
    if ledger.rates.objective is not None:
        found.append((ledger.held_at.rate if ledger.held_at else 1_000_000, 3, "objective"))
    if not found and any(each.bytes_s for each in ledger.rates.brokers):
        return "operator"
    return min(found)[2] if found else None
