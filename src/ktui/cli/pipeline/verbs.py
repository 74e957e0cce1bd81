"""The verbs of `ktui pipeline`: their options and help, which need nothing of the extra.

What a verb does needs libraries that may be missing: it is imported as the verb is run.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from ktui.cli.context.config import Engine
from ktui.cli.context.option import add_option
from ktui.cli.options.common import json_option, output_option, state_dir_option
from ktui.cli.pipeline.group import lake_option
from ktui.recording.segments import wall_ms

LOCAL = "local[*]"
"""Spark's master where none is named."""
EVERY = "60s"
"""The time between two checks for segments."""


def _moment_ms(text: str) -> int:
    try:
        return wall_ms(datetime.fromisoformat(text).astimezone())
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is not a time. Give a date, or a date and time: 2026-11-21, "
            "2026-11-21T15:00, 2026-11-21T15:00+01:00"
        ) from None


@click.command("run")
@add_option(
    "--recordings DIR",
    "A file or folder of recordings, as a path or URI; may be repeated. Folders are searched "
    "at any depth. By default the state directory.",
    multiple=True,
)
@lake_option
@add_option(
    "--engine NAME",
    "What computes the tables: spark, or sail, which runs in this process without Java and starts "
    "at once, for the files of this machine. By default `engine:` in config.yaml, or spark.",
    type=click.Choice([each.value for each in Engine]),
)
@add_option("--master URL", f"Spark's master URL, as for spark-submit; {LOCAL} by default.")
@add_option(
    "--cluster ID", "Only segments of this cluster; may be repeated.", "clusters", multiple=True
)
@add_option("--since TIME", "Only segments with data at or after TIME.", reads=_moment_ms)
@add_option("--until TIME", "Only segments with data at or before TIME.", reads=_moment_ms)
@add_option(
    "--follow", "Keep running, and read each segment once it is complete, until Ctrl-C or SIGTERM."
)
@add_option(
    "--every TIME",
    f"With --follow: time between two checks for segments, such as 5m; {EVERY} by default.",
)
@add_option(
    "--what-if",
    "Simulate all recorded runs under other limits as well, and recommend faster ones that "
    "hold no more replicas at once than the run did.",
)
@add_option(
    "--grid FILE",
    "A YAML file with the limits and throttles to simulate the runs with; by default "
    "a quarter to four times each run's own. Implies --what-if.",
    type=click.Path(path_type=Path, dir_okay=False),
)
@add_option(
    "--window TIME",
    "How long a run may take, such as 4h: ktui recommends the gentlest limits that fit. "
    "Implies --what-if.",
)
@add_option(
    "--no-insights",
    "Write only the recorded facts: no check of forecasts, no insights.",
)
@add_option(
    "--keep-insights",
    "Keep new insights in the lake only, and do not replace those of the live view.",
)
@state_dir_option
def run(**values: Any) -> None:
    """Bring the tables up to date with the recordings.

    ktui reads only segments that are new to the lake, and computes of the tables what follows from
    them. Everything else stays. Readers of the lake see the previous version until the new one is
    complete. If this command is interrupted, the previous version stays.

    Segments that --cluster, --since or --until leave out are read by a later run without these
    options.

    With --follow, ktui keeps running, and prints a line for each version of the lake that it
    writes. Ctrl-C or SIGTERM ends it with exit code 0. Started again, it continues where it left
    off.
    """
    from ktui.cli.pipeline.run import bring_up_to_date  # noqa: PLC0415 - needs the extra

    bring_up_to_date(**values)


@click.command("package", short_help="Write the files for spark-submit, for a Spark cluster.")
@click.argument(
    "folder", type=click.Path(path_type=Path, file_okay=False), default=".", metavar="[DIR]"
)
def package(**values: Any) -> None:
    """Write the files for spark-submit: ktui.zip, the code, and ktui_job.py, the program.

    Use them on clusters without ktui. The program takes the options of `ktui pipeline run`.
    """
    from ktui.cli.pipeline.run import write_package  # noqa: PLC0415 - needs the extra

    write_package(**values)


@click.command("sql", short_help="Query the tables with SQL.")
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
def sql(**values: Any) -> None:
    """Run a query on the tables of a lake; without QUERY, list them.

    QUERY is one SELECT, WITH, FROM, DESCRIBE or SUMMARIZE in DuckDB's SQL, or - for standard input.
    It sees the current version of the lake, and can neither read nor write anything else. Times are
    in UTC. It may use a quarter of the machine's memory. This needs no Java.
    """
    from ktui.cli.pipeline.sql import query_tables  # noqa: PLC0415 - needs the extra

    query_tables(**values)


@click.command("check", short_help="Count what the tables hold, and what is missing.")
@lake_option
@add_option(
    "--master URL", "Count with Spark, on this master; by default only a lake at a URI needs Spark."
)
@state_dir_option
@json_option
def check(**values: Any) -> None:
    """Count lines, copies, unreadable lines, gaps and clock steps in the tables.

    Exit code 3 if recorded lines are not in the tables, because they are damaged or missing.
    """
    from ktui.cli.pipeline.sql import check_tables  # noqa: PLC0415 - needs the extra

    check_tables(**values)


@click.command("report", short_help="Write a one-page report on a run or a cluster.")
@lake_option
@state_dir_option
@add_option("--run RUN", "The run's name, or its id if several runs share the name.")
@add_option("--cluster ID", "Report on all recordings of the cluster with this id.")
@output_option("Write the page to this file; an existing file is replaced.", Path("report.html"))
@add_option("--open", "Open the page in the browser.", "show")
def report(**values: Any) -> None:
    """Write a one-page report on a run or a cluster, in words, figures and tables.

    The page is one file, and needs no network. ktui reads it from the tables that `ktui pipeline
    run` has made. This needs no Java.
    """
    from ktui.cli.pipeline.report import write_report  # noqa: PLC0415 - needs the extra

    write_report(**values)
