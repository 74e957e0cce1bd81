"""The table `what_if`: recorded runs simulated under other limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from ktui.execution.run.events import AnyRunEvent, decode
from ktui.pacing.limits import Limits
from ktui.pipeline.forecast.advice import advise
from ktui.pipeline.forecast.model import (
    FitInputs,
    HeldOutTests,
    Model,
    fit,
    model_too_far_off,
    untested,
)
from ktui.pipeline.forecast.play import (
    GridCell,
    PlayableRun,
    RateSpan,
    SimulatedCell,
    playable_run,
    relative_grid,
    simulate_cell,
)
from ktui.pipeline.lake.engine import on_sail, schema_on
from ktui.pipeline.lake.schema import fit_to_table, require_columns, struct_of
from ktui.pipeline.lake.tables import BATCHES, POLLS, RATES, RUN_EVENTS, RUNS, WHAT_IF
from ktui.pipeline.tables.runs import RateChooser
from ktui.planning.throttle_rates import BrokerRate, ThrottleRates, parse_throttle_rates
from ktui.preview.facts import Moves

_PROMISES = (RateChooser.BY.value, RateChooser.OBJECTIVE.value)
_USUAL_CELLS = 75  # about as many as there are in a grid of a run's own limits and throttle
_FEW_TESTS = 10  # with fewer tests of the model, the least and the most count, and no percentiles


_SIMULATED = tuple(name for name in SimulatedCell.__struct_fields__ if name != "cell")
"""What a cell and its row have by the same names."""


class RealDuration(msgspec.Struct, frozen=True):
    """How long a run really took, and the model to check against that."""

    ms: int | None  # from the first step to the end of the last; None until then
    held_out: Model | None  # fitted on the other runs; None without, or if not all done
    by_s: float | None = None


def simulated_rows(
    run: PlayableRun, cells: Sequence[GridCell], model: Model, lasted: RealDuration
) -> Iterator[dict[str, Any]]:
    """Simulate a run under some cells; no rows where it had nothing to move."""
    moves = run.moves()
    for cell in cells if moves.wanted else ():
        own = cell == run.cell
        result = simulate_cell(moves, cell, model, own=own)
        if own:
            result = msgspec.structs.replace(
                result,
                driven_by=run.driven_by or None,
                by_s=None if run.disturbed else lasted.by_s,
                actual_s=None if lasted.ms is None else lasted.ms / 1000,
                disturbed=tuple(run.disturbed),
            )
        yield {
            "run": run.name,
            "partitions": len(moves.wanted),
            "bytes": moves.bytes_to_copy,
            "limits": msgspec.json.encode(cell.limits, order="deterministic").decode(),
            "throttle": cell.throttle.typed,
            **{name: getattr(result, name) for name in _SIMULATED},
            "error_held_out": _error(run, moves, lasted) if own else None,
            "calibrated_on": list(model.runs),
        }


def _error(run: PlayableRun, moves: Moves, lasted: RealDuration) -> float | None:
    if lasted.held_out is None or not lasted.ms or run.disturbed:
        return None
    return simulate_cell(moves, run.cell, lasted.held_out).predicted_s / (lasted.ms / 1000) - 1


def advised_rows(
    rows: Sequence[Mapping[str, Any]], window_s: float | None, tests: HeldOutTests
) -> Iterator[dict[str, Any]]:
    """Add to one run's rows the recommendation, its reason and error; `tests` widen ranges."""
    error = next(row["error_held_out"] for row in rows if row["own"])
    further = [*untested(tests), *model_too_far_off(error)]
    widened = []
    for row in rows:
        low_s, high_s = tests.widened(row["predicted_s"], row["low_s"], row["high_s"])
        beyond = [*row["beyond"], *further]
        widened.append({**row, "low_s": low_s, "high_s": high_s, "beyond": beyond})
    advice = advise([_played(row) for row in widened], window_s)
    for place, row in enumerate(widened):
        yield {
            **row,
            "error_held_out": error,
            "recommended": place == advice.place,
            "reason": advice.reason if place == advice.told_of else None,
            "record": advice.record if place == advice.told_of else None,
        }


def _played(row: Mapping[str, Any]) -> SimulatedCell:
    limits = msgspec.json.decode(row["limits"], type=Limits)
    cell = GridCell(limits, parse_throttle_rates(row["throttle"]))
    return SimulatedCell(cell=cell, **{name: row[name] for name in _SIMULATED})


_KINDS = (
    "started", "planned", "owned", "limits", "throttle", "setting_changed", "paused", "gate",
    "outage", "added", "recovered",
)  # fmt: skip
"""The events needed to simulate a run: not the thousands of events of its steps."""
_ADVICE = ("recommended", "reason", "record")
_PLAYED = struct_of(*(field for field in WHAT_IF.schema if field.name not in _ADVICE))


class Models(msgspec.Struct):
    """The models, fitted on the driver and sent to the executors with the work."""

    whole: dict[str, Model]
    held_out: dict[tuple[str, str], Model]  # by cluster and run id, without that run


