"""A lake: Parquet files by table and cluster, and the manifest that names the current ones.

Files that a manifest names never change. A run writes new folders, and replaces the manifest at its
end; readers have the version before until then. What a dead run leaves behind, a later one removes.

Some tables grow (`RECORDED`): a version writes only what it has read, with the rows of some earlier
versions, and keeps the files of all others. One version's folders hold the rows of the same lines
in each recorded table.
"""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.pandas.types import to_arrow_schema

from ktui import __version__
from ktui.inputfile import FileProblem
from ktui.pipeline.lake import manifest as manifests
from ktui.pipeline.lake import views
from ktui.pipeline.lake.engine import on_sail, schema_on
from ktui.pipeline.lake.files import GLOB, LakeFiles, lake_files
from ktui.pipeline.lake.folders import CLUSTER, VERSION, WRITTEN_BY, read_folders, write_folders
from ktui.pipeline.lake.manifest import (
    DataFile,
    LakeLocked,
    Manifest,
    PipelineProblem,
    SegmentRead,
    TablePart,
)
from ktui.pipeline.lake.readers import write_for_readers
from ktui.pipeline.lake.records import FORECASTS_WITH_TRUTH
from ktui.pipeline.lake.schema import Table, check_nulls, fit_to_table, require_columns
from ktui.pipeline.lake.sizing import (
    ROW_BYTES,
    Sizing,
    as_one_partition,
    by_folder,
    computed_once,
    keeps_rows,
)
from ktui.pipeline.lake.tables import CAUGHT_UP, ETA_BACKTEST, FORECASTS, POLLS, RECORDED, RUNS

Versions = Mapping[str, Collection[str]]  # names of versions' folders by cluster
_NUMBER = re.compile(rf"{VERSION}(\d+)-")
STAGING = "_staging"


def read_manifest(files: LakeFiles) -> Manifest | None:
    """Read the manifest of a lake; None where there is no lake yet."""
    try:
        content = files.read(manifests.NAME)
        found = None if content is None else manifests.decode(content)
        files.check(found or Manifest())
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise PipelineProblem(manifests.unreadable_manifest(files.uri, error)) from None
    except FileProblem as problem:
        raise PipelineProblem(str(problem)) from None
    return found


def replace_in_version(files: LakeFiles, version: Manifest, name: str, content: bytes) -> None:
    """Replace a file that follows from a version, unless the lake has a later version by now.

    The file's state is taken before the version is compared: without a lock, the run of a later
    version may write the file too, and its content stays.
    """
    replaced = False
    while not replaced:
        state = files.state(name)
        current = read_manifest(files) or version
        replaced = current.version > version.version or files.replace(name, content, state)


class Lake:
    """One whole version of a lake, for reading."""

    def __init__(self, spark: SparkSession, files: LakeFiles, manifest: Manifest) -> None:
        self.manifest = manifest
        self._spark = spark
        self._files = files

    @classmethod
    def open(cls, spark: SparkSession, place: str) -> Lake:
        files = lake_files(place, spark)
        found = read_manifest(files)
        if found is None:
            raise PipelineProblem(manifests.missing_lake(place))
        return cls(spark, files, found)

    def table(self, table: Table, clusters: Collection[str] | None = None) -> DataFrame:
        if table == ETA_BACKTEST:
            compared = with_truth(*(self.table(each, clusters) for each in SOURCES))
            return fit_to_table(compared.withColumn("at", F.timestamp_millis("t")), table)
        parts = self.manifest.tables.get(table.name, {})
        chosen = [parts[each] for each in parts if clusters is None or each in clusters]
        folders = (folder for part in chosen for folder in part.folders)
        return read(self._spark, self._files, table, folders)


def read(
    spark: SparkSession, files: LakeFiles, table: Table, folders: Iterable[str], *more: str
) -> DataFrame:
    """Return a table's rows from folders of the lake, with `WRITTEN_BY` last if in `more`."""
    chosen = [*folders]
    if not chosen:
        # of Arrow, an empty table is one that Spark knows to be empty as it plans
        rows = to_arrow_schema(table.schema, timezone="UTC").empty_table()
        empty = spark.createDataFrame(rows, schema_on(spark, table.schema))
        empty = empty.withColumn(WRITTEN_BY, F.lit(""))
        return as_one_partition(empty.select(*table.schema.names, *more))
    if on_sail(spark):
        return read_folders(spark, files.uri, table, chosen).select(*table.schema.names, *more)
    paths = [f"{files.uri}/{folder}".translate(GLOB) for folder in chosen]
    reader = spark.read.schema(table.schema).option("basePath", f"{files.uri}/{table.name}")
    return as_one_partition(reader.parquet(*paths).select(*table.schema.names, *more))


SOURCES = (FORECASTS, CAUGHT_UP, POLLS, RUNS)

