"""A run of the pipeline: read new recordings into the next version of a lake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack, nullcontext

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
    simulated_tables,
    whole_insights,
)
from ktui.pipeline.ingest import segments as segment_files
from ktui.pipeline.ingest.decode import SEGMENT_DIGITS, SegmentSelection, decode
from ktui.pipeline.lake.files import LocalFiles, lake_files
from ktui.pipeline.lake.lake import Lake, NewVersion, read_manifest, replace_in_version
from ktui.pipeline.lake.manifest import Manifest, SegmentRead
from ktui.pipeline.lake.schema import Table
from ktui.pipeline.lake.sizing import is_small, sized
from ktui.pipeline.lake.tables import (
    INSIGHTS,
    RECORDED,
    RUN_EVENTS,
    SAMPLES,
)
from ktui.pipeline.run.recorded_tables import NewRows, add_recorded, decoded_rows
from ktui.pipeline.run.session_replays import drop_states, write_forecasts
from ktui.pipeline.run.steps import CountedSteps, OnStep
from ktui.pipeline.spark.failures import spark_errors_as_problems
from ktui.pipeline.tables.all import derived_tables
from ktui.pipeline.tables.shared import Shared
from ktui.quantities import as_count


class PipelineRequest(msgspec.Struct, frozen=True):
    """The input, the output and the options of a run."""

    recordings: tuple[str, ...]
    """Files and folders, by path or URI."""
    lake: str
    """A folder, by path or URI."""
    choice: SegmentSelection = SegmentSelection()
    """The segments to read."""
    asked: DerivedOptions | None = None
    """Options for forecasts, what-if and insights; None to make none of these tables."""


class PipelineOutcome(msgspec.Struct, frozen=True):
    """The result of a run."""

    found: int
    """The number of complete segments found."""
    read: int
    """The number of them that were new to the lake, and selected."""
    copies: int
    """The number of new files with the bytes of others."""
    unfinished: int
    """The number of segments still being recorded."""
    clusters: tuple[str, ...]
    """The clusters with new rows."""
    manifest: Manifest
    """The current version of the lake."""
    written: bool
    """Whether this run wrote that version."""
    problems: tuple[str, ...]
    """The problems of files, each with its place: those of the search, and the parts of new files
    that could not be read."""
    insights: Insights | None = None
    """The insights of the current version; None where they were not asked for."""


def run(
    spark: SparkSession, request: PipelineRequest, tell: OnStep = lambda _: None
) -> PipelineOutcome:
    """Find new segments in the recordings, and read them into the lake.

    Raises:
        PipelineProblem: nothing is recorded, or the run cannot go on; the lake is as it was.
    """
    tell = CountedSteps(tell, insights=request.asked is not None)
    tell("looking for segments")
    with spark_errors_as_problems():
        found = segment_files.find(spark, request.recordings)
    outcome = read_segments(spark, request, found, tell)
    if not found.files and not outcome.manifest.version:
        raise PipelineProblem(nothing_recorded(request, found))
    return outcome


def read_segments(
    spark: SparkSession,
    request: PipelineRequest,
    found: segment_files.Found,
    tell: OnStep = lambda _: None,
) -> PipelineOutcome:
    """Read the new ones of some segments, and recompute all tables of their clusters.

    Raises:
        LakeLocked: another run is writing the lake.
        PipelineProblem: the run cannot go on; the lake is as it was.
    """
    files = lake_files(request.lake, spark)
    with (
        spark_errors_as_problems(),
        files.locked() if isinstance(files, LocalFiles) else nullcontext(),
        ExitStack() as stack,
    ):
        before = read_manifest(files) or Manifest()
        settled = segment_files.settled(before.segments)
        news = sum(each.length for each in segment_files.new_files(found.files, settled))
        stack.enter_context(sized(spark, small=is_small(news, before)))
        new, missed = segment_files.new_segments(spark, found.files, settled)
        first = segment_files.without_duplicates(new, settled)
        version = NewVersion(spark, files, before)
        read: Collection[str] = ()
        damaged: Collection[str] = ()
        newer = {_digits(each): each.newer_format for each in settled if each.newer_format}
        written: dict[str, DataFrame] = {}
        shared: Shared | None = None
        if first:
            tell(f"decoding {as_count(len(first), 'segment')}")
            contents = segment_files.contents(spark, first)
            decoded = version.stage(decode(request.choice)(contents))
            read, damaged, rows = _read(decoded)
            new_rows = NewRows(rows, damaged=bool(damaged))
            unknown = decoded_rows(decoded, "newer").collect()
            newer |= {row.segment: row.version for row in unknown}
            damaged = sorted((*damaged, *map(_newer_format, unknown)))
            version.clusters = frozenset(rows)
            if rows:
                written, shared = _write(version, decoded, new_rows, tell, stack)
                _replay(version, written, (*before.segments, *first), request.asked, tell)
        clusters = tuple(sorted(version.clusters))
        if request.asked is not None:
            _write_simulated(version, written, shared, before.clusters, request.asked, tell)
        known = {each.sha256 for each in settled}
        taken = [
            msgspec.structs.replace(each, newer_format=newer.get(_digits(each)))
            for each in new
            if each.sha256 in known or _digits(each) in {*read, *newer}
        ]
        after = version.commit(taken) if taken or version.clusters else before
        if after is before:
            version.unstage()  # rows of segments that are not selected
        insights = None
        if request.asked is not None and after.version:
            insights = whole_insights(Lake(spark, files, after).table(INSIGHTS))
            replace_in_version(files, after, INSIGHTS_FILE, encode(insights))
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


def _read(decoded: DataFrame) -> tuple[Collection[str], Collection[str], Mapping[str, int]]:
    """Return decoded rows' segments, a sentence for each damaged file, and rows by cluster."""
    place = ("cluster_id", "segment")
    counts = F.count("*").alias("rows")
    bad = decoded.select("quarantine.*").where("segment is not null")
    found = bad.groupBy(*place, "file").agg(
        F.min(F.struct("line", "reason")).alias("first"), counts
    )
    for kind in ("line", "sample"):
        whole = decoded.select(f"{kind}.cluster_id", f"{kind}.segment")
        whole = whole.where("segment is not null").groupBy(*place).agg(counts)
        found = found.unionByName(whole, allowMissingColumns=True)
    rows = found.collect()
    of_clusters = Counter[str]()
    for row in rows:
        of_clusters[row["cluster_id"]] += row["rows"]
    damaged = sorted(_damage(row) for row in rows if row["first"] is not None)
    return {row["segment"] for row in rows}, damaged, of_clusters