def models(figures: Mapping[str, FitInputs], runs: Sequence[tuple[str, str]]) -> Models:
    """Fit models of all clusters on their figures, and of each run's cluster without that run."""
    whole = {cluster: fit(of.inflows, of.steps, of.partitions) for cluster, of in figures.items()}
    held_out = {
        (cluster, run_id): _without(run_id, figures[cluster])
        for cluster, run_id in runs
        if cluster in figures
    }
    return Models(
        {cluster: model for cluster, model in whole.items() if model is not None},
        {key: model for key, model in held_out.items() if model is not None},
    )


def _without(run_id: str, of: FitInputs) -> Model | None:
    inflows = [one for one in of.inflows if one.source != run_id]
    steps = [one for one in of.steps if one.source != run_id]
    return fit(inflows, steps)


def what_if(
    written: Mapping[str, DataFrame],
    *,
    models: Models,
    cells: Sequence[GridCell] | None,
    window_s: float | None = None,
) -> DataFrame:
    """Simulate every run whose start was recorded, in the executors.

    `written` has RUN_EVENTS, RUNS, BATCHES, RATES and POLLS, by name. Runs of a cluster without a
    model are left out. `cells` come in addition to each run's own; None for multiples of its own.
    `window_s` is the time in which a run should end; None without one.
    """
    most = _USUAL_CELLS if cells is None else len(cells) + 1
    events, runs = (written[each.name] for each in (RUN_EVENTS, RUNS))
    # Sail calls Python in this process, one at a time
    parallel = 1 if on_sail(events) else 2 * events.sparkSession.sparkContext.defaultParallelism
    lots = min(most, parallel)
    events = require_columns(events, RUN_EVENTS, ("cluster_id", "run_id", "entry", "kind", "event"))
    events = (
        events.where(F.col("kind").isin(*_KINDS))
        .select("cluster_id", "run", "run_id", "entry", "event")
        .join(_lasted(runs, written[BATCHES.name]), ["cluster_id", "run_id"], "inner")
        .join(_driven(written[RATES.name]), ["cluster_id", "run_id"], "left")
        .join(down_at_times(written[POLLS.name], runs), ["cluster_id", "run_id"], "left")
        .withColumn("lot", F.explode(F.sequence(F.lit(0), F.lit(lots - 1))))
    )
    lot = _lot(None if cells is None else tuple(cells), lots, models)
    played = events.groupBy("cluster_id", "run_id", "lot").applyInArrow(
        lot, schema_on(events, _PLAYED)
    )
    advised = (
        _tested(played)
        .groupBy("cluster_id", "run_id")
        .applyInArrow(_advised(window_s), schema_on(played, WHAT_IF.schema))
    )
    return fit_to_table(advised, WHAT_IF)


def _tested(played: DataFrame) -> DataFrame:
    """Add how the real times of `tested` runs compare with predicted ones."""
    times = F.when(F.col("own") & (F.col("error_held_out") > -1), 1 / (1 + F.col("error_held_out")))
    of_cluster = Window.partitionBy("cluster_id")
    return played.select(
        "*",
        F.count(times).over(of_cluster).alias("tested"),
        F.min(times).over(of_cluster).alias("least"),
        F.max(times).over(of_cluster).alias("most"),
        F.percentile(times, [0.1, 0.9]).over(of_cluster).alias("spread"),
    )


def held_out_tests(row: Mapping[str, Any]) -> HeldOutTests:
    """Read the tests of the model from a row."""
    if not row["tested"]:
        return HeldOutTests()
    few = row["tested"] < _FEW_TESTS
    low, high = (row["least"], row["most"]) if few else row["spread"]
    return HeldOutTests(row["tested"], low, high)


def _lasted(runs: DataFrame, batches: DataFrame) -> DataFrame:
    """Compute `lasted_ms` of each run (null until its end), `done`, and `by_ms` of --by."""
    runs = require_columns(
        runs, RUNS, ("cluster_id", "run_id", "ended_t", "outcomes", "partitions", "by_t")
    )
    spans = require_columns(batches, BATCHES, ("cluster_id", "run_id", "began_t", "ended_t"))
    spans = spans.groupBy("cluster_id", "run_id").agg(
        (F.max("ended_t") - F.min("began_t")).alias("lasted_ms"), F.min("began_t").alias("began_t")
    )
    ended = runs.select(
        "cluster_id",
        "run_id",
        "by_t",
        F.col("ended_t").isNotNull().alias("ended"),
        F.coalesce(F.expr("outcomes['done'] = partitions"), F.lit(False)).alias("done"),  # noqa: FBT003 - Spark's own signature
    )
    lasted = F.when(F.col("ended"), F.col("lasted_ms")).alias("lasted_ms")
    return ended.join(spans, ["cluster_id", "run_id"], "inner").select(
        "cluster_id", "run_id", "done", lasted, (F.col("by_t") - F.col("began_t")).alias("by_ms")
    )


