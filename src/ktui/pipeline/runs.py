"""The table `runs`: one row a run, by its last recorded event."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

from ktui.pipeline.keys import moment
from ktui.pipeline.shaping import shaped
from ktui.pipeline.stage_schemas import RUNS


def runs(folds: DataFrame) -> DataFrame:
    """Count what each run did.

    Args:
        folds: as `run_folds.run_folds` gives them.
    """
    steps = F.flatten("partitions.steps")
    planned = F.aggregate(
        F.map_values("outcomes"), F.lit(0).cast("long"), lambda sum_, count: sum_ + count
    )
    rows = folds.withColumns(
        {
            "began": moment("began_t"),
            "ended": moment("ended_t"),
            "batches": F.size(F.array_distinct(steps.batch)),
            "steps": F.size(steps),
            "partitions": planned,
        }
    )
    return shaped(rows, RUNS)
