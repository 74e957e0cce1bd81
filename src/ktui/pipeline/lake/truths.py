"""Forecasts with what really happened: the one rule by which every reader compares them.

The SQL means the same to DuckDB and to Spark.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from ktui.pipeline.lake.schema import require_columns
from ktui.pipeline.lake.tables import CAUGHT_UP, FORECASTS, POLLS, RUNS

FORECASTS_WITH_TRUTH = """
SELECT cluster_id, session, run_id, scope, topic, partition, t, share, left_s, low_s, high_s,
  linear_s, recent_s, (over_t - t) / 1000 AS truth_s
FROM (
  SELECT f.*, CASE WHEN f.scope = 'run' THEN r.ended_t ELSE c.ended_t END AS over_t
  FROM forecasts AS f
  LEFT JOIN caught_up AS c ON c.cluster_id = f.cluster_id AND c.session = f.session
    AND c.topic = f.topic AND c.partition = f.partition AND c.since = f.since
  LEFT JOIN (
    SELECT cluster_id, run_id, ended_t FROM runs
    WHERE ended_t IS NOT NULL AND outcomes['done'] = partitions
  ) AS r ON r.cluster_id = f.cluster_id AND r.run_id = f.run_id
) AS ended
WHERE over_t >= t AND EXISTS (
  SELECT 1 FROM polls AS p
  WHERE NOT p.shadowed AND p.cluster_id = ended.cluster_id AND p.session = ended.session
    AND p.seq = ended.seq
)
"""
"""Selects `session` and the columns of ETA_BACKTEST but `at`, from FORECASTS, CAUGHT_UP, POLLS and
RUNS.

Forecasts of shadowed polls are left out, and those of runs and copies that did not end. Of a run
that means: with every partition done.
"""


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
    """Run `FORECASTS_WITH_TRUTH` in Spark, on the tables `SOURCES`."""
    return forecasts.sparkSession.sql(
        _IN_SPARK,
        forecasts=require_columns(forecasts, FORECASTS),
        caught_up=require_columns(caught_up, CAUGHT_UP),
        polls=require_columns(polls, POLLS),
        runs=require_columns(runs, RUNS),
    )