_IN_SPARK = f"""
WITH forecasts AS (TABLE {{forecasts}}), caught_up AS (TABLE {{caught_up}}),
  polls AS (TABLE {{polls}}), runs AS (TABLE {{runs}})
{FORECASTS_WITH_TRUTH}
"""


def with_truth(
    forecasts: DataFrame, caught_up: DataFrame, polls: DataFrame, runs: DataFrame
) -> DataFrame:
    """Run `FORECASTS_WITH_TRUTH` in Spark, on the tables `SOURCES`."""
    given = zip(SOURCES, (forecasts, caught_up, polls, runs), strict=True)
    named: dict[str, Any] = {table.name: require_columns(rows, table) for table, rows in given}
    return forecasts.sparkSession.sql(_IN_SPARK, **named)


class NewVersion:
    """The version after `before`, until its commit; `merged` are versions written again."""

    def __init__(
        self, spark: SparkSession, files: LakeFiles, before: Manifest, sizing: Sizing
    ) -> None:
        self.clusters: frozenset[str] = frozenset()
        self.merged: Versions = {}
        self.spark = spark
        self.sizing = sizing
        self._files = files
        self._before = before
        self._name = f"{VERSION}{before.version + 1:06}-{uuid.uuid4().hex[:8]}"
        self._written: dict[str, dict[str, TablePart]] = {}
        self._rows: dict[str, DataFrame] = {}
        """By table, the rows that were written so far, of a small run."""
        self._dropped: list[str] = []

    def known(self, table: Table) -> frozenset[str]:
        return self.clusters & self._before.tables.get(table.name, {}).keys()

    def table(self, table: Table, clusters: Collection[str] | None = None) -> DataFrame:
        chosen = self.clusters if clusters is None else clusters
        return Lake(self.spark, self._files, self._before).table(table, chosen)

    @property
    def name(self) -> str:
        return self._name

    def with_version(self, table: Table, of: Versions | None = None) -> DataFrame:
        return self._old_rows(table, of, WRITTEN_BY)

    def length(self, table: Table, of: Versions | None = None) -> int:
        """Size of the table in bytes for these clusters, over the given versions (default: all)."""
        return sum(file.length for _, file in self._old_files(table, of))

    def rows_by_version(self, cluster: str, tables: Iterable[Table]) -> list[tuple[str, int]]:
        """Return how many rows each version in some of a cluster's tables has, oldest first."""
        rows: defaultdict[str, int] = defaultdict(int)
        for table in tables:
            part = self._before.tables.get(table.name, {}).get(cluster)
            for file in part.files if part is not None else ():
                rows[file.version] += file.rows
        return sorted(rows.items())

    def to_merge(self, table: Table, merged: Versions | None = None) -> DataFrame:
        return self._old_rows(table, self.merged if merged is None else merged)

    def rows_to_merge(self, tables: Iterable[Table], merged: Versions | None = None) -> int:
        of = self.merged if merged is None else merged
        return sum(file.rows for table in tables for _, file in self._old_files(table, of))

    def kept(self, table: Table) -> DataFrame:
        """Return the rows of a recorded table in all other versions, which stay as they are."""
        return self._old_rows(table, self.merged, others=True)

    def has_to_merge(self, table: Table) -> bool:
        return any(True for _ in self._old_files(table, self.merged))

    def keep(self, table: Table) -> None:
        self._add_parts(table, ())

    def drop(self, table: Table) -> None:
        self._dropped.append(table.name)

    def write(self, table: Table, rows: DataFrame, merged: Versions | None = None) -> DataFrame:
        """Write rows of a table for `clusters`, and return them as written.

        Those of a growing table are added to the versions that are not merged. Raises MissingColumn
        for a missing column or another type, PipelineProblem for a null in a column that allows
        none.
        """
        place = f"{table.name}/{self._name}"
        whole = require_columns(rows, table).select(*table.schema.names)
        if keeps_rows(self.spark):
            whole = self._rows[table.name] = computed_once(whole)
        order = () if table.dated_by is None else (table.dated_by,)
        write_parquet(whole, f"{self._files.uri}/{place}", table.partition_columns, order)
        new = self._files.data_files(place)
        footers = {file: self._files.footer(file.path) for file in new}
        check_nulls(table, footers.values())
        counted = [msgspec.structs.replace(file, rows=footers[file].rows) for file in new]
        self._add_parts(table, counted, merged)
        if table.name in self._rows:
            return whole
        return read(self.spark, self._files, table, sorted({file.folder for file in counted}))

    def _add_parts(
        self, table: Table, new: Iterable[DataFile], merged: Versions | None = None
    ) -> None:
        files: dict[str, list[DataFile]] = {each: [] for each in sorted(self.clusters)}
        merged = self.merged if table in RECORDED else merged
        for cluster, file in () if merged is None else self._old_files(table, merged, others=True):
            files[cluster].append(file)
        for file in new:
            files.setdefault(unquote(file.folder.rpartition(CLUSTER)[2]), []).append(file)
        self._written[table.name] = {
            cluster: TablePart(tuple(found), sum(file.rows for file in found))
            for cluster, found in files.items()
        }

    def written(self, table: Table) -> DataFrame:
        parts = self._written[table.name].values()
        folders = [folder for part in parts for folder in part.folders]
        new = self._rows.get(table.name)
        if new is None:
            return read(self.spark, self._files, table, folders)
        old = [each for each in folders if f"/{self._name}/" not in each]
        return new.unionByName(read(self.spark, self._files, table, old)) if old else new

    def _old_rows(
        self, table: Table, of: Versions | None, *more: str, others: bool = False
    ) -> DataFrame:
        folders = {file.folder for _, file in self._old_files(table, of, others=others)}
        return read(self.spark, self._files, table, sorted(folders), *more)

    def _old_files(
        self, table: Table, of: Versions | None, *, others: bool = False
    ) -> Iterator[tuple[str, DataFile]]:
        """Yield the files of `clusters` before: of some versions or all others; None for all."""
        parts = self._before.tables.get(table.name, {})
        for cluster in sorted(self.clusters & parts.keys()):
            for file in parts[cluster].files:
                if of is None or (file.version in of.get(cluster, ())) != others:
                    yield cluster, file

    def commit(self, segments: Iterable[SegmentRead]) -> Manifest:
        """Make this the lake's current version; LakeLocked if another run has written one since.

        A segment that is read again replaces its earlier entry. Folders that neither this version
        nor the one before needs are removed.
        """
        added = tuple(segments)
        again = {each.file for each in added}
        kept = (each for each in self._before.segments if each.file not in again)
        new = Manifest(
            version=self._before.version + 1,
            written_at=datetime.now(UTC).isoformat(timespec="seconds"),
            program=f"ktui {__version__}",
            segments=(*kept, *added),
            tables=self._tables(),
        )
        state = self._files.state(manifests.NAME)
        current = read_manifest(self._files) or Manifest()
        if current != self._before or not self._files.replace(
            manifests.NAME, manifests.encode(new), state
        ):
            self.unstage()
            raise self._overtaken()
        replace_in_version(self._files, new, views.NAME, views.views_sql(new, self._files.uri))
        write_for_readers(self._files, self._before, new)
        self._tidy(new.folders | self._before.folders)
        return new

    def _overtaken(self) -> LakeLocked:
        current = read_manifest(self._files) or Manifest()
        return LakeLocked(
            f"{self._files.uri}: another run has written version {current.version} meanwhile; "
            "this one has changed nothing. Run it again"
        )

    def stage(self, rows: DataFrame) -> DataFrame:
        """Store rows for the time of a run, so that they are not computed twice."""
        if keeps_rows(self.spark) or on_sail(self.spark):
            return computed_once(rows)
        place = f"{self._files.uri}/{STAGING}/{self._name}/{uuid.uuid4().hex}"
        write_parquet(rows, place, ())
        staged = self.spark.read.schema(rows.schema).parquet(place.translate(GLOB))
        return as_one_partition(staged)

    def unstage(self) -> None:
        self._files.remove(STAGING if self._files.locks else f"{STAGING}/{self._name}")

    def _tables(self) -> dict[str, dict[str, TablePart]]:
        tables = {name: dict(parts) for name, parts in self._before.tables.items()}
        for name, parts in self._written.items():
            tables[name] = tables.get(name, {}) | parts
        for name in self._dropped:
            kept = tables.get(name, {}).items()
            tables[name] = {each: part for each, part in kept if each not in self.clusters}
        return tables

    def _tidy(self, keep: Collection[str]) -> None:
        """Remove staged rows, and unused folders of versions that nobody is writing."""
        versions = {folder.rpartition("/")[0] for folder in keep}
        for table in (name for name in self._files.folders("") if name != STAGING):
            for version in self._files.folders(table):
                name = f"{table}/{version}"
                if not version.startswith(VERSION) or not self._is_over(version):
                    continue
                clusters = self._files.folders(name) if name in versions else [""]
                gone = {f"{name}/{cluster}".rstrip("/") for cluster in clusters} - set(keep)
                for folder in sorted(gone):
                    self._files.remove(folder)
        self.unstage()
        for version in filter(self._is_over, self._files.folders(STAGING)):
            self._files.remove(f"{STAGING}/{version}")

    def _is_over(self, version: str) -> bool:
        number = _NUMBER.match(version)
        return self._files.locks or number is None or int(number[1]) <= self._before.version


def write_parquet(
    rows: DataFrame, place: str, by: Collection[str], order: Collection[str] = ()
) -> None:
    """Write rows in folders by the columns `by`, sorted by `order` in each file."""
    if on_sail(rows):
        write_folders(rows, place, by, order)
        return
    grouped = by_folder(rows, by)
    ordered = grouped.sortWithinPartitions(*by, *order) if order else grouped
    ordered.write.partitionBy(*by).mode("overwrite").parquet(place)


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
