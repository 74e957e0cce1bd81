"""A run of the pipeline: what is new in the recordings goes into the next version of a lake."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext

import msgspec
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from ktui.insights.file import NAME as INSIGHTS_FILE
from ktui.insights.file import encode
from ktui.insights.insights import Insights
from ktui.pipeline.errors import PipelineProblem
from ktui.pipeline.forecast.derived import (
    PLAYED_BY,
    DerivedOptions,
    foretold,
    played,
    whole_insights,
)
from ktui.pipeline.ingest import normalize
from ktui.pipeline.ingest import segments as segment_files
from ktui.pipeline.ingest.decode import RAW_SAMPLE, SEGMENT_DIGITS, SegmentSelection, decode
from ktui.pipeline.lake.enforce_schema import shaped
from ktui.pipeline.lake.files import LocalFiles, lake_files
from ktui.pipeline.lake.lake import STAGING, Lake, NewVersion, read_manifest, staged
from ktui.pipeline.lake.manifest import Manifest, SegmentRead
from ktui.pipeline.lake.schema import Table
from ktui.pipeline.lake.tables import (
    FORECASTS,
    INSIGHTS,
    LINES,
    POLLS,
    QUARANTINE,
    RUN_EVENTS,
    SAMPLES,
)
from ktui.pipeline.spark.failures import in_words
from ktui.pipeline.tables.all import worked_out
from ktui.quantities import as_count

Tell = Callable[[str], None]
"""Takes what is begun, in words."""


class PipelineRequest(msgspec.Struct, frozen=True):
    """What a run is to do."""

    recordings: tuple[str, ...]
    """Files and folders, by path or URI."""
    lake: str
    """A folder, by path or URI."""
    choice: SegmentSelection = SegmentSelection()
    asked: DerivedOptions | None = None
    """What is played, and held against the truth; None for none of it."""


class PipelineOutcome(msgspec.Struct, frozen=True):
    """What a run did."""

    found: int
    """Segments that there are."""
    read: int
    """Those of them that were new to the lake, and wanted."""
    copies: int
    """Those that were new files with the bytes of others."""
    unfinished: int
    """Segments that are being recorded still."""
    clusters: tuple[str, ...]
    """Those that have new rows."""
    manifest: Manifest
    """The lake, as it is now."""
    written: bool
    """Whether this version of it is new."""
    problems: tuple[str, ...]
    """What is wrong with files, each with its place: all that was found and what could not be read
    of those that are new."""
    insights: Insights | None = None
    """Those of the lake as it is now; None where they were not asked for."""


def run(
    spark: SparkSession, wanted: PipelineRequest, tell: Tell = lambda _: None
) -> PipelineOutcome:
    """Take in what is new in the recordings.

    Raises:
        PipelineProblem: nothing is recorded, or something stands in the way; the lake is as it was.
    """
    tell("looking for segments")
    with in_words():
        found = segment_files.find(spark, wanted.recordings)
    outcome = take(spark, wanted, found, tell)
    if not found.files and not outcome.manifest.version:
        raise PipelineProblem(_nothing(wanted, found))
    return outcome


def take(
    spark: SparkSession,
    wanted: PipelineRequest,
    found: segment_files.Found,
    tell: Tell = lambda _: None,
) -> PipelineOutcome:
    """Read what is new of some segments, and work out anew all tables of the clusters of these.

    Raises:
        LakeLocked: another run writes the lake.
        PipelineProblem: something stands in the way; the lake is as it was.
    """
    files = lake_files(wanted.lake, spark)
    with in_words(), files.locked() if isinstance(files, LocalFiles) else nullcontext():
        before = read_manifest(files) or Manifest()
        new, missed = segment_files.unread(spark, found.files, before.segments)
        first = segment_files.first_of_each(new, before.segments)
        version = NewVersion(spark, files, before)
        read: Collection[str] = ()
        damaged: Collection[str] = ()
        written: dict[str, DataFrame] = {}
        if first:
            tell(f"decoding {as_count(len(first), 'segment')}")
            contents = segment_files.contents(spark, first)
            decoded = staged(files, decode(wanted.choice)(contents))
            read, damaged = _read(decoded, version)
            written = _write(version, decoded, tell)
            if wanted.asked is not None:
                _foretell(version, written, (*before.segments, *first), tell)
        clusters = tuple(sorted(version.clusters))
        if wanted.asked is not None:
            _play(version, written, before.clusters, wanted.asked, tell)
        known = {each.sha256 for each in before.segments}
        taken = [each for each in new if each.sha256 in known or _digits(each) in read]
        after = version.commit(taken) if taken or version.clusters else before
        if after is before:
            files.remove(STAGING)  # of segments that are not wanted
        insights = None
        if wanted.asked is not None and after.version:
            insights = whole_insights(Lake(spark, files, after).table(INSIGHTS))
            files.replace(INSIGHTS_FILE, encode(insights))
    return PipelineOutcome(
        found=len(found.files),
        read=len(read),
        copies=len(new) - len(first),
        unfinished=found.unfinished,
        clusters=clusters,
        manifest=after,
        written=after is not before,
        problems=(*found.problems, *missed, *damaged),
        insights=insights,
    )


def _read(decoded: DataFrame, version: NewVersion) -> tuple[Collection[str], Collection[str]]:
    """Let a version be of the clusters in some rows.

    Returns:
        The segments that these are of, and what is damaged in them, a sentence for each file.
    """
    lines = decoded.select("line.cluster_id", "line.segment").where("segment is not null")
    bad = decoded.select("quarantine.*").where("segment is not null")
    told = bad.groupBy("cluster_id", "segment", "file").agg(
        F.min(F.struct("line", "reason")).alias("first"), F.count("*").alias("lines")
    )
    rows = lines.distinct().unionByName(told, allowMissingColumns=True).collect()
    version.clusters = frozenset(row["cluster_id"] for row in rows)
    damaged = sorted(_damage(row) for row in rows if row["first"] is not None)
    return {row["segment"] for row in rows}, damaged


def _damage(row: Row) -> str:
    """Say what is wrong with a file, by the first of its lines that could not be used."""
    line, reason = row["first"]
    others = row["lines"] - 1
    more = f", and {as_count(others, 'line')} more" if others else ""
    return f"{segment_files.plain(row['file'])}:{line}: {reason}{more}"


def _write(version: NewVersion, decoded: DataFrame, tell: Tell) -> dict[str, DataFrame]:
    """Write all tables of a version's clusters: what is decoded, with what was there before."""

    def new(kind: str) -> DataFrame:
        return decoded.where(decoded["kind"] == kind).select(f"{kind}.*")

    def grown(table: Table, kind: str) -> DataFrame:
        return shaped(version.table(table).unionByName(new(kind)), table)

    tell("lines")
    lines = version.write(LINES, grown(LINES, "line"))
    version.write(QUARANTINE, grown(QUARANTINE, "quarantine"))
    copies = normalize.copies(lines).persist()
    counted = copies.where("counts")
    sessions = normalize.sessions(counted).persist()
    tell("samples")
    raw = version.table(SAMPLES).select(*RAW_SAMPLE.names).unionByName(new("sample"))
    samples = version.write(SAMPLES, normalize.samples(raw, copies, sessions))
    tell("polls and run events")
    polls = version.write(POLLS, normalize.polls(counted, sessions))
    events = version.write(RUN_EVENTS, normalize.run_events(counted, sessions))
    for kept in (copies, sessions):
        kept.unpersist()
    written = {"new": new("line"), LINES.name: lines, SAMPLES.name: samples}
    written |= {POLLS.name: polls, RUN_EVENTS.name: events}
    _write_each(version, written, worked_out(samples, events), tell)
    return written


