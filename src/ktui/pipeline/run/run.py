"""A run of the pipeline: read new recordings into the next version of a lake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import NamedTuple

import msgspec
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from ktui.insights import NAME as INSIGHTS_FILE
from ktui.insights import Insights, encode
from ktui.pipeline.forecast.derived import (
    PLAYED_BY,
    DerivedOptions,
    simulated_tables,
    whole_insights,
)
from ktui.pipeline.ingest import segments as segment_files
from ktui.pipeline.ingest.decode import SEGMENT_DIGITS, SegmentSelection, decode
from ktui.pipeline.ingest.normalize import SessionSpan
from ktui.pipeline.lake.files import LakeFiles, ListedFile, LocalFiles, lake_files, local_path
from ktui.pipeline.lake.lake import Lake, NewVersion, read_manifest, replace_in_version, write_grown
from ktui.pipeline.lake.manifest import NAME as LAKE
from ktui.pipeline.lake.manifest import Manifest, PipelineProblem, SegmentRead
from ktui.pipeline.lake.schema import union_by_name
from ktui.pipeline.lake.sizing import ends_soon, sized
from ktui.pipeline.lake.tables import (
    ETA_ERRORS,
    INSIGHTS,
    INTAKES,
    POLLS,
    RECORDED,
    RUN_EVENTS,
    RUNS,
    SAMPLES,
    WHAT_IF,
)
from ktui.pipeline.run.recorded_tables import (
    CountedSteps,
    LakeSessions,
    NewRows,
    OnStep,
    add_recorded,
    decoded_rows,
    span_figures,
    span_of,
)
from ktui.pipeline.run.replays import drop_states, write_errors, write_forecasts
from ktui.pipeline.spark.errors import spark_errors_as_problems
from ktui.pipeline.tables.patch import Shared, derived_tables
from ktui.pipeline.tables.runs import run_folds
from ktui.quantities import as_count


class PipelineRequest(msgspec.Struct, frozen=True):
    """The input, the output and the options of a run."""

    recordings: tuple[str, ...]
    lake: str
    choice: SegmentSelection = SegmentSelection()
    asked: DerivedOptions | None = None  # None: no forecasts and insights


class PipelineOutcome(msgspec.Struct, frozen=True):
    """The result of a run."""

    found: int
    read: int
    copies: int
    unfinished: int
    clusters: tuple[str, ...]
    manifest: Manifest
    written: bool
    problems: tuple[str, ...]  # of files, each with its place, in search and reading
    insights: Insights | None = None


def run(
    spark: SparkSession, request: PipelineRequest, tell: OnStep = lambda _: None
) -> PipelineOutcome:
    """Read new segments into the lake; PipelineProblem if it stays as it was."""
    tell("looking for segments")
    with spark_errors_as_problems():
        segment_files.check_there(spark, request.recordings, folders=False)
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
    """Read new segments, and recompute their clusters' tables; LakeLocked, or PipelineProblem."""
    files = lake_files(request.lake, spark)
    asked = request.asked
    what_if = asked is not None and asked.what_if is not None
    tell = CountedSteps(tell, insights=asked is not None, what_if=what_if)
    with (
        spark_errors_as_problems(),
        files.locked() if isinstance(files, LocalFiles) else nullcontext(),
        ExitStack() as stack,
    ):
        before = read_manifest(files) or Manifest()
        settled = segment_files.settled(before.segments)
        new_files = segment_files.new_files(found.files, settled)
        news = sum(each.length for each in new_files)
        sizing = stack.enter_context(sized(spark, news))
        first, copies = segment_files.without_copies(spark, new_files, settled)
        version = NewVersion(spark, files, before, sizing)
        decoded, written = Decoded(), Written({})
        if first:
            tell(f"decoding {as_count(len(first), 'segment')}")
            contents = segment_files.contents(spark, first)
            rows = version.stage(decode(request.choice)(contents))
            decoded = _read(rows)
            version.clusters = frozenset(decoded.rows)
        new, missed = segment_files.with_checksums(new_files, {**copies, **decoded.files})
        if decoded.rows:
            sessions = LakeSessions(version, decoded.sessions)
            new_rows = NewRows(news, decoded.rows, damaged=decoded.quarantined, sessions=sessions)
            written = _write(version, rows, new_rows, tell, stack)
            read = (*before.segments, *new)
            _replay(version, sessions, written, read, asked, tell)
        clusters = tuple(sorted(version.clusters))
        if asked is not None:
            known = before.tables.get(INTAKES.name, {})
            _write_simulated(version, written, known, asked, tell)
        taken = _taken(new, settled, decoded)
        after = version.commit(taken) if taken or version.clusters else before
        if after is before:
            version.unstage()  # rows of segments that are not selected
        insights = None if asked is None else _write_insights(spark, files, after)
    return PipelineOutcome(
        found=len(found.files),
        read=len(decoded.read),
        copies=len(copies),
        unfinished=found.unfinished,
        clusters=clusters,
        manifest=after,
        written=after is not before,
        problems=(*found.problems, *missed, *decoded.damaged),
        insights=insights,
    )


