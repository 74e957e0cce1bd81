"""Insights: the small summary of a lake that live views and people who plan runs can use."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

from ktui.execution.time_left.forecast import STEP_S
from ktui.insights import (
    ClusterInsights,
    EtaError,
    PairRate,
    Prior,
    RateCurve,
    RunAdvice,
    SizeRate,
    Spread,
    StallCause,
    Withheld,
    limit_options,
)
from ktui.pacing.limits import Limits
from ktui.pipeline.lake.schema import fit_to_table
from ktui.pipeline.lake.tables import ETA_ERRORS, MOVES, RUNS, SPANS, WHAT_IF
from ktui.pipeline.tables.listings import fetch_all
from ktui.pipeline.tables.moves import class_of, middle_of
from ktui.recording.segments import from_wall_ms

TELLING_S = 5.0  # forecasts closer to the end do not count: nobody cares how far off they are
KTUI, LINEAR, RECENT = "ktui", "linear", "recent"
MOMENTS, TOLD = "moments", "told"
"""Not errors: all moments that count, and those of them at which the view had a forecast."""

_FORECASTS = {KTUI: "left_s", LINEAR: "linear_s", RECENT: "recent_s"}
_LEAST = 1e-4
"""Errors within 1% of each other are one class, and so are those up to this share of the truth."""
_KEY = ("cluster_id", "session", "scope", "run_id", "decile", "kind", "error_class")


def eta_errors(compared: DataFrame) -> DataFrame:
    """Count forecasts, as `with_truth` returns them, by their errors: rows of ETA_ERRORS."""
    every = " AND ".join(f"{name} IS NOT NULL" for name in _FORECASTS.values())
    nothing = F.lit(None).cast("int")
    counted = [
        _counted(MOMENTS, nothing, F.lit(True)),  # noqa: FBT003 - Spark's own signature
        _counted(TOLD, nothing, F.col("left_s").isNotNull()),
        *(_counted(kind, _error_class(name), F.expr(every)) for kind, name in _FORECASTS.items()),
    ]
    telling = compared.where((F.col("truth_s") >= TELLING_S) & F.col("share").isNotNull())
    rows = telling.select(
        "cluster_id",
        "session",
        "scope",
        F.when(F.col("scope") == "run", F.col("run_id")).alias("run_id"),
        F.least(F.floor(F.col("share") * 10), F.lit(9)).cast("int").alias("decile"),
        F.inline(F.array_compact(F.array(*counted))),
    )
    return summed(rows.withColumn("count", F.lit(1)))


def summed(rows: DataFrame) -> DataFrame:
    """Add up the rows of ETA_ERRORS that count the same."""
    return fit_to_table(rows.groupBy(*_KEY).agg(F.sum("count").alias("count")), ETA_ERRORS)


def _counted(kind: str, error_class: Column, where: Column) -> Column:
    row = F.struct(F.lit(kind).alias("kind"), error_class.alias("error_class"))
    return F.when(where, row)


def _error_class(name: str) -> Column:
    truth = F.col("truth_s")
    error = F.when(truth > 0, F.abs(F.col(name) - truth) / truth)  # an engine may filter later
    return class_of(error, _LEAST)


TELLING_BYTES = 1_000_000  # smaller copies say nothing about a rate
CLASSES = (0, 100 << 20, 1 << 30, 10 << 30)
"""The lower bounds of the size classes of partitions, in bytes."""
LATEST = 20  # insights have the advice for so many of a cluster's latest runs

_SPREAD = (0.1, 0.5, 0.9)


def insights(
    written: Mapping[str, DataFrame], steps: DataFrame, curves: Mapping[str, RateCurve]
) -> list[ClusterInsights]:
    """Compute the insights of every cluster; only some hundred rows of each are fetched.

    `written` are tables of the lake, by name; `steps` are of `derived.steps`.
    """
    spans, moves, runs = (written[each.name] for each in (SPANS, MOVES, RUNS))
    found = fetch_all(
        {
            "pairs": _pairs(spans),
            "sizes": _sizes(moves),
            "stalls": _stalls(spans),
            "eta": _eta(written[ETA_ERRORS.name]),
            "advice": _advice(written[WHAT_IF.name], runs),
            "rates": _rates(moves),
            "steps": _steps(steps),
            "clusters": _clusters(moves, runs),
        }
    )
    advice = _by(found["advice"], "began_t", "run_id")
    parts: list[Mapping[str, dict[str, Any]]] = [
        _by_cluster(
            "pairs",
            _by(found["pairs"], "leader", "broker"),
            lambda row: PairRate(row.leader, row.broker, _spread_of_classes(row)),
        ),
        _by_cluster("sizes", _by(found["sizes"], "size_class"), _size),
        _by_cluster(
            "stalls",
            reversed(_by(found["stalls"], "seconds", "cause")),
            lambda row: StallCause(row.cause, row["count"], row.seconds),
        ),
        _by_cluster("eta", _by(found["eta"], "scope", "decile"), _eta_error),
        _by_cluster("advice", (row for row in advice if row.recommended), _advised),
        _by_cluster(
            "withheld",
            (row for row in advice if not row.recommended),
            lambda row: Withheld(**{name: row[name] for name in _ADVICE}),
        ),
        _priors(found["rates"], found["steps"], curves),
    ]
    return [_assembled(row, parts) for row in _by(found["clusters"], "cluster_id")]


def _by(rows: Iterable[Row], *names: str) -> list[Row]:
    return sorted(rows, key=lambda row: [(row[name] is not None, row[name]) for name in names])


def _assembled(row: Row, parts: Iterable[Mapping[str, dict[str, Any]]]) -> ClusterInsights:
    known: dict[str, Any] = {}
    for part in parts:
        known |= part.get(row.cluster_id, {})
    return ClusterInsights(
        cluster_id=row.cluster_id,
        runs=row.runs,
        moves=row.moves,
        began=None if row.began_t is None else from_wall_ms(row.began_t),
        ended=None if row.ended_t is None else from_wall_ms(row.ended_t),
        **known,
    )


def _by_cluster(name: str, rows: Iterable[Row], read: Any) -> dict[str, dict[str, Any]]:
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row.cluster_id, []).append(read(row))
    return {cluster: {name: tuple(each)} for cluster, each in found.items()}


def _clusters(moves: DataFrame, runs: DataFrame) -> DataFrame:
    moved = moves.groupBy("cluster_id").agg(
        F.count("*").alias("moves"),
        F.min("began_t").alias("began_t"),
        F.max("ended_t").alias("ended_t"),
    )
    ran = runs.groupBy("cluster_id").agg(F.count("*").alias("runs"))
    both = moved.join(ran, "cluster_id", "full")
    return both.na.fill(0, ["moves", "runs"])


def _percentiles(figure: str) -> tuple[Column, Column]:
    return F.percentile(figure, list(_SPREAD)).alias("spread"), F.count(figure).alias("count")


def _spread(row: Row) -> Spread:
    p10, p50, p90 = row.spread
    return Spread(p10, p50, p90, row["count"])


def _pairs(spans: DataFrame) -> DataFrame:
    copies = spans.select("cluster_id", F.inline("copies"))
    return _classes(copies, "rate_class", "cluster_id", "leader", "broker")


def _classes(rows: DataFrame, of: str, *key: str) -> DataFrame:
    """Count the figures of each class by a key, as `classes`.

    Of these, Python computes percentiles: Sail leaves out how often each figure counts.
    """
    counted = rows.groupBy(*key, of).agg(F.sum("count").alias("count"))
    classes = F.sort_array(F.collect_list(F.struct(of, "count"))).alias("classes")
    return counted.groupBy(*key).agg(classes)


def _spread_of_classes(row: Row) -> Spread:
    p10, p50, p90 = (_percentile(row.classes, share) for share in _SPREAD)
    return Spread(p10, p50, p90, sum(count for _, count in row.classes))


def _percentile(classes: Sequence[tuple[int, int]], share: float) -> float:
    """Return the percentile, interpolated, of the middles of classes, in order, with counts."""
    place = (sum(count for _, count in classes) - 1) * share
    below, above = (_at(classes, end(place)) for end in (math.floor, math.ceil))
    return below + (above - below) * (place - math.floor(place))


def _at(classes: Iterable[tuple[int, int]], place: int) -> float:
    passed = 0
    for each, count in classes:
        passed += count
        if place < passed:
            return middle_of(each)
    raise ValueError(f"no figure has the place {place}")


def _of_size(moves: DataFrame) -> DataFrame:
    added = F.size("added")
    each = F.when(added > 0, F.col("bytes") / added)
    return moves.where("rate_bytes_p50 > 0 AND size(added) > 0").withColumn("each", each)


def _sizes(moves: DataFrame) -> DataFrame:
    reached = [F.when(F.col("each") >= start, F.lit(n)) for n, start in enumerate(CLASSES)]
    place = F.greatest(*reached)
    sized = _of_size(moves).where("each IS NOT NULL").withColumn("size_class", place)
    return sized.groupBy("cluster_id", "size_class").agg(*_percentiles("rate_bytes_p50"))


def _size(row: Row) -> SizeRate:
    ends = (*CLASSES[1:], None)
    return SizeRate(CLASSES[row.size_class], ends[row.size_class], _spread(row))


def _rates(moves: DataFrame) -> DataFrame:
    telling = _of_size(moves).where(F.col("each") >= TELLING_BYTES)
    return telling.groupBy("cluster_id").agg(
        *_percentiles("rate_bytes_p50"), F.count_distinct("run_id").alias("runs")
    )


def _steps(steps: DataFrame) -> DataFrame:
    beside = F.median((F.col("took_ms") - F.col("copying_ms")) / 1000)
    return steps.where("adds").groupBy("cluster_id").agg(beside.alias("step_s"))


def _priors(
    rates: Iterable[Row], steps: Iterable[Row], curves: Mapping[str, RateCurve]
) -> dict[str, dict[str, Any]]:
    step_s = {row.cluster_id: row.step_s for row in steps}
    return {
        row.cluster_id: {
            "prior": Prior(
                replica_bytes_s=_spread(row),
                step_s=max(0.0, step_s.get(row.cluster_id, STEP_S)),
                curve=curves[row.cluster_id],
                runs=row.runs,
            )
        }
        for row in rates
        if row.cluster_id in curves
    }


def _stalls(spans: DataFrame) -> DataFrame:
    each = spans.select("cluster_id", F.inline("stalls"))
    lasted = (F.sum(F.col("ended_t") - F.col("began_t")) / 1000).alias("seconds")
    return each.groupBy("cluster_id", "cause").agg(F.count("*").alias("count"), lasted)


def _eta(errors: DataFrame) -> DataFrame:
    """Compare the forecasts at the moments at which all of them had a value."""
    key = ("cluster_id", "scope", "decile")
    of_kinds = _classes(errors, "error_class", *key, "kind")
    kinds = F.collect_list(F.struct("kind", "classes")).alias("kinds")
    return of_kinds.groupBy(*key).agg(kinds)


def _eta_error(row: Row) -> EtaError:
    kinds = dict(row.kinds)
    counts = {kind: sum(count for _, count in classes) for kind, classes in kinds.items()}

    def median(kind: str) -> float | None:
        return _percentile(kinds[kind], 0.5) if kind in kinds else None

    return EtaError(
        row.scope,
        row.decile,
        counts.get(KTUI, 0),
        ktui=median(KTUI),
        linear=median(LINEAR),
        recent=median(RECENT),
        told=counts.get(TOLD, 0) / counts[MOMENTS],
    )


def _advice(table: DataFrame, runs: DataFrame) -> DataFrame:
    took, promises = F.col("actual_s").alias("took_s"), F.col("driven_by").alias("promises")
    as_started = F.col("predicted_s").alias("as_started_s")
    own = table.where("own").select("cluster_id", "run_id", took, promises, as_started)
    began = runs.select("cluster_id", "run_id", "began_t")
    advised = table.where("reason IS NOT NULL").join(own, ["cluster_id", "run_id"])
    rows = advised.join(began, ["cluster_id", "run_id"]).select("*")
    latest = F.slice(
        F.sort_array(F.collect_list(F.struct("began_t", "run_id")), asc=False), 1, LATEST
    )
    kept = rows.groupBy("cluster_id").agg(latest.alias("latest"))
    kept = kept.select("cluster_id", F.inline("latest")).select("cluster_id", "run_id")
    return rows.join(kept, ["cluster_id", "run_id"], "left_semi")


_ADVICE = ("run", "run_id", "reason", "record")
_SIMULATED = ("partitions", "bytes", "throttle", "predicted_s", "low_s", "high_s")
"""What a row of WHAT_IF and the insights have by the same names."""


def _advised(row: Row) -> RunAdvice:
    return RunAdvice(
        **{name: row[name] for name in (*_ADVICE, *_SIMULATED)},
        limits=limit_options(msgspec.json.decode(row.limits, type=Limits)),
        as_started_s=row.as_started_s,
        actual_s=row.took_s,
        driven_by=row.promises,
        held_out_error=row.error_held_out,
        assumed=tuple(row.assumed or ()),
    )


def rows(made: Iterable[ClusterInsights]) -> Iterator[dict[str, str]]:
    """Turn insights into rows of the table INSIGHTS."""
    for each in made:
        yield {"cluster_id": each.cluster_id, "insights": msgspec.json.encode(each).decode()}
