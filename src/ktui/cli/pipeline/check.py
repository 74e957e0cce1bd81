"""`ktui pipeline check`: what a lake is made of, and what is missing from it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click
import msgspec

from ktui.cli.options.common import json_option, state_dir_option
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cli.pipeline.lake_option import lake_of, lake_option
from ktui.cli.pipeline.options import master_option, spark_for
from ktui.cluster.text import clean
from ktui.execution.host.state_dir import StateDir
from ktui.pipeline.lake.lake import Lake
from ktui.pipeline.run.check import Findings, check
from ktui.pipeline.spark.failures import spark_errors_as_problems
from ktui.quantities import as_count, as_duration

LINES_LOST = 3
"""The exit code where lines were recorded that are not in the tables."""


@click.command("check")
@lake_option
@master_option
@state_dir_option
@json_option
def command(*, lake: str | None, master: str | None, state: StateDir, json: bool) -> None:
    """Count what the tables are made of: lines, copies, what could not be read, gaps, clock steps.

    Exit code 3 when lines were recorded that are not in the tables: damaged ones, and missing ones.
    """
    place = lake_of(lake, state)
    with spark_for(master, state) as (spark, line), spark_errors_as_problems():
        opened = Lake.open(spark, place)
        line.tell("counting")
        findings = check(opened)
    if json:
        click.echo(encode({"schema_version": SCHEMA_VERSION, "lake": place, **_fields(findings)}))
    else:
        click.echo(told(findings, place))
    if findings.lost:
        sys.exit(LINES_LOST)


def told(found: Findings, place: str) -> str:
    """Say what was counted, for people."""
    clusters = ", ".join(map(clean, found.clusters)) or "none"
    lines = [
        f"{place}, version {found.version} of {clean(found.written_at)}",
        f"Clusters: {clusters}",
        f"Read: {', '.join(_read(found))}",
        *(f"  {what}" for what in _remarks(found)),
        "Tables:",
        *(f"  {clean(name):<12} {rows:>14,} rows" for name, rows in found.rows.items()),
        _verdict(found),
    ]
    return "\n".join(lines)


def _read(found: Findings) -> Iterator[str]:
    yield as_count(found.segments, "segment")
    yield as_count(found.sessions, "session")
    yield as_count(found.lines, "line")
    yield as_count(found.looks, "look")


def _remarks(found: Findings) -> Iterator[str]:
    """Say what is out of the ordinary."""
    gap, step = found.longest_gap_ms / 1000, found.largest_clock_step_ms / 1000
    if found.copies:
        yield f"{as_count(found.copies, 'copy', 'copies')} of lines, counted once"
    if found.differing:
        yield f"{as_count(found.differing, 'line')} with copies that differ"
    if found.sessions_without_end:
        sessions = as_count(found.sessions_without_end, "session")
        yield f"{sessions} without an end: the recorder died, or records still"
    if found.lost_polls:
        yield f"{as_count(found.lost_polls, 'poll')} without an answer"
    if found.gaps:
        gaps = as_count(found.gaps, "gap")
        yield f"{gaps} of over a minute in a session, at most {as_duration(gap)}"
    if found.clock_steps:
        steps = as_count(found.clock_steps, "step")
        yield f"{steps} of a wall clock, at most {as_duration(step)}: times are normalised"
    if found.shadowed_polls:
        samples = as_count(found.shadowed_samples, "sample")
        looks = as_count(found.shadowed_polls, "look")
        yield f"{looks} with {samples} at times that another session saw"
    if found.missing:
        yield f"{as_count(found.missing, 'line')} missing"
    for reason, count in found.quarantined.items():
        yield f"{as_count(count, 'line')} left out: {clean(reason)}"


def _verdict(found: Findings) -> str:
    if not found.lost:
        return "Every line that was recorded is in the tables."
    return "Not every line that was recorded is in the tables; the table quarantine names places."


def _fields(found: Findings) -> dict[str, object]:
    return {**msgspec.structs.asdict(found), "lost": found.lost}
