"""All tables as the oracle computes them: rows as mappings, times in milliseconds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from support.pipeline_oracle import moves, totals
from support.pipeline_oracle.read import Figure, Happened, Poll, Sample, listings, read
from support.pipeline_oracle.runs import runs_of
from support.pipeline_oracle.totals import rates

Row = dict[str, Any]
Tables = dict[str, list[Row]]


def tables_of(folder: Path) -> Tables:
    """Compute all tables of the recordings in a folder."""
    recorded = read(folder)
    runs, found = runs_of(recorded.events), listings(recorded.samples)
    return {
        "samples": [_sample(each) for each in recorded.samples],
        "polls": [_poll(each) for each in recorded.polls],
        "run_events": [_event(each) for each in recorded.events],
        "quarantine": [{"file": file, "line": n} for file, n in recorded.quarantined],
        "states": [*_spans(moves.states(found, runs), dated=True)],
        "moves": [*_spans(moves.moves(found, runs))],
        "batches": [*_spans(totals.batches(runs))],
        "runs": [*_spans(totals.summaries(runs))],
        "rates": [row for run in runs for row in rates(run)],
        "brokers": [*totals.brokers(found, recorded.samples)],
    }


def _sample(sample: Sample) -> Row:
    plain = (
        "session", "seq", "t", "took_ms", "replicas", "isr", "leader", "leader_epoch", "adding",
        "removing", "offline", "elr", "described", "log_start", "log_start_read_t", "down",
        "shadowed",
    )  # fmt: skip
    return {
        **_key(sample),
        **{name: getattr(sample, name) for name in plain},
        "at": sample.t,
        "date": _date(sample.t),
        "ends": _figures(sample.ends, "end"),
        "sizes": _figures(sample.sizes, "bytes"),
        "rates": [[("broker", r.broker), ("follower", r.follower), ("leader", r.leader)]
                  for r in sample.rates],
    }  # fmt: skip


def _key(sample: Sample) -> Row:
    key = sample.key
    return {
        "cluster_id": key.cluster_id,
        "topic": key.topic,
        "topic_id": key.topic_id,
        "partition": key.partition,
    }


def _figures(figures: Iterable[Figure], name: str) -> list[Any]:
    return [[("broker", f.broker), (name, f.value), ("read_t", f.read_t)] for f in figures]


def _poll(poll: Poll) -> Row:
    row: Row = {name: getattr(poll, name) for name in poll.__struct_fields__}
    return {**row, "at": poll.t, "date": _date(poll.t)}


def _event(event: Happened) -> Row:
    text = event.event.decode()
    return {
        "cluster_id": event.cluster_id,
        "date": _date(event.t),
        "run": event.run,
        "run_id": event.run_id,
        "entry": event.entry,
        "at": event.t,
        "t": event.t,
        "kind": json.loads(text)["event"],
        "event": text,
        "session": event.session,
    }


def _spans(rows: Iterable[Row], *, dated: bool = False) -> Iterator[Row]:
    """Add the columns that repeat others."""
    for row in rows:
        more: Row = {"began": row["began_t"], "ended": row["ended_t"]}
        if dated:
            more["date"] = _date(row["began_t"])
        yield {**row, **more}


def _date(t: int) -> str:
    return datetime.fromtimestamp(t // 1000, UTC).date().isoformat()
