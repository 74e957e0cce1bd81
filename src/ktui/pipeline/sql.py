"""A lake in DuckDB: its tables can be read, and nothing else can be read or written."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from ktui.pipeline.lake import manifest as manifests
from ktui.pipeline.lake.files import LocalFiles, local_path
from ktui.pipeline.lake.lake import Lake, read_manifest
from ktui.pipeline.lake.manifest import Manifest, PipelineProblem
from ktui.pipeline.lake.records import GAP_MS
from ktui.pipeline.lake.schema import Table
from ktui.pipeline.lake.tables import LINES, POLLS, QUARANTINE, SAMPLES
from ktui.pipeline.lake.views import create_views, glob_of, parquet_files, text
from ktui.quantities import as_duration
from ktui.recording.reading import newer_format

_PLACE = re.compile(r"\n+(LINE (\d+): )(.*)\n( *)\^")
_UNKNOWN_TABLE = re.compile(r"(Table with name .* does not exist!) Did you mean.*", re.DOTALL)
_LONGEST = 30  # the most characters that are quoted of a query


class BadQuery(PipelineProblem):
    """A query cannot be run; the message names the place in its text."""


@contextmanager
def query_error(*, line_before: int) -> Iterator[None]:
    """Turn DuckDB's errors about a query, after so many lines, into `BadQuery`; others pass."""
    try:
        yield
    except duckdb.IOException:
        raise
    except duckdb.Error as error:
        raise BadQuery(_sentence(str(error), line_before)) from None


def _sentence(message: str, line_before: int) -> str:
    found = _PLACE.search(message)
    said = message[: found.start()] if found else message.partition("\n\n")[0]
    said = " ".join(said.partition("Error: ")[2].split()) or message
    said = _UNKNOWN_TABLE.sub(r"\1 `ktui pipeline sql --tables` lists the tables.", said)
    if found is None:
        return f"the query: {said}"
    head, line, shown, indent = found.groups()
    at = shown[len(indent) - len(head) :].removesuffix("...")[:_LONGEST].strip()
    return f"the query, line {int(line) - line_before}, at {at!r}: {said}"


_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "allow_persistent_secrets": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
}
"""Nothing but the tables: no secrets, extensions, variables of Python, or files to spill to."""
_QUARTER = 0.25 / 0.8  # a quarter of the memory, in terms of DuckDB's default
_BATCH = 1_000
_INTERRUPTED = "Query interrupted"
_NUMBER = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\(.*\)")


class ResultColumn(msgspec.Struct, frozen=True):
    """A column of a query's result."""

    name: str
    is_number: bool


class Result(msgspec.Struct, frozen=True):
    """The result of a query."""

    columns: tuple[ResultColumn, ...]
    rows: Iterator[tuple[Any, ...]]  # read as they are asked for; values as Python's


class DuckLake:
    """One whole version of a lake: a locked connection, with views, for at most `most_s`."""

    def __init__(
        self,
        place: str,
        manifest: Manifest,
        connection: duckdb.DuckDBPyConnection,
        most_s: float | None,
    ) -> None:
        self.manifest = manifest
        self._place = place
        self._connection = connection
        self._left_s = self._most_s = most_s

    @classmethod
    def open(cls, place: str, most_s: float | None = None) -> DuckLake:
        path = local_path(place)
        connection = duckdb.connect(config=_CONFIG)
        _limit_memory(connection)
        with _damage_as_problem(place):
            if path is None:
                manifest = _add_remote_views(connection, place)
            else:
                manifest = _add_local_views(connection, path, place)
        return cls(place, manifest, connection, most_s)

    def query(self, sql: str) -> Result:
        """Run one query. BadQuery names the place in its text, PipelineProblem a damaged file."""
        found = self._connection
        with _damage_as_problem(self._place):
            with query_error(line_before=0):
                kinds = [each.type for each in found.extract_statements(sql)]
            if kinds != [duckdb.StatementType.SELECT]:
                raise BadQuery("the query: give one SELECT, WITH, FROM, DESCRIBE or SUMMARIZE")
            # Inside a subquery DuckDB allows nothing that writes. Its columns have unique names.
            with query_error(line_before=1), self._bounded():
                found.execute(f"SELECT * FROM (\n{sql.rstrip().rstrip(';')}\n)")  # noqa: S608 - a query is what it takes
        columns = tuple(
            ResultColumn(name, is_number=_NUMBER.fullmatch(str(kind)) is not None)
            for name, kind, *_ in found.description or ()
        )
        return Result(columns, self._rows())

    def rows(self, sql: str) -> list[dict[str, Any]]:
        found = self.query(sql)
        names = [column.name for column in found.columns]
        return [dict(zip(names, row, strict=True)) for row in found.rows]

    def quoted_names(self) -> set[str]:
        """Return the words that a query has to quote where they are names of columns."""
        kinds = "('reserved', 'type_function')"
        found = self.query(
            f"SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category IN {kinds}"  # noqa: S608 - fixed
        )
        return {name for (name,) in found.rows}

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        while True:
            with _damage_as_problem(self._place), query_error(line_before=1), self._bounded():
                batch = self._connection.fetchmany(_BATCH)
            if not batch:
                return
            yield from batch

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        """Interrupt DuckDB with BadQuery once the time is over, not counting what is printed."""
        if self._left_s is None:
            yield
            return
        timer = threading.Timer(max(0.0, self._left_s), self._connection.interrupt)
        timer.daemon = True
        begun = time.monotonic()
        timer.start()
        try:
            yield
        except duckdb.InterruptException:
            most = as_duration(self._most_s)
            raise BadQuery(f"the query: took longer than {most}. Give it more: --timeout") from None
        finally:
            timer.cancel()
            timer.join()  # a thread that lives at the exit keeps the connection, reported as leaked
            self._left_s -= time.monotonic() - begun


