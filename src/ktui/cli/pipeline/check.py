"""`ktui pipeline check`: count what a lake holds, and what is missing from it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click
import msgspec

from ktui.cli.context.option import add_option
from ktui.cli.options.common import json_option, state_dir_option
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cli.pipeline.group import lake_of, lake_option
from ktui.cluster.text import clean
from ktui.execution.host.state_dir import StateDir
from ktui.pipeline.lake.files import local_path
from ktui.pipeline.lake.lake import Lake
from ktui.pipeline.sql import DuckLake, Findings, SparkQueries, check
from ktui.quantities import as_count, as_duration

LINES_LOST = 3  # the exit code if recorded lines are missing from the tables


@click.command("check")
@lake_option
@add_option(
    "--master URL", "Count with Spark, on this master; by default only a lake at a URI needs Spark."
)
@state_dir_option
@json_option
def command(*, lake: str | None, master: str | None, state: StateDir, json: bool) -> None:
    """Count lines, copies, unreadable lines, gaps and clock steps in the tables.

    Exit code 3 if recorded lines are not in the tables, because they are damaged or missing.
    """
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
        sys.exit(LINES_LOST)


def _checked_by_spark(place: str, master: str | None, state: StateDir) -> Findings:
    from ktui.cli.pipeline.run import spark_for  # noqa: PLC0415 - slow to import
    from ktui.pipeline.spark.cluster import spark_errors_as_problems  # noqa: PLC0415 - the same

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
    gap, step = found.longest_gap_ms / 1000, found.largest_clock_step_ms / 1000
    if found.copies:
        yield f"{as_count(found.copies, 'copy', 'copies')} of lines, counted once"
    if found.differing:
        yield f"{as_count(found.differing, 'line')} with copies that differ"
    if found.sessions_without_end:
        sessions = as_count(found.sessions_without_end, "session")
        yield f"{sessions} without an end: the recorder died, or is still recording"
    if found.lost_polls:
        yield f"{as_count(found.lost_polls, 'poll')} without an answer"
    if found.gaps:
        gaps = as_count(found.gaps, "gap")
        yield f"{gaps} of over a minute in a session, the longest {as_duration(gap)}"
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


def _verdict(found: Findings) -> str:
    if not found.lost:
        return "Every line that was recorded is in the tables."
    return "Not every line that was recorded is in the tables. The table quarantine has the places."
