"""The tables of partitions' states over time, and of the outcomes of their moves.

Each function yields rows as mappings from column to value; times are normalised milliseconds.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import msgspec

from support.pipeline_oracle.read import NEAR_MS, Listing, Partition, Sample
from support.pipeline_oracle.runs import OneOfRun, RecordedRun, RunStep, closes, waits


class Pair(msgspec.Struct, frozen=True):
    """Two readings of one replica, and what was copied between them."""

    broker: int
    leader: int | None
    read_t: int
    messages: int
    bytes: int | None
    messages_s: float
    bytes_s: float | None


def pairs(listing: Listing) -> Iterator[Pair]:
    """Yield the pairs of a listing, broker by broker."""
    for broker in listing.added:
        read = [(sample, end) for sample in listing.samples if (end := sample.end(broker))]
        for (before, first), (sample, second) in pairwise(read):
            passed = second.read_t - first.read_t
            adding = broker in before.adding and broker in sample.adding
            if not adding or not 0 < passed <= NEAR_MS or second.value < first.value:
                continue
            if sample.log_start is not None and first.value < sample.log_start:
                continue
            messages, each = second.value - first.value, _bytes_per_message(sample)
            messages_s = messages * 1000 / passed
            yield Pair(
                broker=broker,
                leader=sample.leader,
                read_t=second.read_t,
                messages=messages,
                bytes=None if each is None else math.floor(messages * each + 0.5),
                messages_s=messages_s,
                bytes_s=None if each is None else messages_s * each,
            )


def _bytes_per_message(sample: Sample) -> float | None:
    """Return the bytes per message of the leader; None while they are not known."""
    if sample.leader is None or sample.log_start is None:
        return None
    end, size = sample.end(sample.leader), sample.size(sample.leader)
    if end is None or size is None or end.value <= sample.log_start:
        return None
    return size / (end.value - sample.log_start)


def measures(listings: list[Listing]) -> dict[str, Any]:
    """Return the measures of a move, over the listings that belong to it."""
    found = [pair for listing in listings for pair in pairs(listing)]
    messages = [pair.messages_s for pair in found]
    sizes = [pair.bytes_s for pair in found if pair.bytes_s is not None]
    throttles = _throttles(listings)
    return {
        "added": sorted({broker for listing in listings for broker in listing.added}),
        "messages": total(_messages(listing, b) for listing in listings for b in listing.added),
        "bytes": total(_bytes(listing, b) for listing in listings for b in listing.added),
        **{f"rate_messages_p{p}": _percentile(messages, p / 100) for p in (10, 50, 90)},
        **{f"rate_bytes_p{p}": _percentile(sizes, p / 100) for p in (10, 50, 90)},
        **_spent(listings),
        "throttle_min": min(throttles, default=None),
        "throttle_max": max(throttles, default=None),
        "looks": sum(len(listing.samples) for listing in listings),
    }


def _spent(listings: list[Listing]) -> dict[str, int | None]:
    """Return the stalls and the times in each state; None if no poll saw the move."""
    spent: dict[str, int | None] = {
        f"{state.replace(' ', '_')}_ms": sum(each.milliseconds(state) for each in listings)
        for state in ("stalled", "catching up", "in sync", "adding")
    }
    spent["stalls"] = sum(i.state == "stalled" for each in listings for i in each.intervals)
    return spent if listings else dict.fromkeys(spent)


def total(figures: Iterable[int | None]) -> int | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None


def _messages(listing: Listing, broker: int) -> int | None:
    ends = [figure.value for sample in listing.samples if (figure := sample.end(broker))]
    starts = [sample.log_start for sample in listing.samples if sample.log_start is not None]
    return max(0, ends[-1] - starts[0]) if ends and starts else None


def _bytes(listing: Listing, broker: int) -> int | None:
    sizes = [_last(sample.size(broker) for sample in listing.samples)]
    if any(broker in sample.isr for sample in (listing.samples[-1], listing.left) if sample):
        leaders = ((sample, sample.leader) for sample in listing.samples)
        sizes.append(_last(None if b is None else sample.size(b) for sample, b in leaders))
    return max((size for size in sizes if size is not None), default=None)


def _last(figures: Iterable[int | None]) -> int | None:
    known = [figure for figure in figures if figure is not None]
    return known[-1] if known else None


def _throttles(listings: list[Listing]) -> list[int]:
    return [
        rates.follower
        for listing in listings
        for sample in listing.samples
        for rates in sample.rates
        if rates.broker in sample.adding and rates.follower is not None
    ]


def _percentile(figures: list[float], share: float) -> float | None:
    """Return the exact percentile, with linear interpolation between two figures."""
    if not figures:
        return None
    ordered, place = sorted(figures), share * (len(figures) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


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
