"""How far off forecasts were, counted by class of error, so that a version adds what is new."""

from __future__ import annotations

from math import log

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

from ktui.pipeline.lake.schema import fit_to_table
from ktui.pipeline.lake.tables import ETA_ERRORS

TELLING_S = 5.0
"""Forecasts closer to the end do not count: nobody cares how far off they are."""
KTUI, LINEAR, RECENT = "ktui", "linear", "recent"
MOMENTS, TOLD = "moments", "told"
"""Not errors: all moments that count, and those of them at which the view had a forecast."""

_FORECASTS = {KTUI: "left_s", LINEAR: "linear_s", RECENT: "recent_s"}
_WIDTH = 1.02
_LEAST = 1e-4
"""Errors within 1% of each other are one class, and so are those up to this share of the truth."""
_KEY = ("cluster_id", "session", "scope", "run_id", "decile", "kind", "error_class")


def eta_errors(compared: DataFrame) -> DataFrame:
    """Count forecasts by their errors: rows of ETA_ERRORS.

    Args:
        compared: as returned by `with_truth.with_truth`.
    """
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


def median_error(kind: str) -> Column:
    """Return the median error of one forecast, of rows of ETA_ERRORS, as a share of the truth."""
    error = F.exp(F.col("error_class") * log(_WIDTH))
    of_kind = F.when(F.col("kind") == kind, error)
    return F.percentile(of_kind, 0.5, F.col("count"))


def _counted(kind: str, error_class: Column, where: Column) -> Column:
    row = F.struct(F.lit(kind).alias("kind"), error_class.alias("error_class"))
    return F.when(where, row)


def _error_class(name: str) -> Column:
    error = F.abs(F.col(name) - F.col("truth_s")) / F.col("truth_s")
    return F.round(F.log(F.greatest(error, F.lit(_LEAST))) / log(_WIDTH)).cast("int")
