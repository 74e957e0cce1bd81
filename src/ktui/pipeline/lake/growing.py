"""Add rows to a table that grows by versions, and take out those that no longer hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from ktui.pipeline.lake.lake import VERSION, WRITTEN_BY, NewVersion
from ktui.pipeline.lake.schema import Table
from ktui.pipeline.lake.sizing import ROW_BYTES

_AT_MOST = 2  # a version is written again with rows of at least the fraction 1/_AT_MOST of its own


def versions_to_merge(
    versions: Sequence[tuple[str, int]], needed: Collection[str], new_rows: int
) -> frozenset[str]:
    """Choose the versions whose rows are written again.

    These are `needed`, and young ones of at most twice the rows written so far: the number of
    versions and of rewrites grows with the logarithm of the rows. `versions` have names and rows,
    oldest first.
    """
    merged = set(needed)
    written = new_rows + sum(rows for name, rows in versions if name in needed)
    for name, rows in reversed(versions):
        if name in merged:
            continue
        if rows > _AT_MOST * written:
            break
        merged.add(name)
        written += rows
    return frozenset(merged)


FEW_ROWS = 100_000
"""A table with so few rows is written whole: to find out what of it changes would cost more."""
STAYS = "stays"

Marks = Callable[[DataFrame], DataFrame]
"""Adds to rows of a table the column `STAYS`: whether they hold in the new version, too."""


def write_grown(version: NewVersion, table: Table, new: DataFrame, marks: Marks) -> None:
    """Write new rows of a derived table beside those of before that stay."""
    rows = {each: dict(version.rows_by_version(each, (table,))) for each in version.clusters}
    if not any(rows.values()):
        version.write(table, new)
        return
    if sum(sum(of.values()) for of in rows.values()) <= FEW_ROWS:
        version.write(table, _staying(version.table(table), marks).unionByName(new))
        return
    new = version.stage(new)
    counts = {row[0]: row[1] for row in new.groupBy("cluster_id").count().collect()}
    needed = _needed(version, table, marks)
    merged: Mapping[str, frozenset[str]] = {
        cluster: versions_to_merge(
            sorted(of.items()), needed.get(cluster, set()), counts.get(cluster, 0)
        )
        for cluster, of in sorted(rows.items())
    }
    with version.sizing.at_least(ROW_BYTES * version.rows_to_merge((table,), merged)):
        kept = _staying(version.to_merge(table, merged), marks)
        version.write(table, kept.unionByName(new), merged)


def _staying(rows: DataFrame, marks: Marks) -> DataFrame:
    return marks(rows).where(STAYS).select(*rows.columns)


def _needed(version: NewVersion, table: Table, marks: Marks) -> Mapping[str, set[str]]:
    going = marks(version.with_version(table)).where(~F.col(STAYS))
    needed: defaultdict[str, set[str]] = defaultdict(set)
    for cluster, name in going.select("cluster_id", WRITTEN_BY).distinct().collect():
        needed[cluster].add(f"{VERSION}{name}")
    return needed


def marked(rows: DataFrame, stays: Column) -> DataFrame:
    """Add `STAYS` to rows; null counts as false."""
    return rows.withColumn(STAYS, F.coalesce(stays, F.lit(col=False)))
