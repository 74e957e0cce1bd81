"""`ktui pipeline sql` and `check`: query the tables of a lake, and count what they hold."""

from __future__ import annotations

import csv
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import click
import msgspec

from ktui.cli.context.terminal import NOT_ALL_DONE, BadInput, print_note
from ktui.cli.options.common import parse_amount
from ktui.cli.output.json_form import SCHEMA_VERSION, encode, shown_json
from ktui.cli.pipeline.group import lake_of
from ktui.cluster.text import clean
from ktui.columns import table
from ktui.execution.host.state_dir import StateDir
from ktui.inputfile import MOST_BYTES, Unreadable, read_input
from ktui.pipeline.lake.files import local_path
from ktui.pipeline.lake.lake import Lake
from ktui.pipeline.lake.tables import VIEWS
from ktui.pipeline.lake.views import TABLES, type_name
from ktui.pipeline.sql import (
    BadQuery,
    DuckLake,
    Findings,
    PollGap,
    Result,
    SparkQueries,
    check,
)
from ktui.quantities import Seconds, as_count, as_duration
from ktui.recording.segments import from_wall_ms

_STDIN = Path("/dev/stdin")
_MOST_ROWS = 1_000  # the most rows of a table, which is in memory as a whole
_encode = msgspec.json.Encoder(decimal_format="number", enc_hook=str).encode


def query_tables(  # noqa: PLR0913 - an option each
    *,
    query: str | None,
    file: Path | None,
    tables: bool,
    as_csv: bool,
    as_json: bool,
    timeout: str,
    lake: str | None,
    state: StateDir,
) -> None:
    """Carry out `ktui pipeline sql`, given the values of its options."""
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")
    text = _query_text(query, file)
    if tables and text is not None:
        raise click.UsageError("--tables takes no query")
    opened = DuckLake.open(lake_of(lake, state), parse_amount("--timeout", Seconds, timeout))
    if text is None:
        _print_tables(opened)
        return
    show = _print_json if as_json else _print_csv if as_csv else _print_table
    try:
        with _ended_by_interrupt():
            show(opened.query(text))
    except BadQuery as problem:
        raise BadInput(str(problem)) from None


@contextmanager
def _ended_by_interrupt() -> Iterator[None]:
    """Let Ctrl-C end the process at once: DuckDB may not return to Python for long."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _query_text(query: str | None, file: Path | None) -> str | None:
    if file is not None and query is not None:
        raise click.UsageError("give a query or --file, not both")
    if query == "-":
        file = Path("-")
    if file is None:
        return query
    place = _STDIN if str(file) == "-" else file
    try:
        return read_input(place, MOST_BYTES).decode()
    except (Unreadable, UnicodeDecodeError) as why:
        raise BadInput(f"{place}: {why}") from None


def _print_tables(lake: DuckLake) -> None:
    quoted = lake.quoted_names()
    for each in TABLES:
        rows = sum(part.rows for part in lake.manifest.tables.get(each.name, {}).values())
        size = "a view" if each in VIEWS else f"{rows:,} rows"
        click.echo(f"{each.name}  {size}  {each.about}")
        lines = [
            (
                f'  "{field.name}"' if field.name in quoted else f"  {field.name}",
                type_name(field.dataType),
                (field.metadata or {}).get("comment", ""),
            )
            for field in each.schema
        ]
        click.echo(table(lines[0], lines[1:]))


def _print_json(result: Result) -> None:
    names = [column.name for column in result.columns]
    for row in result.rows:
        line = _encode(dict(zip(names, row, strict=True))).decode()
        click.echo(shown_json(line))


def _print_csv(result: Result) -> None:
    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(column.name for column in result.columns)
    for row in result.rows:
        lines.writerow(_cell(value) for value in row)


def _print_table(result: Result) -> None:
    """Print rows below each other; on a terminal that is too narrow, columns below each other."""
    header = [clean(column.name) for column in result.columns]
    rows = [[clean(_cell(value)) for value in row] for row in islice(result.rows, _MOST_ROWS)]
    numbers = {place for place, column in enumerate(result.columns) if column.is_number}
    text = table(header, rows, right=numbers)
    width = shutil.get_terminal_size().columns
    if sys.stdout.isatty() and max(map(len, text.splitlines())) > width:
        text = "\n".join(_records(header, rows))
    click.echo(text)
    if next(result.rows, None) is not None:
        print_note(f"Only the first {_MOST_ROWS:,} rows are shown; --csv and --json print all.")


def _records(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    width = max(map(len, header))
    for number, row in enumerate(rows, start=1):
        yield f"row {number}"
        for name, cell in zip(header, row, strict=True):
            yield f"  {name:<{width}}  {cell}".rstrip()


def _cell(value: Any) -> str:
    """Return a value as text: as in JSON, but strings and times without quotes, and null empty."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return _encode(value).decode().strip('"')


