"""A lake: Parquet files by table and cluster, and the manifest that names the current ones.

Files that a manifest names never change. A run writes new folders beside them, and replaces the
manifest at its end. Until then readers have the version before. A run that dies leaves only folders
behind, which the next run removes.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from functools import reduce
from urllib.parse import unquote

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from ktui import __version__
from ktui.pipeline.errors import PipelineProblem
from ktui.pipeline.lake import manifest as manifests
from ktui.pipeline.lake import views
from ktui.pipeline.lake.files import GLOB, LakeFiles, lake_files
from ktui.pipeline.lake.manifest import DataFile, Manifest, SegmentRead, TablePart
from ktui.pipeline.lake.schema import Table, require_columns

VERSION = "lake_version="
"""The prefix of a version's folder. Spark reads the name as a column, so no table may have it."""
_CLUSTER = "cluster_id="
STAGING = "_staging"
FOLLOWING = "_following"
"""The folder of the checkpoints of followers."""


def read_manifest(files: LakeFiles) -> Manifest | None:
    """Read the manifest of a lake; None where there is no lake yet.

    Raises:
        PipelineProblem: the manifest cannot be read, or one of its entries leads out of the lake.
    """
    content = files.read(manifests.NAME)
    try:
        found = None if content is None else manifests.decode(content)
        files.check(found or Manifest())
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise PipelineProblem(manifests.unreadable_manifest(files.uri, error)) from None
    return found


class Lake:
    """One whole version of a lake, for reading.

    Args:
        spark: reads the tables.
        files: the lake's files.
        manifest: the version to read.
    """

    def __init__(self, spark: SparkSession, files: LakeFiles, manifest: Manifest) -> None:
        self.manifest = manifest
        self._spark = spark
        self._files = files

    @classmethod
    def open(cls, spark: SparkSession, place: str) -> Lake:
        """Open the current version of the lake at a path or URI; later versions do not change it.

        Raises:
            PipelineProblem: there is no lake, or it cannot be read.
        """
        files = lake_files(place, spark)
        found = read_manifest(files)
        if found is None:
            raise PipelineProblem(manifests.missing_lake(place))
        return cls(spark, files, found)

    def table(self, table: Table, clusters: Collection[str] | None = None) -> DataFrame:
        """Return a table's rows of some clusters; None for all clusters."""
        parts = self.manifest.tables.get(table.name, {})
        chosen = [parts[each] for each in parts if clusters is None or each in clusters]
        return read(self._spark, self._files, table, [part.folder for part in chosen])


def read(spark: SparkSession, files: LakeFiles, table: Table, folders: Iterable[str]) -> DataFrame:
    """Return a table's rows from some of its clusters' folders."""
    paths = [f"{files.uri}/{folder}".translate(GLOB) for folder in folders]
    if not paths:
        return spark.createDataFrame([], table.schema)
    reader = spark.read.schema(table.schema).option("basePath", f"{files.uri}/{table.name}")
    return reader.parquet(*paths).select(*table.schema.names)


class NewVersion:
    """The next version of a lake, until it is committed.

    Args:
        spark: reads and writes the tables.
        files: the lake's files.
        before: the version that the new one starts from.

    Attributes:
        clusters: the clusters whose rows this version replaces; all others keep theirs.
    """

    def __init__(self, spark: SparkSession, files: LakeFiles, before: Manifest) -> None:
        self.clusters: frozenset[str] = frozenset()
        self.spark = spark
        self._files = files
        self._before = before
        self._name = f"{VERSION}{before.version + 1:06}-{uuid.uuid4().hex[:8]}"
        self._written: dict[str, tuple[Table, dict[str, list[DataFile]]]] = {}
        """The tables written so far, and the files in each of their folders."""

    def table(self, table: Table) -> DataFrame:
        """Return the rows of `clusters` that a table has in the version before."""
        return Lake(self.spark, self._files, self._before).table(table, self.clusters)

    def write(self, table: Table, rows: DataFrame) -> DataFrame:
        """Write all of a table's rows for the new version's clusters, and return them as written.

        Raises:
            MissingColumn: the rows lack one of the table's columns, or its type differs.
        """
        place = f"{table.name}/{self._name}"
        whole = require_columns(rows, table).select(*table.schema.names)
        write_parquet(whole, f"{self._files.uri}/{place}", table.partition_columns)
        folders: dict[str, list[DataFile]] = {}
        for file in self._files.data_files(place):
            folders.setdefault("/".join(file.path.split("/")[:3]), []).append(file)
        self._written[table.name] = table, folders
        return read(self.spark, self._files, table, folders)

    def commit(self, segments: Iterable[SegmentRead]) -> Manifest:
        """Make this the lake's current version, and add to the segments that it has read.

        Folders that neither this version nor the one before needs are removed.
        """
        new = Manifest(
            version=self._before.version + 1,
            written_at=datetime.now(UTC).isoformat(timespec="seconds"),
            program=f"ktui {__version__}",
            segments=(*self._before.segments, *segments),
            tables=self._tables(),
        )
        self._files.replace(manifests.NAME, manifests.encode(new))
        self._files.replace(views.NAME, views.views_sql(new, self._files.uri))
        self._tidy(new.folders | self._before.folders)
        return new

    def _tables(self) -> dict[str, dict[str, TablePart]]:
        tables = {name: dict(parts) for name, parts in self._before.tables.items()}
        rows = self._rows()
        for name, (_, folders) in self._written.items():
            old = tables.get(name, {})
            kept = {each: part for each, part in old.items() if each not in self.clusters}
            new = {unquote(each.rpartition(_CLUSTER)[2]): each for each in folders}
            tables[name] = kept | {
                cluster: TablePart(folder, tuple(folders[folder]), rows[name, cluster])
                for cluster, folder in new.items()
            }
        return tables

    def _rows(self) -> dict[tuple[str, str], int]:
        """Count the written rows of each table and cluster, all in one job."""
        named = [
            read(self.spark, self._files, table, folders).select(
                F.lit(name).alias("name"), "cluster_id"
            )
            for name, (table, folders) in self._written.items()
        ]
        if not named:
            return {}
        counts = reduce(DataFrame.union, named).groupBy("name", "cluster_id").count()
        return {(name, cluster): rows for name, cluster, rows in counts.collect()}

    def _tidy(self, keep: Collection[str]) -> None:
        """Remove all folders of versions except those in `keep`, and the staging folder."""
        versions = {"/".join(folder.split("/")[:2]) for folder in keep}
        for table in (name for name in self._files.folders("") if name != STAGING):
            for version in self._files.folders(table):
                name = f"{table}/{version}"
                if version.startswith(VERSION) and name not in versions:
                    self._files.remove(name)
        self._files.remove(STAGING)


def stage_rows(files: LakeFiles, rows: DataFrame) -> DataFrame:
    """Store rows in the lake for the time of a run, so that they are not computed twice."""
    place = f"{files.uri}/{STAGING}/{uuid.uuid4().hex}"
    write_parquet(rows, place, ())
    return rows.sparkSession.read.schema(rows.schema).parquet(place.translate(GLOB))


def write_parquet(rows: DataFrame, place: str, by: Collection[str]) -> None:
    """Write rows as Parquet, in folders named by the columns `by`."""
    if by:  # one task per folder, more for large ones
        rows = rows.hint("rebalance", *by)
    rows.write.partitionBy(*by).mode("overwrite").parquet(place)