class Written(NamedTuple):
    """What a version has of the clusters with new rows."""

    tables: dict[str, DataFrame]  # by name, and as `new` the new lines
    folds: DataFrame | None = None  # all of their runs, where these are folded already
    run_ids: Collection[str] = ()  # with new or changed events; none of all-new clusters
    changed: Collection[str] = ()  # the sessions with changed lines of before


class Decoded(msgspec.Struct, frozen=True):
    """What was decoded of new segments, which are named by the first digits of their checksums."""

    files: Mapping[str, str] = {}  # the SHA-256 of each file that could be read, by path
    read: Collection[str] = ()
    newer: Mapping[str, int] = {}  # the formats of those that a newer ktui wrote
    damaged: Sequence[str] = ()
    quarantined: bool = False
    rows: Mapping[str, int] = {}  # by cluster
    sessions: Sequence[SessionSpan] = ()


def _read(decoded: DataFrame) -> Decoded:
    place = ("cluster_id", "segment")
    counts = F.count("*").alias("rows")
    bad = decoded_rows(decoded, "quarantine")
    found = bad.groupBy(*place, "file").agg(
        F.min(F.struct("line", "reason")).alias("first"), counts
    )
    lines = decoded_rows(decoded, "line").groupBy(*place, "session").agg(counts, *span_figures())
    samples = decoded_rows(decoded, "sample").groupBy(*place).agg(counts)
    named = (decoded_rows(decoded, kind) for kind in ("newer", "file"))
    collected = union_by_name(found, lines, samples, *named).collect()
    files = [row for row in collected if row["sha256"] is not None]
    unknown = [row for row in collected if row["version"] is not None]
    rows = [row for row in collected if row["rows"] is not None]
    of_clusters = Counter[str]()
    for row in rows:
        of_clusters[row["cluster_id"]] += row["rows"]
    bad_rows = [row for row in rows if row["first"] is not None]
    newer = (f"{segment_files.without_file_scheme(row.file)}:1: {row.reason}" for row in unknown)
    return Decoded(
        files={segment_files.without_file_scheme(row["file"]): row["sha256"] for row in files},
        read={row["segment"] for row in rows},
        newer={row["segment"]: row["version"] for row in unknown},
        damaged=sorted((*map(_damage, bad_rows), *newer)),
        quarantined=bool(bad_rows),
        rows=of_clusters,
        sessions=[span_of(row) for row in rows if row["session"] is not None],
    )


def _taken(
    new: Iterable[SegmentRead], settled: Collection[SegmentRead], decoded: Decoded
) -> list[SegmentRead]:
    formats = {_digits(each): each.newer_format for each in settled if each.newer_format}
    formats |= decoded.newer
    known = {each.sha256 for each in settled}
    return [
        msgspec.structs.replace(each, newer_format=formats.get(_digits(each)))
        for each in new
        if each.sha256 in known or _digits(each) in {*decoded.read, *formats}
    ]


