"""Some times of which rows are read, so few that a reader can leave out files and pages by them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

MOST = 16
"""More times than this are united, those with the least between them first."""

Time = tuple[int, int | None]
"""The first and the last moment, ms since 1970; None where it has no end."""


def united(times: Iterable[Time], most: int = MOST) -> list[Time]:
    """Return at most so many disjoint times that cover some times, in order."""
    found: list[Time] = []
    for first, last in sorted(times, key=lambda time: time[0]):
        if found and (found[-1][1] is None or first <= found[-1][1]):
            before, until = found[-1]
            found[-1] = before, _later(until, last)
        else:
            found.append((first, last))
    while len(found) > most:
        gaps = [found[n + 1][0] - (found[n][1] or 0) for n in range(len(found) - 1)]
        least = gaps.index(min(gaps))
        found[least : least + 2] = [(found[least][0], found[least + 1][1])]
    return found


def _later(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


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