def check_tables(*, lake: str | None, master: str | None, state: StateDir, json: bool) -> None:
    """Carry out `ktui pipeline check`, given the values of its options."""
    place = lake_of(lake, state)
    if master is None and local_path(place) is not None:
        findings = check(DuckLake.open(place))
    else:
        findings = _checked_by_spark(place, master, state)
    if json:
        found = {**msgspec.structs.asdict(findings), "lost": findings.lost}
        click.echo(encode({"schema_version": SCHEMA_VERSION, "lake": place, **found}))
    else:
        click.echo(findings_text(findings, place))
    if findings.lost:
        sys.exit(NOT_ALL_DONE)


def _checked_by_spark(place: str, master: str | None, state: StateDir) -> Findings:
    from ktui.cli.pipeline.run import spark_for  # noqa: PLC0415 - slow to import
    from ktui.pipeline.spark.errors import spark_errors_as_problems  # noqa: PLC0415 - the same

    with spark_for(master, state) as (spark, line), spark_errors_as_problems():
        opened = Lake.open(spark, place)
        line.tell("counting")
        return check(SparkQueries(opened))


def findings_text(found: Findings, place: str) -> str:
    """Describe what was counted."""
    clusters = ", ".join(map(clean, found.clusters)) or "none"
    lines = [
        f"{place}, version {found.version} of {clean(found.written_at)}",
        f"Clusters: {clusters}",
        f"Read: {', '.join(_read(found))}",
        *(f"  {what}" for what in _anomalies(found)),
        "Tables:",
        *(f"  {clean(name):<12} {rows:>14,} rows" for name, rows in found.rows.items()),
        _verdict(found),
    ]
    return "\n".join(lines)


def _read(found: Findings) -> Iterator[str]:
    yield as_count(found.segments, "segment")
    yield as_count(found.sessions, "session")
    yield as_count(found.lines, "line")
    yield as_count(found.looks, "poll")


def _anomalies(found: Findings) -> Iterator[str]:
    step = found.largest_clock_step_ms / 1000
    if found.copies:
        yield f"{as_count(found.copies, 'copy', 'copies')} of lines, counted once"
    if found.differing:
        yield f"{as_count(found.differing, 'line')} with copies that differ"
    if found.sessions_without_end:
        sessions = as_count(found.sessions_without_end, "session")
        yield f"{sessions} without an end: the recorder died, or is still recording"
    if found.lost_polls:
        yield f"{as_count(found.lost_polls, 'poll')} without an answer"
    yield from _gaps(found)
    if found.clock_steps:
        steps = as_count(found.clock_steps, "step")
        yield f"{steps} of a wall clock, the largest {as_duration(step)}: times are normalised"
    if found.shadowed_polls:
        samples = as_count(found.shadowed_samples, "sample")
        polls = as_count(found.shadowed_polls, "poll")
        yield f"{polls} with {samples} at times that another session also covers"
    if found.missing:
        yield f"{as_count(found.missing, 'line')} missing"
    for reason, count in found.quarantined.items():
        yield f"{as_count(count, 'line')} left out: {clean(reason)}"


def _gaps(found: Findings) -> Iterator[str]:
    if not found.gaps:
        return
    gaps, longest = as_count(found.gaps, "gap"), as_duration(found.longest_gap_ms / 1000)
    yield f"{gaps} of over a minute in a session, the longest {longest}:"
    yield from map(_gap_text, found.longest_gaps)
    if (more := found.gaps - len(found.longest_gaps)) > 0:
        yield f"  and {more:,} shorter"


def _gap_text(gap: PollGap) -> str:
    lasted = as_duration((gap.ended_t - gap.began_t) / 1000)
    began = from_wall_ms(gap.began_t).strftime("%Y-%m-%d %H:%M:%S")
    others = "no other session polled"
    if gap.polls_of_others:
        others = f"{as_count(gap.polls_of_others, 'poll')} of other sessions"
    of = f"session {clean(gap.session[:8])} of {clean(gap.cluster_id)}"
    return f"  {of}: no answered poll for {lasted} from {began} UTC; {others}"


def _verdict(found: Findings) -> str:
    if not found.lost:
        return "Every line that was recorded is in the tables."
    return "Not every line that was recorded is in the tables. The table quarantine has the places."
