"""The sessions of a lake: the table SESSIONS, and the lines of some of them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.pandas.types import to_arrow_schema

from ktui.pipeline.ingest import normalize
from ktui.pipeline.ingest.decode import RAW_SAMPLE
from ktui.pipeline.ingest.normalize import (
    SessionKey,
    SessionSpan,
    Spans,
    changed_lines,
    join_spans,
    touched_by,
    with_contemporaries,
)
from ktui.pipeline.lake.engine import schema_on
from ktui.pipeline.lake.folders import VERSION, WRITTEN_BY
from ktui.pipeline.lake.lake import NewVersion, Versions, versions_to_merge
from ktui.pipeline.lake.schema import Table, fit_to_table
from ktui.pipeline.lake.sizing import ROW_BYTES, as_one_partition, computed_once, forget
from ktui.pipeline.lake.tables import (
    INTAKES,
    LINES,
    POLLS,
    QUARANTINE,
    RECORDED,
    RUN_EVENTS,
    SAMPLES,
    SESSIONS,
)
from ktui.pipeline.tables.listings import PARTITION
from ktui.pipeline.tables.patch import PATCHED, News
from ktui.quantities import as_duration


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
    found = row.asDict() | {"run_ids": sorted(row["run_ids"]), "versions": sorted(versions)}
    return msgspec.convert(found, SessionSpan)


class LakeSessions:
    """The sessions of a version's clusters, with the spans of the new lines."""

    def __init__(self, version: NewVersion, new: Iterable[SessionSpan]) -> None:
        self._version = version
        self._new = join_spans(new)
        self._before = _before(version)
        self._spans: Spans = join_spans((*self._before.values(), *self._new.values()))

    def touched(self) -> set[SessionKey]:
        """Return the sessions whose lines are read: touched ones, or all of a new cluster."""
        known = self._version.known(INTAKES)
        of_others = {key for key in self._spans if key[0] not in known}
        of_known = {key for key in self._new if key[0] in known}
        return self._of_same_name(touched_by(of_known, self._spans) | of_others)

    def rewritten(self, merged: Versions, beside: Collection[SessionKey]) -> set[SessionKey]:
        again = {
            key
            for key, span in self._before.items()
            if not set(span.versions).isdisjoint(merged.get(key[0], ()))
        }
        return self._of_same_name(with_contemporaries(again, self._spans)) - {*beside}

    def lines(self, of: Collection[SessionKey]) -> DataFrame:
        return self._lines(of).select(*normalize.SETTLING, WRITTEN_BY)

    def older(self, of: Collection[SessionKey]) -> set[SessionKey]:
        return self._before.keys() & {*of}

    def length(self, of: Collection[SessionKey]) -> int:
        return self._version.length(LINES, self._versions(of))

    def run_ids(self, of: Collection[SessionKey]) -> list[str]:
        return sorted({run_id for key in of for run_id in self._spans[key].run_ids})

    def write(self) -> None:
        rows = [msgspec.structs.asdict(self._written(key)) for key in sorted(self._spans)]
        schema = to_arrow_schema(SESSIONS.schema, timezone="UTC")
        table = self._version.spark.createDataFrame(
            pa.Table.from_pylist(rows, schema=schema),
            schema_on(self._version.spark, SESSIONS.schema),
        )
        self._version.write(SESSIONS, as_one_partition(table))

    def segments(self, of: Collection[SessionKey]) -> set[str]:
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
        names = {session for _, session in keys}
        return {key for key in self._spans if key[1] in names}

    def _written(self, key: SessionKey) -> SessionSpan:
        span, merged = self._spans[key], set(self._version.merged.get(key[0], ()))
        kept = set(span.versions) - merged
        if key in self._new or len(kept) < len(span.versions):
            kept.add(self._version.name)
        return msgspec.structs.replace(span, versions=tuple(sorted(kept)))


def _before(version: NewVersion) -> dict[SessionKey, SessionSpan]:
    """Read the sessions of the version before, from lines where the table is out of date."""
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


OnStep = Callable[[str], None]
_FACTS = {
    "decoding": 26,
    "lines": 15,
    "samples": 23,
    "polls and run events": 9,
    "states": 18,
    "moves": 12,
    "spans": 3,
    "batches": 2,
    "runs": 1,
    "rates": 2,
    "brokers": 5,
    "intakes": 1,
}
_INSIGHTS = {"forecasts": 13, "eta_errors": 5, "what_if": 24, "insights": 8}
"""The steps of a run in order, and about how many seconds each took of 170 with 58,000 samples."""
_TELLING = 0.2  # before this part of a run, its pace says too little about the rest


