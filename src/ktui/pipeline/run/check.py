"""The content of a lake, and what is missing from it: the figures of `ktui pipeline check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from ktui.pipeline.lake.lake import Lake
from ktui.pipeline.lake.manifest import Manifest
from ktui.pipeline.lake.tables import LINES, POLLS, QUARANTINE, SAMPLES
from ktui.pipeline.sql import DuckLake
from ktui.pipeline.tables.listings import GAP_MS
from ktui.recording.reading import newer_format

CLOCK_STEP_MS = 1_000
"""Between two lines, such a change of the wall clock against the monotonic one counts as a step."""


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of a check. Times are in ms."""

    version: int
    written_at: str
    clusters: tuple[str, ...]
    segments: int  # files read, without copies of others
    sessions: int
    sessions_without_end: int  # sessions whose recorder died, or had not ended yet
    lines: int
    copies: int
    differing: int
    missing: int  # lines without any copy, though later lines of their session exist
    quarantined: Mapping[str, int]
    looks: int
    lost_polls: int  # polls that failed as a whole
    gaps: int  # spans of over a minute in a session without a poll
    longest_gap_ms: int
    clock_steps: int  # steps of recorders' wall clocks; normalised times have none
    largest_clock_step_ms: int
    shadowed_polls: int  # polls at times that a better session saw
    shadowed_samples: int
    rows: Mapping[str, int]

    @property
    def lost(self) -> bool:
        return bool(self.quarantined or self.missing)


class SparkQueries:
    """A lake that Spark queries."""

    def __init__(self, lake: Lake) -> None:
        self.manifest = lake.manifest
        self._tables = {each.name: lake.table(each) for each in (LINES, POLLS, QUARANTINE, SAMPLES)}

    def rows(self, sql: str) -> list[dict[str, Any]]:
        for name, table in self._tables.items():
            table.createOrReplaceTempView(name)
        found = self._tables[LINES.name].sparkSession.sql(sql)
        return [row.asDict() for row in found.collect()]


Queryable = DuckLake | SparkQueries
"""One version of a lake that answers SQL: DuckDB's, and Spark's for those at URIs."""

# The SQL below means the same to DuckDB and to Spark.

_COUNTED = """
WITH ranked AS (
  SELECT *, row_number() OVER (
    PARTITION BY cluster_id, session, seq ORDER BY decoded DESC, sha, segment, line
  ) AS place
  FROM lines
), counted AS (SELECT * FROM ranked WHERE place = 1)
"""
"""The copy of each line that counts, by the rule of `ingest.normalize.copies`."""

_COPIES = """
SELECT count(*) AS lines, coalesce(sum(copies - 1), 0) AS copies,
  count(CASE WHEN texts > 1 THEN 1 END) AS differing
FROM (
  SELECT count(*) AS copies, count(DISTINCT sha) AS texts
  FROM lines GROUP BY cluster_id, session, seq
) AS of_line
"""

_SESSIONS = """
SELECT count(*) AS sessions, coalesce(sum(1 - ended), 0) AS sessions_without_end,
  coalesce(sum(missing), 0) AS missing, coalesce(sum(looks), 0) AS looks,
  coalesce(sum(lost), 0) AS lost_polls
FROM (
  SELECT max(CASE WHEN kind = 'end' THEN 1 ELSE 0 END) AS ended,
    max(seq) - min(seq) + 1 - count(*) AS missing,
    count(CASE WHEN kind = 'look' AND decoded THEN 1 END) AS looks,
    count(CASE WHEN kind = 'lost' THEN 1 END) AS lost
  FROM counted GROUP BY cluster_id, session
) AS of_session
"""

# A run line's time is the journal's.
_CLOCK_STEPS = f"""
SELECT count(*) AS clock_steps, coalesce(max(step), 0) AS largest_clock_step_ms
FROM (
  SELECT abs(at_ms - ms - lag(at_ms - ms) OVER (PARTITION BY cluster_id, session ORDER BY seq))
    AS step
  FROM counted WHERE kind <> 'run'
) AS steps WHERE step >= {CLOCK_STEP_MS}
"""  # noqa: S608 - a number

_GAPS = f"""
SELECT count(*) AS gaps, coalesce(max(gap), 0) AS longest_gap_ms
FROM (
  SELECT ms - lag(ms) OVER (PARTITION BY cluster_id, session ORDER BY seq) AS gap
  FROM counted WHERE kind IN ('look', 'lost')
) AS gaps WHERE gap > {GAP_MS}
"""  # noqa: S608 - a number

_QUARANTINED = """
SELECT split_part(reason, ':', 1) AS reason, count(*) AS lines
FROM quarantine GROUP BY 1 ORDER BY 1
"""


def check(lake: Queryable) -> Findings:
    """Count the content of a lake."""
    quarantined = Counter({row["reason"]: row["lines"] for row in lake.rows(_QUARANTINED)})
    unread = {e.sha256: e.newer_format for e in lake.manifest.segments if e.newer_format}
    quarantined.update(newer_format(version) for version in unread.values())
    return Findings(
        version=lake.manifest.version,
        written_at=lake.manifest.written_at,
        clusters=tuple(lake.manifest.clusters),
        segments=len({each.sha256 for each in lake.manifest.segments}),
        quarantined=dict(sorted(quarantined.items())),
        rows=_rows(lake.manifest),
        **_one(lake, _COPIES),
        **_one(lake, _COUNTED + _SESSIONS),
        **_one(lake, _COUNTED + _CLOCK_STEPS),
        **_one(lake, _COUNTED + _GAPS),
        **_one(lake, "SELECT count(*) AS shadowed_polls FROM polls WHERE shadowed"),
        **_one(lake, "SELECT count(*) AS shadowed_samples FROM samples WHERE shadowed"),
    )


def _rows(manifest: Manifest) -> Mapping[str, int]:
    tables = manifest.tables.items()
    return {name: sum(part.rows for part in parts.values()) for name, parts in tables}


def _one(lake: Queryable, sql: str) -> dict[str, int]:
    (row,) = lake.rows(sql)
    return {name: int(value) for name, value in row.items()}
