"""The folders of a lake's tables: their names, and how Sail reads and writes them.

Spark itself takes columns from the names of folders, and makes folders of columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path
from urllib.parse import quote, unquote

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from ktui.pipeline.lake.engine import in_pairs, schema_of_files
from ktui.pipeline.lake.schema import Table

WRITTEN_BY = "lake_version"
"""The column that Spark reads from the names of versions' folders; no table may have it."""
VERSION = f"{WRITTEN_BY}="
CLUSTER = "cluster_id="


def read_folders(spark: SparkSession, lake: str, table: Table, folders: Iterable[str]) -> DataFrame:
    """Read folders with Sail, which takes columns from the names of those below a place only."""
    clusters: defaultdict[str, list[str]] = defaultdict(list)
    for folder in folders:
        version, _, cluster = folder.rpartition("/")
        clusters[version].append(unquote(cluster.removeprefix(CLUSTER)))
    reader = spark.read.schema(schema_of_files(table.schema))
    found = []
    for version, of in clusters.items():
        rows = reader.parquet(f"file://{quote(str(_path(lake) / version))}")
        named = F.lit(version.rpartition(VERSION)[2])
        found.append(rows.where(F.col("cluster_id").isin(*of)).withColumn(WRITTEN_BY, named))
    return in_pairs(DataFrame.unionByName, found)


def write_folders(rows: DataFrame, place: str, by: Collection[str], order: Collection[str]) -> None:
    """Write rows of Sail, a file for each folder: its own have rows of several streams in turns."""
    keys = [*by]
    found = rows.toArrow().sort_by([(name, "ascending") for name in (*by, *order)])
    counts = found.group_by(keys).aggregate([([], "count_all")])
    first = 0
    for key in counts.sort_by([(name, "ascending") for name in keys]).to_pylist():
        names = (f"{name}={quote(str(key[name]), safe='')}" for name in keys)
        folder = _path(place).joinpath(*names)
        folder.mkdir(parents=True, exist_ok=True)
        part = found.slice(first, key["count_all"]).drop_columns(keys)
        pq.write_table(part, folder / "part-00000.zstd.parquet", compression="zstd")
        first += key["count_all"]


def _path(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))
