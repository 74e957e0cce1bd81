"""The tables of totals: batches and runs, and brokers minute by minute."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from support.pipeline_oracle.copying import pairs
from support.pipeline_oracle.listings import Listing
from support.pipeline_oracle.measures import total
from support.pipeline_oracle.rates import summed_up
from support.pipeline_oracle.runs import OneOfRun, RecordedRun, RunStep
from support.pipeline_oracle.tables import Partition, Sample

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
