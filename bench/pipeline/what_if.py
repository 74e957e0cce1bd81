"""Time to simulate 100 limit sets of a run of 10,000 partitions, in Spark and without Spark."""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from bench.checks import check_count
from bench.timing import deeds_in_turn, ratio
from ktui.execution.run.events import AnyRunEvent, Planned, PlannedPart, Started, encode
from ktui.execution.run.options import RunOptions
from ktui.insights import RateCurve
from ktui.pacing.limits import Limits
from ktui.pipeline.forecast.model import Model
from ktui.pipeline.forecast.play import GridCell, playable_run, simulate_cell
from ktui.pipeline.forecast.what_if import Models, what_if
from ktui.pipeline.lake.schema import Table
from ktui.pipeline.lake.tables import BATCHES, POLLS, RATES, RUN_EVENTS, RUNS
from ktui.pipeline.spark.session import start
from ktui.planning.throttle_rates import parse_throttle_rates

MOVES = 10_000
BROKERS = 30
TURNS = 3
OWN = Limits(partitions=30, replicas=1)
CURVE = RateCurve(
    most_bytes_s=100e6, half_at=1.5, most_at_once=20, throttled=0.9, low=0.7, high=1.2
)
MODEL = Model(CURVE, joining_s=1, other_s=1, runs=("other@1",))
_TOTALS: set[int] = set()
"""The sums of the times that each way has predicted, in seconds."""
_RUN = {"cluster_id": "bench", "run": "drain", "run_id": "drain@1"}


def cells() -> tuple[GridCell, ...]:
    """Return 99 limit sets; the run's own makes them 100."""
    throttles = [parse_throttle_rates(each) for each in ("none", "20MB/s", "50MB/s")]
    limits = [
        Limits(partitions=partitions, replicas=replicas, per_broker=per_broker)
        for partitions in (1, 2, 5, 10, 20, 50)
        for replicas, per_broker in ((1, None), (1, 2), (2, 2), (None, 2), (None, None))
    ]
    more = [GridCell(Limits(partitions=p), parse_throttle_rates("30MB/s")) for p in range(10, 19)]
    return (*(GridCell(each, throttle) for each in limits for throttle in throttles), *more)


def run() -> None:
    """Print seconds per limit set, in Spark on all cores and in one process on one core."""
    spark = start(f"local[{os.cpu_count()}]", more={"spark.driver.memory": "2g"})
    events, grid = list(_events()), cells()
    tables = _tables(spark, events)
    in_spark, alone = deeds_in_turn(
        (partial(_in_spark, tables, grid), partial(_alone, events, grid)), TURNS
    )
    spark.stop()
    sets = len(grid) + 1
    print(
        f"what if, {sets} limit sets of {MOVES:,} moves on {BROKERS} brokers: in Spark, "
        f"{os.cpu_count()} cores, {_as_text(in_spark, sets)}; "
        f"alone, one core, {_as_text(alone, sets)}; "
        f"Spark takes {ratio(in_spark, alone):.2f} times that"
    )


def _as_text(taken: list[float], sets: int) -> str:
    low, middle, high = min(taken), sorted(taken)[len(taken) // 2], max(taken)
    return f"{middle:.0f} s ({low:.0f}-{high:.0f}), {middle / sets:.2f} s each"


def _in_spark(tables: Mapping[str, DataFrame], grid: tuple[GridCell, ...]) -> None:
    models = Models({_RUN["cluster_id"]: MODEL}, {})
    rows = what_if(tables, models=models, cells=grid).toArrow()
    check_count("moves in a row", min(rows["partitions"].to_pylist()), MOVES)
    _check(rows["predicted_s"].to_pylist(), grid)


def _alone(events: list[AnyRunEvent], grid: tuple[GridCell, ...]) -> None:
    recorded = playable_run(_RUN["run"], events)
    moves = recorded.moves()
    every = (recorded.cell, *grid)
    check_count("moves", len(moves.wanted), MOVES)
    played = [simulate_cell(moves, cell, MODEL, own=cell is recorded.cell) for cell in every]
    _check([cell.predicted_s for cell in played], grid)


def _check(predicted_s: list[float], grid: tuple[GridCell, ...]) -> None:
    """Check that each limit set has a time, and that both ways predict the same."""
    possible = [seconds for seconds in predicted_s if seconds > 0 and math.isfinite(seconds)]
    check_count("limit sets with a time", len(possible), len(grid) + 1)
    _TOTALS.add(round(sum(possible)))
    check_count("sums of predicted times", len(_TOTALS), 1)


def _events() -> Iterator[AnyRunEvent]:
    yield Started(
        cluster_id=_RUN["cluster_id"],
        plan="drain.json",
        plan_sha256="0" * 64,
        partitions=MOVES,
        limits=OWN,
        options=RunOptions(),
        version="bench",
    )
    chance = random.Random(1)  # noqa: S311 - not a secret
    yield PlannedPart(partitions=tuple(_planned(number, chance) for number in range(MOVES)))


def _planned(number: int, chance: random.Random) -> Planned:
    here = tuple((number + place) % BROKERS + 1 for place in range(3))
    return Planned(
        topic=f"topic-{number // 200:03}",
        partition=number % 200,
        topic_id=None,
        target=(*here[:2], (number + 3) % BROKERS + 1),
        original=here,
        leader=here[0],
        size=int(chance.paretovariate(1.3) * 200e6),
    )


def _tables(spark: SparkSession, events: list[AnyRunEvent]) -> Mapping[str, DataFrame]:
    """Return the tables of one completed run without promises that what-if needs, by name."""
    entries = [
        {**_RUN, "entry": number, "kind": json.loads(text)["event"], "event": text.decode()}
        for number, text in enumerate(map(encode, events), start=1)
    ]
    spans = {**_RUN, "began_t": 0, "ended_t": 3_600_000}
    outcomes = {"outcomes": {"done": MOVES}, "partitions": MOVES}
    return {
        RUN_EVENTS.name: _table(spark, RUN_EVENTS, entries),
        RUNS.name: _table(spark, RUNS, [spans | outcomes]),
        BATCHES.name: _table(spark, BATCHES, [spans]),
        **{each.name: spark.createDataFrame([], each.schema) for each in (RATES, POLLS)},
    }


def _table(spark: SparkSession, table: Table, rows: list[dict[str, Any]]) -> DataFrame:
    """Return a table's rows, with only the columns that the rows have."""
    schema = StructType([field for field in table.schema if field.name in rows[0]])
    return spark.createDataFrame(rows, schema)