def _write_insights(spark: SparkSession, files: LakeFiles, version: Manifest) -> Insights | None:
    if not version.version:
        return None
    insights = whole_insights(Lake(spark, files, version).table(INSIGHTS))
    replace_in_version(files, version, INSIGHTS_FILE, encode(insights))
    return insights


def _damage(row: Row) -> str:
    line, reason = row["first"]
    others = row["rows"] - 1
    more = f", and {as_count(others, 'line')} more" if others else ""
    return f"{segment_files.without_file_scheme(row['file'])}:{line}: {reason}{more}"


def _write(
    version: NewVersion, rows: DataFrame, new: NewRows, tell: OnStep, stack: ExitStack
) -> Written:
    written = {"new": decoded_rows(rows, "line")}
    folds: DataFrame | None = None
    with add_recorded(version, rows, new, tell) as news:
        written |= {table.name: version.written(table) for table in RECORDED}
        samples, events = written[SAMPLES.name], written[RUN_EVENTS.name]
        changes = Shared(samples, run_folds(events)) if news is None else news
        if isinstance(changes, Shared):
            folds = changes.folds
            stack.callback(changes.unpersist)
        for table, added, marks in derived_tables(samples, events, changes, version.sizing.resize):
            tell(table.name)
            if marks is None:
                version.write(table, added)
            else:
                write_grown(version, table, added, marks)
            written[table.name] = version.written(table)
    if news is None:
        return Written(written, folds)
    return Written(written, folds, news.run_ids, news.sessions)


def _replay(
    version: NewVersion,
    sessions: LakeSessions,
    written: Written,
    segments: Collection[SegmentRead],
    asked: DerivedOptions | None,
    tell: OnStep,
) -> None:
    made = written.tables
    if asked is None:
        drop_states(version, made["new"])
        version.drop(ETA_ERRORS)
        return
    ends, anew = write_forecasts(version, sessions, made, segments, tell)
    tell(ETA_ERRORS.name)
    again = {*anew, *written.changed}
    write_errors(version, made[POLLS.name], made[RUNS.name], ends, again, written.run_ids)
    made[ETA_ERRORS.name] = version.written(ETA_ERRORS)


def _write_simulated(
    version: NewVersion,
    written: Written,
    known: Collection[str],
    asked: DerivedOptions,
    tell: OnStep,
) -> None:
    new = version.clusters
    all_runs = asked.what_if is not None and asked.what_if.all_runs
    version.clusters = frozenset(known) - new if all_runs else frozenset()
    if not new | version.clusters:
        return
    folds = None if version.clusters else written.folds  # those folded have none of other clusters
    sources = dict(written.tables)
    for table in PLAYED_BY if version.clusters else ():
        of_others, of_new = version.table(table), written.tables.get(table.name)
        sources[table.name] = of_others if of_new is None else of_others.unionByName(of_new)
    version.clusters |= new
    sources[WHAT_IF.name] = version.table(WHAT_IF)
    for table, rows in simulated_tables(sources, asked, folds):
        tell(table.name)
        version.write(table, rows)
        sources[table.name] = version.written(table)


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


def check_recorded(request: PipelineRequest, here: Collection[ListedFile] | None) -> None:
    """Raise PipelineProblem without a lake or recordings, as far as this machine shows.

    Raises LakeLocked where another run is writing the lake.
    """
    lake = local_path(request.lake)
    if lake is not None and lake.is_dir():
        with LocalFiles(lake).locked():
            pass
    if lake is None or (lake / LAKE).exists():
        return
    segment_files.check_there(None, request.recordings, folders=False)
    if here is not None and not here:
        raise PipelineProblem(nothing_recorded(request, segment_files.Found((), (), 0)))


def reads_little(request: PipelineRequest, here: Collection[ListedFile] | None) -> bool:
    """Whether a run's JVM will end soon, before Spark is there; not known of URIs, so False."""
    lake = local_path(request.lake)
    if lake is None or here is None:
        return False
    before = read_manifest(LocalFiles(lake)) or Manifest()
    new = segment_files.new_files(here, segment_files.settled(before.segments))
    return ends_soon(sum(file.length for file in new))
