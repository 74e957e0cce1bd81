"""Select samples by times, so that a reader can leave out files and pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from ktui.pipeline.united_times import Time


def is_among(times: Mapping[str, Iterable[Time]]) -> Column:
    """Select samples by their folders, and by `t`.

    Args:
        times: by cluster; there are no samples of others.
    """
    found = (_is_in(cluster, time) for cluster, of in sorted(times.items()) for time in of)
    return reduce(Column.__or__, found, F.lit(col=False))


def _is_in(cluster: str, time: Time) -> Column:
    first, last = time
    found = (
        (F.col("cluster_id") == cluster) & (F.col("date") >= _day(first)) & (F.col("t") >= first)
    )
    return found if last is None else found & (F.col("date") <= _day(last)) & (F.col("t") <= last)


def _day(t: int) -> Column:
    return F.to_date(F.timestamp_millis(F.lit(t)))
