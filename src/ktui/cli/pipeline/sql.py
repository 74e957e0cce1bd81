"""`ktui pipeline sql`: query the tables of a lake."""

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

from ktui.cli.context.errors import BadInput
from ktui.cli.context.option import add_option
from ktui.cli.context.terminal import print_note
from ktui.cli.options.common import parse_time, state_dir_option
from ktui.cli.output.json_form import shown_json
from ktui.cli.output.table import table
from ktui.cli.pipeline.group import lake_of, lake_option
from ktui.cluster.text import clean
from ktui.execution.host.state_dir import StateDir
from ktui.inputfile import MOST_BYTES, Unreadable, read_input
from ktui.pipeline.lake.tables import VIEWS
from ktui.pipeline.lake.views import TABLES, type_name
from ktui.pipeline.sql import BadQuery, DuckLake, Result

_STDIN = Path("/dev/stdin")
_MOST_ROWS = 1_000  # the most rows of a table, which is in memory as a whole
_encode = msgspec.json.Encoder(decimal_format="number", enc_hook=str).encode


@click.command("sql")
@click.argument("query", required=False)
@add_option(
    "--file FILE",
    "Read the query from this file; - for standard input.",
    type=click.Path(path_type=Path),
)
@add_option("--tables", "List the tables with their columns.")
@add_option("--csv", "Print comma-separated values, with a header.", "as_csv")
@add_option("--json", "Print each row as a line of JSON.", "as_json")
@add_option(
    "--timeout TIME", "How long the query may take, such as 2h.", default="10m", show_default=True
)
@lake_option
@state_dir_option
def command(  # noqa: PLR0913 - an option each
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
    """Run a query on the tables of a lake; without QUERY, list them.

    QUERY is one SELECT, WITH, FROM, DESCRIBE or SUMMARIZE in DuckDB's SQL, or - for standard input.
    It sees the current version of the lake, and can neither read nor write anything else. Times are
    in UTC. It may use a quarter of the machine's memory. This needs no Java.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")
    text = _query_text(query, file)
    if tables and text is not None:
        raise click.UsageError("--tables takes no query")
    opened = DuckLake.open(lake_of(lake, state), parse_time("--timeout", timeout))
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
        click.echo(f"{each.name}  {'a view' if each in VIEWS else f'{rows:,} rows'}")
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