def _limit_memory(connection: duckdb.DuckDBPyConnection) -> None:
    (default,) = connection.execute("SELECT current_setting('memory_limit')").fetchone() or ("",)
    figure, unit = str(default).split()
    connection.execute(f"SET memory_limit = '{float(figure) * _QUARTER:.3f}{unit}'")


def _add_local_views(connection: duckdb.DuckDBPyConnection, path: Path, place: str) -> Manifest:
    manifest = read_manifest(LocalFiles(path))
    if manifest is None:
        raise PipelineProblem(manifests.missing_lake(place))
    files = [f"{path}/{file.path}" for _, part in manifest.entries() for file in part.files]
    _lock(connection, sorted({*files, *map(glob_of, files)}))
    connection.execute(create_views(manifest, parquet_files(str(path))))
    return manifest


def _add_remote_views(connection: duckdb.DuckDBPyConnection, place: str) -> Manifest:
    from ktui.pipeline.report.lake import ArrowLake  # noqa: PLC0415 - slow to import

    lake = ArrowLake.open(place)

    def rows(table: Table, _: Sequence[str]) -> str:
        found = lake.dataset(table.name)
        connection.register(f"_{table.name}", found)
        return f'SELECT * FROM "_{table.name}"'  # noqa: S608 - a table of ktui's

    _lock(connection, [])
    connection.execute(create_views(lake.manifest, rows))
    return lake.manifest


def _lock(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> None:
    connection.execute(
        f"SET TimeZone = 'UTC'; SET allowed_paths = [{', '.join(map(text, files))}]; "
        "SET enable_external_access = false; SET lock_configuration = true"
    )


@contextmanager
def _damage_as_problem(place: str) -> Iterator[None]:
    """Turn errors of reading a lake's files into a problem, and an interrupt into Python's.

    DuckDB raises its own error for Ctrl-C at work, as in `ktui pipeline check`. During a query of
    `ktui pipeline sql`, Ctrl-C ends the process.
    """
    try:
        yield
    except duckdb.Error as error:
        fix = f"Make the lake again: ktui pipeline run --lake {place}"
        said = str(error).splitlines()[0]
        raise PipelineProblem(f"{place}: its tables cannot be read: {said}. {fix}") from None
    except RuntimeError as error:
        if str(error) != _INTERRUPTED:
            raise
        raise KeyboardInterrupt from None


CLOCK_STEP_MS = 1_000
"""Between two lines, such a change of the wall clock against the monotonic one counts as a step."""


class PollGap(msgspec.Struct, frozen=True):
    """A time of over a minute in which a session has no answered poll. Times are normalised, ms."""

    cluster_id: str
    session: str
    began_t: int
    ended_t: int
    polls_of_others: int  # in that time, by the other sessions of the cluster


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
    gaps: int  # spans of over a minute in a session without an answered poll
    longest_gap_ms: int
    longest_gaps: tuple[PollGap, ...]  # at most `MOST_GAPS`, the longest first
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

MOST_GAPS = 20
_GAPS = f"""
WITH gaps AS (
  SELECT * FROM (
    SELECT cluster_id, session, t AS ended_t,
      lag(t) OVER (PARTITION BY cluster_id, session ORDER BY t) AS began_t
    FROM polls
  ) AS pairs WHERE ended_t - began_t > {GAP_MS}
)
"""  # noqa: S608 - a number
_COUNTED_GAPS = """
SELECT count(*) AS gaps, coalesce(max(ended_t - began_t), 0) AS longest_gap_ms FROM gaps
"""
_LONGEST_GAPS = f"""
SELECT gaps.cluster_id, gaps.session, began_t, ended_t, count(others.t) AS polls_of_others
FROM (
  SELECT * FROM gaps
  ORDER BY began_t - ended_t, cluster_id, session, began_t LIMIT {MOST_GAPS}
) AS gaps LEFT JOIN polls AS others
  ON others.cluster_id = gaps.cluster_id AND others.session <> gaps.session
    AND others.t > began_t AND others.t < ended_t
GROUP BY gaps.cluster_id, gaps.session, began_t, ended_t
ORDER BY began_t - ended_t, cluster_id, session, began_t
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
        **_one(lake, _GAPS + _COUNTED_GAPS),
        longest_gaps=msgspec.convert(lake.rows(_GAPS + _LONGEST_GAPS), tuple[PollGap, ...]),
        **_one(lake, "SELECT count(*) AS shadowed_polls FROM polls WHERE shadowed"),
        **_one(lake, "SELECT count(*) AS shadowed_samples FROM samples WHERE shadowed"),
    )


def _rows(manifest: Manifest) -> Mapping[str, int]:
    tables = manifest.tables.items()
    return {name: sum(part.rows for part in parts.values()) for name, parts in tables}


def _one(lake: Queryable, sql: str) -> dict[str, int]:
    (row,) = lake.rows(sql)
    return {name: int(value) for name, value in row.items()}
