"""Forecasts with what really happened, in Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame

from ktui.pipeline.lake.schema import require_columns
from ktui.pipeline.lake.tables import CAUGHT_UP, FORECASTS, POLLS, RUNS
from ktui.pipeline.lake.truths import FORECASTS_WITH_TRUTH

SOURCES = (FORECASTS, CAUGHT_UP, POLLS, RUNS)
"""The tables that `with_truth` takes, in order."""

_IN_SPARK = f"""
WITH forecasts AS (TABLE {{forecasts}}), caught_up AS (TABLE {{caught_up}}),
  polls AS (TABLE {{polls}}), runs AS (TABLE {{runs}})
{FORECASTS_WITH_TRUTH}
"""


def with_truth(
    forecasts: DataFrame, caught_up: DataFrame, polls: DataFrame, runs: DataFrame
) -> DataFrame:
    """Compare forecasts with what really happened, in Spark.

    Args:
        forecasts: the table FORECASTS.
        caught_up: the table CAUGHT_UP.
        polls: the table POLLS.
        runs: the table RUNS.

    Returns:
        What `FORECASTS_WITH_TRUTH` selects.
    """
    return forecasts.sparkSession.sql(
        _IN_SPARK,
        forecasts=require_columns(forecasts, FORECASTS),
        caught_up=require_columns(caught_up, CAUGHT_UP),
        polls=require_columns(polls, POLLS),
        runs=require_columns(runs, RUNS),
    )
