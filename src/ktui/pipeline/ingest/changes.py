"""What new lines change in a lake: which old lines have other rows because of them."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from ktui.pipeline.ingest.normalize import COPY, fates


def changed_lines(
    copies_before: DataFrame,
    sessions_before: DataFrame,
    copies_now: DataFrame,
    sessions_now: DataFrame,
) -> DataFrame:
    """Select the lines that are new, and the old ones that have other rows now.

    A line has other rows where a copy of it counts, where its session's clock offset is another,
    where a better session came to cover it, or where another session has its event earlier.

    Args:
        copies_before: as `normalize.copies` returns for the lines of before.
        sessions_before: as `normalize.sessions` returns for those.
        copies_now: as `normalize.copies` returns for the old lines and the new ones.
        sessions_now: as `normalize.sessions` returns for those.

    Returns:
        The columns of `copies_now`, and `happened`: whether the line is or was the one from which
        the table RUN_EVENTS has an event.
    """
    before = fates(copies_before, sessions_before)
    before = before.select(*COPY, F.col("fate").alias("fate_before"))
    happened = F.col("fate.wins") | F.coalesce("fate_before.wins", F.lit(col=False))
    return (
        fates(copies_now, sessions_now)
        .join(before, list(COPY), "left")
        .where(~F.col("fate").eqNullSafe(F.col("fate_before")))
        .select(*copies_now.columns, happened.alias("happened"))
    )
