"""The table `states`: the state of each partition, from when to when."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

from ktui.pipeline.lake.enforce_schema import fit_to_table
from ktui.pipeline.lake.tables import STATES
from ktui.pipeline.tables.run_folds import partitions, with_run
from ktui.pipeline.tables.windows import PARTITION, as_timestamp


def states(intervals: DataFrame, folds: DataFrame) -> DataFrame:
    """Combine the progress of listed partitions with the waits of runs' partitions.

    Args:
        intervals: as returned by `intervals.intervals`.
        folds: as returned by `run_folds.run_folds`.
    """
    waits = partitions(folds).select(*PARTITION, "run", "run_id", F.inline("waits"))
    rows = with_run(intervals, folds, "began_t").unionByName(waits, allowMissingColumns=True)
    return fit_to_table(
        rows.withColumns(
            {"began": as_timestamp("began_t"), "ended": as_timestamp("ended_t")}
        ).withColumn("date", F.to_date("began")),
        STATES,
    )