class CountedSteps:
    """Adds to the description of each step its number and the time left."""

    def __init__(
        self,
        tell: OnStep,
        *,
        insights: bool,
        what_if: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tell = tell
        self._shares = _FACTS | (_INSIGHTS if insights else {})
        if not what_if:
            self._shares.pop("what_if", None)
        self._now = now
        self._began_s = now()

    def __call__(self, step: str) -> None:
        names = list(self._shares)
        place = next(n for n, name in enumerate(names) if step.startswith(name))
        done = sum(list(self._shares.values())[:place]) / sum(self._shares.values())
        self._tell(f"{place + 1} of {len(names)}: {step}{self._left(done)}")

    def _left(self, done: float) -> str:
        if done < _TELLING:
            return ""
        left_s = (self._now() - self._began_s) * (1 - done) / done
        return f", about {as_duration(round(left_s))} left" if left_s >= 1 else ""


_MANY_SAMPLES = 50_000


class NewRows(NamedTuple):
    """How much was decoded."""

    size: int
    by_cluster: Mapping[str, int]
    damaged: bool  # whether there are rows for the table QUARANTINE
    sessions: LakeSessions


@contextmanager
def add_recorded(
    version: NewVersion, decoded: DataFrame, new: NewRows, tell: OnStep
) -> Iterator[News | None]:
    """Add decoded rows to the recorded tables of a version's clusters.

    Old rows are written again where new lines change them, or to keep files few. Yields what is new
    for the derived tables, for use within the block; None where all is.
    """
    with ExitStack() as stack:

        def keep(rows: DataFrame) -> DataFrame:
            once = computed_once(rows)
            stack.callback(forget, once)
            return once

        tell("lines")
        touched = new.sessions.touched()
        size = new.size + new.sessions.length(touched)
        version.sizing.resize(size)
        unwritten = F.lit(None).cast("string").alias(WRITTEN_BY)
        old = new.sessions.lines(touched)
        lines = decoded_rows(decoded, "line").select(*normalize.SETTLING, unwritten)
        copies = keep(normalize.copies(old.unionByName(lines)))
        sessions = keep(normalize.sessions(copies.where("counts")))
        changed = None
        if (known := version.known(INTAKES)) and not new.sessions.older(touched):
            changed = copies.withColumn("happened", F.col("kind") == "run")
        elif known:
            settled = old.where(F.col("cluster_id").isin(*sorted(known)))
            copies_before = keep(normalize.copies(settled))
            sessions_before = keep(normalize.sessions(copies_before.where("counts")))
            changed = version.stage(changed_lines(copies_before, sessions_before, copies, sessions))
        resettled = set[str]()
        if any(version.rows_by_version(each, RECORDED) for each in sorted(version.clusters)):
            of_old = copies if changed is None else changed
            version.merged, resettled = _merged(version, of_old, new.by_cluster)
            version.sizing.resize(size + ROW_BYTES * version.rows_to_merge(RECORDED))
        if more := new.sessions.rewritten(version.merged, touched):
            copies = copies.unionByName(keep(normalize.copies(new.sessions.lines(more))))
            sessions = keep(normalize.sessions(copies.where("counts")))
        unsettled = version.to_merge(SAMPLES)
        new.sessions.write()
        of_runs = new.sessions.run_ids(touched | more)
        samples = _write(version, decoded, (copies, sessions, of_runs), new, tell)
        yield None if changed is None else _news(version, changed, samples, unsettled, resettled)


def decoded_rows(decoded: DataFrame, kind: str) -> DataFrame:
    """Return the rows of a kind, which is a column of `decode.DECODED`."""
    return decoded.where(decoded["kind"] == kind).select(f"{kind}.*")


def _merged(
    version: NewVersion, changed: DataFrame, new_rows: Mapping[str, int]
) -> tuple[dict[str, frozenset[str]], set[str]]:
    rows = changed.where(F.col(WRITTEN_BY).isNotNull())
    needed: defaultdict[str, set[str]] = defaultdict(set)
    sessions = set[str]()
    for cluster, session, name in (
        rows.select("cluster_id", "session", WRITTEN_BY).distinct().collect()
    ):
        needed[cluster].add(f"{VERSION}{name}")
        sessions.add(session)
    merged = {
        cluster: versions_to_merge(
            version.rows_by_version(cluster, RECORDED), needed[cluster], count
        )
        for cluster, count in new_rows.items()
    }
    return merged, sessions


def _write(
    version: NewVersion,
    decoded: DataFrame,
    settled: tuple[DataFrame, DataFrame, Sequence[str]],
    new: NewRows,
    tell: OnStep,
) -> DataFrame:
    # of all sessions with lines that are written, and of the runs with events among these
    copies, sessions, run_ids = settled

    def grown(table: Table, kind: str) -> DataFrame:
        rows = version.to_merge(table).unionByName(decoded_rows(decoded, kind))
        return fit_to_table(rows, table)

    lines = version.write(LINES, grown(LINES, "line"))
    if new.damaged or version.has_to_merge(QUARANTINE):
        version.write(QUARANTINE, grown(QUARANTINE, "quarantine"))
    else:
        version.keep(QUARANTINE)
    tell("samples")
    unsettled = version.to_merge(SAMPLES).select(*RAW_SAMPLE.names)
    raw = unsettled.unionByName(decoded_rows(decoded, "sample"))
    samples = version.write(SAMPLES, normalize.samples(raw, copies, sessions))
    tell("polls and run events")
    counting = copies.where("counts").select(*normalize.COPY, "own_ms")
    counted = lines.join(counting, [*normalize.COPY])
    version.write(POLLS, normalize.polls(counted, sessions))
    of_runs = F.col("run_id").isin(*run_ids)
    kept = version.kept(RUN_EVENTS).where(of_runs).select(*normalize.EVENT)
    events = normalize.run_events(counted, sessions)
    version.write(RUN_EVENTS, events.join(kept, [*normalize.EVENT], "left_anti"))
    return samples


def _news(
    version: NewVersion,
    changed: DataFrame,
    samples: DataFrame,
    unsettled: DataFrame,
    resettled: Collection[str],
) -> News:
    known = version.known(INTAKES)
    runs = changed.where("happened").select("run_id").distinct().collect()
    both = unsettled.unionByName(samples).where(~F.col("shadowed"))
    of_changed = both.join(changed.select(*normalize.COPY), [*normalize.COPY], "left_semi")
    return News(
        first=of_changed.groupBy(*PARTITION).agg(F.min("t").alias("t")),
        run_ids=sorted(row["run_id"] for row in runs),
        sessions=sorted(resettled),
        known=known,
        derived_bytes=sum(version.length(table) for table in PATCHED),
        many=sum(rows for each in known for _, rows in version.rows_by_version(each, (SAMPLES,)))
        > _MANY_SAMPLES,
        old=lambda table: version.table(table, known),
        stage=version.stage,
    )
