"""The content of a lake, and what is missing from it: the figures of `ktui pipeline check`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from ktui.pipeline.ingest.normalize import LINE, SESSION, copies
from ktui.pipeline.lake.lake import Lake
from ktui.pipeline.lake.tables import LINES, POLLS, QUARANTINE, SAMPLES

GAP_MS = 60_000
"""Polls of a session that are further apart count as a gap."""
CLOCK_STEP_MS = 1_000
"""Between two lines, such a change of the wall clock against the monotonic one counts as a step."""


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of a check. Times are in ms."""

    version: int
    written_at: str
    clusters: tuple[str, ...]
    segments: int
    """Files read, without those that have the bytes of others."""
    sessions: int
    sessions_without_end: int
    """Sessions whose recorder died, or had not ended yet."""
    lines: int
    """Lines, without further copies."""
    copies: int
    """Further copies of lines."""
    differing: int
    """Lines whose copies differ."""
    missing: int
    """Lines without any copy, though later lines of their session exist."""
    quarantined: Mapping[str, int]
    """Lines that could not be used, by reason."""
    looks: int
    lost_polls: int
    """Polls that failed as a whole."""
    gaps: int
    """Spans of over a minute in a session without a poll."""
    longest_gap_ms: int
    clock_steps: int
    """Steps of recorders' wall clocks; normalised times have none."""
    largest_clock_step_ms: int
    shadowed_polls: int
    """Polls at times that a better session saw."""
    shadowed_samples: int
    rows: Mapping[str, int]
    """Rows by table."""

    @property
    def lost(self) -> bool:
        """Whether any recorded lines are not in the tables."""
        return bool(self.quarantined or self.missing)


def check(lake: Lake) -> Findings:
    """Count the content of a lake."""
    lines = lake.table(LINES)
    counted = copies(lines).where("counts").persist()
    try:
        return Findings(
            version=lake.manifest.version,
            written_at=lake.manifest.written_at,
            clusters=tuple(lake.manifest.clusters),
            segments=len({each.sha256 for each in lake.manifest.segments}),
            quarantined=_quarantined(lake.table(QUARANTINE)),
            shadowed_polls=lake.table(POLLS).where("shadowed").count(),
            shadowed_samples=lake.table(SAMPLES).where("shadowed").count(),
            rows=_rows(lake),
            **_copies(lines),
            **_sessions(counted),
            **_between(counted),
        )
    finally:
        counted.unpersist()


def _rows(lake: Lake) -> Mapping[str, int]:
    tables = lake.manifest.tables.items()
    return {name: sum(part.rows for part in parts.values()) for name, parts in tables}


def _quarantined(quarantine: DataFrame) -> Mapping[str, int]:
    reason = F.substring_index("reason", ":", 1)
    rows = quarantine.groupBy(reason.alias("reason")).count().orderBy("reason").collect()
    return {row["reason"]: row["count"] for row in rows}


def _copies(lines: DataFrame) -> dict[str, int]:
    of_line = lines.groupBy(*LINE).agg(
        F.count("*").alias("copies"), F.count_distinct("sha").alias("texts")
    )
    row = _one(
        of_line.agg(
            F.count("*").alias("lines"),
            _sum(F.col("copies") - 1).alias("copies"),
            F.count_if(F.col("texts") > 1).alias("differing"),
        )
    )
    return row.asDict()


def _sessions(counted: DataFrame) -> dict[str, int]:
    of_session = counted.groupBy(*SESSION).agg(
        F.bool_or(F.col("kind") == "end").alias("ended"),
        (F.max("seq") - F.min("seq") + 1 - F.count("*")).alias("missing"),
        F.count_if((F.col("kind") == "look") & F.col("decoded")).alias("looks"),
        F.count_if(F.col("kind") == "lost").alias("lost"),
    )
    row = _one(
        of_session.agg(
            F.count("*").alias("sessions"),
            F.count_if(~F.col("ended")).alias("sessions_without_end"),
            _sum(F.col("missing")).alias("missing"),
            _sum(F.col("looks")).alias("looks"),
            _sum(F.col("lost")).alias("lost_polls"),
        )
    )
    return row.asDict()


def _between(counted: DataFrame) -> dict[str, int]:
    """Count gaps between consecutive polls, and clock steps between consecutive lines."""
    order = Window.partitionBy(*SESSION).orderBy("seq")
    timed = counted.where(F.col("kind") != "run")  # a run line's `at` is the journal's
    step = F.abs(F.col("at_ms") - F.col("ms") - F.lag(F.col("at_ms") - F.col("ms")).over(order))
    steps = timed.select(step.alias("step")).where(F.col("step") >= CLOCK_STEP_MS)
    polls = counted.where(F.col("kind").isin("look", "lost"))
    gap = F.col("ms") - F.lag("ms").over(order)
    gaps = polls.select(gap.alias("gap")).where(F.col("gap") > GAP_MS)
    of_steps, of_gaps = _one(_most(steps, "step")), _one(_most(gaps, "gap"))
    return {
        "clock_steps": of_steps["count"],
        "largest_clock_step_ms": of_steps["most"],
        "gaps": of_gaps["count"],
        "longest_gap_ms": of_gaps["most"],
    }


def _most(rows: DataFrame, name: str) -> DataFrame:
    most = F.coalesce(F.max(name), F.lit(0)).alias("most")
    return rows.agg(F.count("*").alias("count"), most)


def _sum(column: Column) -> Column:
    return F.coalesce(F.sum(column), F.lit(0))


def _one(aggregated: DataFrame) -> Row:
    return aggregated.collect()[0]
