"""The table `batches`: the decisions of runs that began steps."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

from ktui.pipeline.keys import moment
from ktui.pipeline.run_folds import steps
from ktui.pipeline.shaping import shaped
from ktui.pipeline.stage_schemas import BATCHES


def batches(folds: DataFrame) -> DataFrame:
    """Sum up the steps of each decision.

    Args:
        folds: as `run_folds.run_folds` gives them.
    """
    all_over = F.bool_and(F.col("over_t").isNotNull())
    rows = (
        steps(folds)
        .groupBy("cluster_id", "run", "run_id", "batch")
        .agg(
            F.min("t").alias("began_t"),
            F.when(all_over, F.max("over_t")).alias("ended_t"),
            F.count_distinct("topic", "partition").alias("partitions"),
            F.count("*").alias("steps"),
            F.count_if("alters").alias("alters"),
            F.count_if("elects").alias("elections"),
        )
    )
    return shaped(
        rows.withColumns({"began": moment("began_t"), "ended": moment("ended_t")}), BATCHES
    )