def _newer_format(row: Row) -> str:
    """Return the problem of a file in a format that this ktui does not know."""
    return f"{segment_files.without_file_scheme(row.file)}:1: {row.reason}"


def _damage(row: Row) -> str:
    """Return the problem of a file: its first bad line, and the number of further ones."""
    line, reason = row["first"]
    others = row["rows"] - 1
    more = f", and {as_count(others, 'line')} more" if others else ""
    return f"{segment_files.without_file_scheme(row['file'])}:{line}: {reason}{more}"


def _write(
    version: NewVersion, decoded: DataFrame, new: NewRows, tell: OnStep, stack: ExitStack
) -> tuple[dict[str, DataFrame], Shared | None]:
    """Write what was recorded, and all tables derived from it.

    Returns:
        The tables by name, and what Spark keeps of them until `stack` is closed; None where not
        everything is computed.
    """
    written = {"new": decoded_rows(decoded, "line")}
    shared: Shared | None = None
    with add_recorded(version, decoded, new, tell) as news:
        written |= {table.name: version.written(table) for table in RECORDED}
        samples, events = written[SAMPLES.name], written[RUN_EVENTS.name]
        changes = Shared.of_events(samples, events) if news is None else news
        if isinstance(changes, Shared):
            shared = changes
            stack.callback(shared.unpersist)
        _write_each(version, written, derived_tables(samples, events, changes), tell)
    return written, shared


def _write_each(
    version: NewVersion,
    written: dict[str, DataFrame],
    made: Iterable[tuple[Table, DataFrame]],
    tell: OnStep,
) -> None:
    """Write tables one by one, and add each to `written`: later tables are computed from them."""
    for table, rows in made:
        tell(table.name)
        version.write(table, rows)
        written[table.name] = version.written(table)


def _replay(
    version: NewVersion,
    written: dict[str, DataFrame],
    segments: Collection[SegmentRead],
    asked: DerivedOptions | None,
    tell: OnStep,
) -> None:
    """Replay the sessions with new lines; without insights, forget how far they were replayed."""
    if asked is None:
        drop_states(version, written["new"])
    else:
        write_forecasts(version, written, segments, tell)


def _write_simulated(
    version: NewVersion,
    written: Mapping[str, DataFrame],
    shared: Shared | None,
    known: Collection[str],
    asked: DerivedOptions,
    tell: OnStep,
) -> None:
    """Simulate runs: those of clusters with new rows, or all of the lake if asked for."""
    new = version.clusters
    version.clusters = frozenset(known) - new if asked.anew else frozenset()
    if not new | version.clusters:
        return
    if version.clusters:
        shared = None  # it has nothing of their samples
    sources = {table.name: version.table(table) for table in PLAYED_BY}
    for name in sources.keys() & written.keys():
        sources[name] = sources[name].unionByName(written[name])
    version.clusters |= new
    _write_each(version, sources, simulated_tables(sources, asked, shared), tell)


def _digits(segment: SegmentRead) -> str:
    return segment.sha256[:SEGMENT_DIGITS]


def nothing_recorded(request: PipelineRequest, found: segment_files.Found) -> str:
    """Return the message that a run has found nothing to read, with what to do."""
    places = ", ".join(request.recordings)
    if found.unfinished:
        return (
            f"{places}: nothing is recorded completely yet. "
            f"{as_count(found.unfinished, 'segment is', 'segments are')} being written, for at "
            "most 15 minutes each. Run this again later"
        )
    if found.problems:
        more = as_count(len(found.problems), "file")
        return (
            f"{places}: nothing is recorded that can be read. {more} cannot be used. "
            f"The first is {found.problems[0]}"
        )
    return (
        f"{places}: nothing is recorded. ktui start records its run, and ktui watch --record its "
        "view. To record a cluster: ktui record"
    )
