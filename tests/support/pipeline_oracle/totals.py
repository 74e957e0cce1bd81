"""The tables of totals: batches and runs, and brokers minute by minute."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from ktui.execution.run.events import JournalEntry, decode
from ktui.execution.run.run import Run
from ktui.execution.run.throttle_ledger import ThrottleLedger
from ktui.recording.segments import from_wall_ms, wall_ms
from support.pipeline_oracle.moves import pairs, total
from support.pipeline_oracle.read import Happened, Listing, Partition, Sample
from support.pipeline_oracle.runs import OneOfRun, RecordedRun, RunStep, named

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


Row = dict[str, Any]
Figures = defaultdict[tuple[str, int, int], defaultdict[str, list[int]]]
"""By cluster, broker and minute."""
_MINUTE_MS = 60_000


def batches(runs: Iterable[RecordedRun]) -> Iterator[Row]:
    """Yield each decision of each run that submitted steps."""
    for run in runs:
        steps: defaultdict[int, list[tuple[OneOfRun, RunStep]]] = defaultdict(list)
        for one in run.partitions.values():
            for step in one.steps:
                steps[step.batch].append((one, step))
        for batch, mine in steps.items():
            over = max(step.over for _, step in mine)
            yield {
                "cluster_id": run.cluster_id,
                "run": run.name,
                "run_id": run.run_id,
                "batch": batch,
                "began_t": min(step.began for _, step in mine),
                "ended_t": None if over == math.inf else over,
                "partitions": len({one.tp for one, _ in mine}),
                "steps": len(mine),
                "alters": sum(step.alters for _, step in mine),
                "elections": sum(step.elects for _, step in mine),
            }


def summaries(runs: Iterable[RecordedRun]) -> Iterator[Row]:
    """Yield the rows of the table `runs`."""
    for run in runs:
        steps = [step for one in run.partitions.values() for step in one.steps]
        started = run.fold.started
        yield {
            "cluster_id": run.cluster_id,
            "run": run.name,
            "run_id": run.run_id,
            "began_t": run.began,
            "ended_t": run.ended,
            "partitions": len(run.fold.tracks),
            "outcomes": {state.value: n for state, n in run.fold.counts.items() if n},
            "batches": len({step.batch for step in steps}),
            "steps": len(steps),
            "limit_changes": run.limit_changes,
            **summed_up(run),
            "plan": None if started is None else started.plan,
            "version": None if started is None else started.version,
        }


def brokers(found: Mapping[Partition, list[Listing]], samples: Iterable[Sample]) -> Iterator[Row]:
    """Yield the inbound and outbound copies of each broker, minute by minute."""
    rows: Figures = defaultdict(lambda: defaultdict(list))
    for key, listings in found.items():
        for listing in listings:
            _copied(rows, key.cluster_id, listing)
    _seen(rows, [sample for sample in samples if not sample.shadowed])
    for (cluster, broker, minute), figures in rows.items():
        yield {
            "cluster_id": cluster,
            "broker": broker,
            "minute_t": minute * _MINUTE_MS,
            **{name: total(figures[name]) for name in _SUMS},
            "follower_throttle": max(figures["follower_throttle"], default=None),
            "adding": max(figures["adding"], default=0),
        }


def _copied(rows: Figures, cluster: str, listing: Listing) -> None:
    for pair in pairs(listing):
        for broker, way in ((pair.broker, "in"), (pair.leader, "out")):
            if broker is not None:
                figures = rows[cluster, broker, pair.read_t // _MINUTE_MS]
                figures[f"messages_{way}"].append(pair.messages)
                if pair.bytes is not None:
                    figures[f"bytes_{way}"].append(pair.bytes)


def _seen(rows: Figures, samples: list[Sample]) -> None:
    adding: defaultdict[tuple[str, str, int, int, int], int] = defaultdict(int)
    for sample in samples:
        cluster, minute = sample.key.cluster_id, sample.t // _MINUTE_MS
        for rates in sample.rates:
            if rates.follower is not None:
                rows[cluster, rates.broker, minute]["follower_throttle"].append(rates.follower)
        for broker in sample.adding:
            adding[cluster, sample.session, sample.seq, broker, minute] += 1
    for (cluster, _, _, broker, minute), count in adding.items():
        rows[cluster, broker, minute]["adding"].append(count)


_SUMS = ("bytes_in", "bytes_out", "messages_in", "messages_out")