def down_at_times(polls: DataFrame, runs: DataFrame) -> DataFrame:
    """Find the brokers, `down`, that some polls of a run saw alive, and others of it did not."""
    seen = require_columns(polls, POLLS, ("cluster_id", "t", "alive", "shadowed"))
    seen = seen.where(~F.col("shadowed") & (F.size("alive") > 0))  # none: it could not be read
    spans = require_columns(runs, RUNS, ("cluster_id", "run_id", "began_t", "ended_t"))
    spans = spans.select("cluster_id", "run_id", "began_t", "ended_t")
    within = F.col("t").between(F.col("began_t"), F.coalesce("ended_t", "t"))
    of_run = seen.join(F.broadcast(spans), "cluster_id").where(within)
    alive = F.collect_set("alive").alias("alive")
    ever = F.array_distinct(F.flatten("alive"))
    always = F.aggregate("alive", F.col("alive")[0], F.array_intersect)
    found = of_run.groupBy("cluster_id", "run_id").agg(alive)
    return found.select("cluster_id", "run_id", F.array_except(ever, always).alias("down"))


def _driven(rates: DataFrame) -> DataFrame:
    rates = require_columns(rates, RATES).where("in_flight_ms > 0")
    names = ("entry", "in_flight_ms", "bytes_s", "brokers", "chosen_by")
    row = F.struct(*names)
    if on_sail(rates):  # of a union of versions it has two types for what is within the array
        row = row.cast(T.StructType([RATES.schema[name] for name in names]).simpleString())
    of_run = rates.groupBy("cluster_id", "run_id").agg(
        F.sort_array(F.collect_list(row)).alias("rates")
    )
    return of_run.where(F.exists("rates", lambda one: one.chosen_by.isin(*_PROMISES)))


def _lot(
    cells: Sequence[GridCell] | None, lots: int, models: Models
) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    schema = to_arrow_schema(_PLAYED)

    def played(key: tuple[pa.Scalar, ...], events: pa.Table) -> pa.Table:
        with suppress(Exception):  # recordings are untrusted; one bad run must not stop the others
            return pa.Table.from_pylist(rows_of(key, events), schema)
        return schema.empty_table()

    def rows_of(key: tuple[pa.Scalar, ...], events: pa.Table) -> list[dict[str, Any]]:
        cluster, run_id, lot = (part.as_py() for part in key)
        model = models.whole.get(cluster)
        rates = events["rates"][0].as_py() or []
        down = events["down"][0].as_py() or []
        rows = events.drop_columns(["rates", "down"]).sort_by("entry").to_pylist()
        run = driven_run(playable_run(rows[0]["run"], _events(rows)), rates)
        run.had_down(down)
        if rows[0]["lasted_ms"] is not None and not rows[0]["done"]:
            run.disturbed["not all of it was done"] = None
        result: list[dict[str, Any]] = []
        if model is not None and run.known:
            others = grid_near(run, model) if cells is None else cells
            all_cells = [run.cell, *(cell for cell in others if cell != run.cell)]
            held_out = models.held_out.get((cluster, run_id)) if rows[0]["done"] else None
            by_s = None if rows[0]["by_ms"] is None else rows[0]["by_ms"] / 1000
            real = RealDuration(rows[0]["lasted_ms"], held_out, by_s)
            simulated = simulated_rows(run, all_cells[lot::lots], model, real)
            result = [{"cluster_id": cluster, "run_id": run_id, **row} for row in simulated]
        return result

    return played


def _advised(window_s: float | None) -> Callable[[pa.Table], pa.Table]:
    schema = to_arrow_schema(WHAT_IF.schema)

    def advised(cells: pa.Table) -> pa.Table:
        played = cells.to_pylist()
        if not any(row["own"] for row in played):  # it could not be simulated as it was
            return schema.empty_table()
        rows = advised_rows(played, window_s, held_out_tests(played[0]))
        return pa.Table.from_pylist([*rows], schema)

    return advised


def grid_near(run: PlayableRun, model: Model) -> tuple[GridCell, ...]:
    """Return multiples of a run's own limits and throttle."""
    most_bytes_s = model.curve.bytes_s(max(1, model.seen.most_at_once), None)
    return relative_grid(run.cell, len(run.planned), most_bytes_s)


def driven_run(run: PlayableRun, rates: Sequence[Mapping[str, Any]]) -> PlayableRun:
    """Return a run whose own rates are those of its rows of RATES, which its promises chose."""
    if not rates:
        return run
    spans = tuple(
        RateSpan(
            row["in_flight_ms"] / 1000,
            ThrottleRates(row["bytes_s"], tuple(BrokerRate(**each) for each in row["brokers"])),
        )
        for row in rates
    )
    sources = {row["chosen_by"] for row in rates}
    promises = ", ".join(promise for promise in _PROMISES if promise in sources)
    cell = msgspec.structs.replace(run.cell, driven=spans)
    return msgspec.structs.replace(run, cell=cell, driven_by=promises)


def _events(rows: Sequence[Mapping[str, Any]]) -> Iterator[AnyRunEvent]:
    for row in rows:
        with suppress(msgspec.DecodeError):  # an event of a newer ktui
            yield decode(row["event"].encode())
