"""Add decoded rows to a version of a lake, and find what they change in the other tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from ktui.pipeline.ingest import normalize
from ktui.pipeline.ingest.changes import changed_lines
from ktui.pipeline.ingest.decode import RAW_SAMPLE
from ktui.pipeline.lake.enforce_schema import fit_to_table
from ktui.pipeline.lake.lake import VERSION, WRITTEN_BY, NewVersion
from ktui.pipeline.lake.merging import versions_to_merge
from ktui.pipeline.lake.schema import Table
from ktui.pipeline.lake.sizing import ROW_BYTES, computed_once, forget
from ktui.pipeline.lake.tables import (
    INTAKES,
    LINES,
    POLLS,
    QUARANTINE,
    RECORDED,
    RUN_EVENTS,
    SAMPLES,
)
from ktui.pipeline.run.recorded_sessions import Sessions
from ktui.pipeline.run.steps import OnStep
from ktui.pipeline.tables.patch import PATCHED, News
from ktui.pipeline.tables.windows import PARTITION

_MANY_SAMPLES = 50_000


class NewRows(NamedTuple):
    """How much was decoded."""

    size: int
    """The compressed bytes of their segments."""
    by_cluster: Mapping[str, int]
    damaged: bool
    """Whether there are rows for the table QUARANTINE."""
    sessions: Sessions
    """The sessions of their clusters."""


@contextmanager
def add_recorded(
    version: NewVersion, decoded: DataFrame, new: NewRows, tell: OnStep
) -> Iterator[News | None]:
    """Add decoded rows to the recorded tables of a version's clusters.

    Old rows are written again where the new lines change them, or where that keeps the number of
    files small.

    Args:
        version: the new version; `merged` is set.
        decoded: as returned by `decode`.
        new: how many rows that are.
        tell: is called with the name of each step as it begins.

    Yields:
        What is new for the derived tables, for use within the block; None where all is.
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
        samples = _write(version, decoded, Settled(copies, sessions, of_runs), new, tell)
        yield None if changed is None else _news(version, changed, samples, unsettled, resettled)


def decoded_rows(decoded: DataFrame, kind: str) -> DataFrame:
    """Return the rows of a kind, which is a column of `decode.DECODED`."""
    return decoded.where(decoded["kind"] == kind).select(f"{kind}.*")


def _merged(
    version: NewVersion, changed: DataFrame, new_rows: Mapping[str, int]
) -> tuple[dict[str, frozenset[str]], set[str]]:
    """Choose for each cluster the versions whose rows are written again.

    Returns:
        These versions, and the sessions with changed lines of before.
    """
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


class Settled(NamedTuple):
    """What is settled about the lines that are written."""

    copies: DataFrame
    """As `normalize.copies` returns, of all sessions with such lines."""
    sessions: DataFrame
    """As `normalize.sessions` returns for those."""
    run_ids: Sequence[str]
    """The runs whose events may be among them."""


def _write(
    version: NewVersion, decoded: DataFrame, settled: Settled, new: NewRows, tell: OnStep
) -> DataFrame:
    """Write the recorded tables, and return the samples that were written."""
    copies, sessions = settled.copies, settled.sessions

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
    counting = copies.where("counts").select(*normalize.COPY)
    counted = lines.join(counting, [*normalize.COPY], "left_semi")
    version.write(POLLS, normalize.polls(counted, sessions))
    of_runs = F.col("run_id").isin(*settled.run_ids)
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
    """Find the first changed sample of each partition, and the runs with changed events.

    Args:
        version: the new version.
        changed: as returned by `changed_lines`.
        samples: those that are written now.
        unsettled: those of before that are written again.
        resettled: the sessions with changed lines of before.
    """
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
