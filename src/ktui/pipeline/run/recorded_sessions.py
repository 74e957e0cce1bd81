"""The sessions of a lake: the table SESSIONS, and the lines of some of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.pandas.types import to_arrow_schema

from ktui.pipeline.ingest import normalize
from ktui.pipeline.ingest.session_spans import (
    SessionKey,
    SessionSpan,
    Spans,
    join_spans,
    touched_by,
    with_contemporaries,
)
from ktui.pipeline.lake.lake import VERSION, WRITTEN_BY, NewVersion, Versions
from ktui.pipeline.lake.sizing import as_one_partition
from ktui.pipeline.lake.tables import INTAKES, LINES, SESSIONS


def span_figures() -> list[Column]:
    """Return the aggregates of a session's lines that make its span, without its versions."""
    offset = F.col("at_ms") - F.col("ms")
    return [
        F.min("ms").alias("first_ms"),
        F.max("ms").alias("last_ms"),
        F.min(offset).alias("least_offset"),
        F.max(offset).alias("most_offset"),
        F.collect_set("run_id").alias("run_ids"),
    ]


def span_of(row: Row, versions: Iterable[str] = ()) -> SessionSpan:
    """Return the span of a row with `span_figures`."""
    return SessionSpan(
        row["cluster_id"],
        row["session"],
        row["first_ms"],
        row["last_ms"],
        row["least_offset"],
        row["most_offset"],
        tuple(sorted(row["run_ids"])),
        tuple(sorted(versions)),
    )


class Sessions:
    """The sessions of a version's clusters.

    Args:
        version: the new version.
        new: the spans of the new lines.
    """

    def __init__(self, version: NewVersion, new: Iterable[SessionSpan]) -> None:
        self._version = version
        self._new = join_spans(new)
        self._before = _before(version)
        self._spans: Spans = join_spans((*self._before.values(), *self._new.values()))

    def touched(self) -> set[SessionKey]:
        """Return the sessions whose lines are read.

        They are all sessions of a cluster that has no derived tables yet, and of any other cluster
        those that the new lines touch.
        """
        known = self._version.known(INTAKES)
        of_others = {key for key in self._spans if key[0] not in known}
        of_known = {key for key in self._new if key[0] in known}
        return self._of_same_name(touched_by(of_known, self._spans) | of_others)

    def rewritten(self, merged: Versions, beside: Collection[SessionKey]) -> set[SessionKey]:
        """Return the further sessions whose lines are read because their rows are written again.

        Args:
            merged: the versions whose rows are written again, by cluster.
            beside: those that are read already.
        """
        again = {
            key
            for key, span in self._before.items()
            if not set(span.versions).isdisjoint(merged.get(key[0], ()))
        }
        return self._of_same_name(with_contemporaries(again, self._spans)) - {*beside}

    def lines(self, of: Collection[SessionKey]) -> DataFrame:
        """Return what the lake has of some sessions' lines: `SETTLING`, and `WRITTEN_BY`."""
        return self._lines(of).select(*normalize.SETTLING, WRITTEN_BY)

    def older(self, of: Collection[SessionKey]) -> set[SessionKey]:
        """Return those of some sessions of which the lake has lines."""
        return self._before.keys() & {*of}

    def length(self, of: Collection[SessionKey]) -> int:
        """Return the bytes of the files with the lake's lines of some sessions."""
        return self._version.length(LINES, self._versions(of))

    def run_ids(self, of: Collection[SessionKey]) -> list[str]:
        """Return the runs whose events some sessions have."""
        return sorted({run_id for key in of for run_id in self._spans[key].run_ids})

    def write(self) -> None:
        """Write the table SESSIONS, once `merged` of the version is known."""
        rows = [msgspec.structs.asdict(self._written(key)) for key in sorted(self._spans)]
        schema = to_arrow_schema(SESSIONS.schema, timezone="UTC")
        table = self._version.spark.createDataFrame(
            pa.Table.from_pylist(rows, schema=schema), SESSIONS.schema
        )
        self._version.write(SESSIONS, as_one_partition(table))

    def segments(self, of: Collection[SessionKey]) -> set[str]:
        """Return the segments of which the lake has lines of some sessions."""
        if not self.older(of):
            return set()
        rows = self._lines(of).select("segment").distinct().collect()
        return {row["segment"] for row in rows}

    def _versions(self, of: Collection[SessionKey]) -> Versions:
        versions: defaultdict[str, set[str]] = defaultdict(set)
        for key in of:
            if key in self._before:
                versions[key[0]].update(self._before[key].versions)
        return versions

    def _lines(self, of: Collection[SessionKey]) -> DataFrame:
        rows = self._version.with_version(LINES, self._versions(of))
        names = sorted({session for _, session in of})
        return rows.where(F.col("session").isin(*names))

    def _of_same_name(self, keys: Collection[SessionKey]) -> set[SessionKey]:
        """Return also sessions of other clusters with such names, by which lines are selected."""
        names = {session for _, session in keys}
        return {key for key in self._spans if key[1] in names}

    def _written(self, key: SessionKey) -> SessionSpan:
        """Return a session with the folders that have its lines in the new version."""
        span, merged = self._spans[key], set(self._version.merged.get(key[0], ()))
        kept = set(span.versions) - merged
        if key in self._new or len(kept) < len(span.versions):
            kept.add(self._version.name)
        return msgspec.structs.replace(span, versions=tuple(sorted(kept)))


def _before(version: NewVersion) -> dict[SessionKey, SessionSpan]:
    """Read the sessions of the version before; where its table of them is out of date, from lines.

    A ktui that does not know the table leaves it as it is, and writes lines in further folders.
    """
    rows = version.table(SESSIONS).collect() if version.known(SESSIONS) else []
    found = [span_of(row, row["versions"]) for row in rows]
    folders: defaultdict[str, set[str]] = defaultdict(set)
    for span in found:
        folders[span.cluster_id].update(span.versions)
    old = [
        cluster
        for cluster in sorted(version.known(LINES))
        if {name for name, _ in version.rows_by_version(cluster, (LINES,))} != folders[cluster]
    ]
    if old:
        found = [span for span in found if span.cluster_id not in old]
        lines = version.with_version(LINES).where(F.col("cluster_id").isin(*old))
        written_by = F.collect_set(WRITTEN_BY).alias("versions")
        counted = lines.groupBy(*normalize.SESSION).agg(*span_figures(), written_by)
        found += [
            span_of(row, (f"{VERSION}{name}" for name in row["versions"]))
            for row in counted.collect()
        ]
    return {span.key: span for span in found}
