"""The tables of partitions' states over time, and of the outcomes of their moves.

Each function yields rows as mappings from column to value; times are normalised milliseconds.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from support.pipeline_oracle.listings import Listing
from support.pipeline_oracle.measures import measures
from support.pipeline_oracle.runs import OneOfRun, RecordedRun, RunStep, closes, waits
from support.pipeline_oracle.tables import Partition

Row = dict[str, Any]
Listings = Mapping[Partition, list[Listing]]
Steps = Mapping[Partition, list[RunStep]]


def all_steps(runs: Iterable[RecordedRun]) -> Steps:
    """Return the steps of all runs by partition."""
    steps: defaultdict[Partition, list[RunStep]] = defaultdict(list)
    for run in runs:
        for tp, one in run.partitions.items():
            steps[run.key(tp)] += one.steps
    return steps


def _run_at(steps: Iterable[RunStep], t: int) -> RunStep | None:
    """Return the step that contains a moment: of several, the one that began last."""
    within = [step for step in steps if step.contains(t)]
    return min(within, key=lambda step: (-step.began, step.run_id), default=None)


def states(found: Listings, runs: Iterable[RecordedRun]) -> Iterator[Row]:
    """Yield the intervals of each partition's states."""
    steps = all_steps(runs)
    for key, listings in found.items():
        for each in (interval for listing in listings for interval in listing.intervals):
            step = _run_at(steps.get(key, ()), each.began)
            who = (None, None) if step is None else (step.run, step.run_id)
            yield _state(key, who, (each.state, each.began, each.ended, each.open))
    for run in runs:
        for tp, one in run.partitions.items():
            for wait in waits(run, one):
                yield _state(run.key(tp), (run.name, run.run_id), wait)


def _state(
    key: Partition, who: tuple[str | None, str | None], what: tuple[str, int, int, bool]
) -> Row:
    state, began, ended, still = what
    return {
        **msgspec.structs.asdict(key),
        "run": who[0],
        "run_id": who[1],
        "state": state,
        "began_t": began,
        "ended_t": ended,
        "open": still,
    }


def moves(found: Listings, runs: Iterable[RecordedRun]) -> Iterator[Row]:
    """Yield each partition's moves, those of runs and those of others."""
    steps = all_steps(runs)
    of_runs: defaultdict[tuple[str, Partition], list[Listing]] = defaultdict(list)
    for key, listings in found.items():
        for listing in listings:
            step = _run_at(steps.get(key, ()), listing.began)
            if step is None:
                yield {**_others(key, listing), **measures([listing])}
            else:
                of_runs[step.run_id, key].append(listing)
    for run in runs:
        for tp, one in run.partitions.items():
            if one.steps:
                key = run.key(tp)
                mine = of_runs[run.run_id, key]
                yield {**_of_run(run, one), **measures(mine)}


def _others(key: Partition, listing: Listing) -> Row:
    first, last, left = listing.samples[0], listing.samples[-1], listing.left
    original = [broker for broker in first.replicas if broker not in first.adding]
    target = [broker for broker in last.replicas if broker not in last.removing]
    if left is None:
        outcome = "unknown"
    elif list(left.replicas) == target:
        outcome = "done"
    elif {*left.replicas} == {*original}:
        outcome = "cancelled"
    else:
        outcome = "changed_elsewhere"
    return {
        **msgspec.structs.asdict(key),
        "run": None,
        "run_id": None,
        "began_t": listing.began,
        "ended_t": None if left is None else left.t,
        "outcome": outcome,
        "steps": 1,
        "batch": None,
        "limits": None,
        "original": original,
        "target": target,
    }


def _of_run(run: RecordedRun, one: OneOfRun) -> Row:
    track = run.fold.tracks.get(one.tp)
    closed = [t for t, event, _ in one.moments if closes(event)]
    return {
        **msgspec.structs.asdict(run.key(one.tp)),
        "run": run.name,
        "run_id": run.run_id,
        "began_t": one.steps[0].began,
        "ended_t": closed[-1] if closed and run.is_over(one) else None,
        "outcome": "unknown" if track is None else track.state.value,
        "steps": len(one.steps),
        "batch": one.steps[0].batch,
        "limits": None if one.limits is None else json.loads(msgspec.json.encode(one.limits)),
        "original": None if track is None else list(track.planned.original),
        "target": None if track is None else list(track.planned.target),
    }