def _write_each(
    version: NewVersion,
    written: dict[str, DataFrame],
    made: Iterable[tuple[Table, DataFrame]],
    tell: Tell,
) -> None:
    """Write tables as they come, and note each: later ones go by those before."""
    for table, rows in made:
        tell(table.name)
        written[table.name] = version.write(table, rows)


def _foretell(
    version: NewVersion,
    written: dict[str, DataFrame],
    segments: Collection[SegmentRead],
    tell: Tell,
) -> None:
    """Write what was foretold; sessions that have grown are told anew."""
    sessions = written["new"].select("cluster_id", "session").distinct()
    kept = version.table(FORECASTS).join(sessions, ["cluster_id", "session"], "left_anti")
    names = written[LINES.name].join(sessions, ["cluster_id", "session"], "left_semi")
    wanted = {row["segment"] for row in names.select("segment").distinct().collect()}
    contents = segment_files.still_there(version.spark, segments, wanted)
    _write_each(version, written, foretold(written, kept, contents), tell)


def _play(
    version: NewVersion,
    written: Mapping[str, DataFrame],
    known: Collection[str],
    asked: DerivedOptions,
    tell: Tell,
) -> None:
    """Play runs: those of clusters with something new, or all of the lake where that is asked."""
    new = version.clusters
    version.clusters = frozenset(known) - new if asked.anew else frozenset()
    if not new | version.clusters:
        return
    sources = {table.name: version.table(table) for table in PLAYED_BY}
    for name in sources.keys() & written.keys():
        sources[name] = sources[name].unionByName(written[name])
    version.clusters |= new
    _write_each(version, sources, played(sources, asked), tell)


def _digits(segment: SegmentRead) -> str:
    return segment.sha256[:SEGMENT_DIGITS]


def _nothing(wanted: PipelineRequest, found: segment_files.Found) -> str:
    places = ", ".join(wanted.recordings)
    if found.unfinished:
        return (
            f"{places}: nothing is recorded that is whole yet; "
            f"{as_count(found.unfinished, 'segment')} being written, for at most 15 minutes each"
        )
    if found.problems:
        more = as_count(len(found.problems), "file")
        return (
            f"{places}: nothing is recorded that can be read; something is wrong with {more}. "
            f"The first is {found.problems[0]}"
        )
    return (
        f"{places}: nothing is recorded. Runs are, as they go (ktui start), and views with "
        "ktui watch --record; or record a cluster: ktui record"
    )
