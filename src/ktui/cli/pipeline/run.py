"""`ktui pipeline run` and `package`: bring the tables up to date, here or on a Spark cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import click
from pyspark.sql import SparkSession

from ktui.cli.context.config import Engine, load_config
from ktui.cli.context.terminal import BadInput, telling_interrupts
from ktui.cli.pipeline.group import lake_of
from ktui.cli.pipeline.verbs import EVERY, LOCAL
from ktui.cluster.text import clean
from ktui.durable import open_regular
from ktui.execution.host.state_dir import StateDir
from ktui.insights import publish_insights
from ktui.pipeline.forecast.derived import DerivedOptions, WhatIfOptions
from ktui.pipeline.forecast.play import read_grid
from ktui.pipeline.ingest.decode import SegmentSelection
from ktui.pipeline.ingest.segments import listed_here
from ktui.pipeline.lake.engine import Py4JError
from ktui.pipeline.lake.manifest import SparkFailed
from ktui.pipeline.lake.sizing import is_local
from ktui.pipeline.run.follow import (
    Follower,
    FollowPrinter,
    ended_by_signals,
    following_alone,
)
from ktui.pipeline.run.run import (
    PipelineOutcome,
    PipelineRequest,
    check_recorded,
    reads_little,
    run,
)
from ktui.pipeline.spark.progress import SparkProgress
from ktui.pipeline.spark.sail import check_jvm, check_places, check_sail, sail
from ktui.quantities import Seconds, as_count, parse_quantity


def read_derived_options(given: Mapping[str, Any]) -> DerivedOptions | None:
    """Read the options; None without insights."""
    grid, window = given["grid"], given["window"]
    cells = None if grid is None else read_grid(grid)
    window_s = None if window is None else time_above_0("--window", window, "4h")
    named = {"--what-if": given["what_if"], "--grid": grid, "--window": window}
    asked = [option for option, value in named.items() if value]
    if not given["no_insights"]:
        return DerivedOptions(WhatIfOptions(cells, window_s) if asked else None)
    if asked:
        raise click.UsageError(f"{asked[0]} needs insights: leave out --no-insights")
    return None


def time_above_0(option: str, text: str, such_as: str) -> float:
    """Read a time in seconds, such as 4h."""
    try:
        seconds: Seconds = parse_quantity(Seconds, text)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from error
    if seconds <= 0:
        raise click.UsageError(f"{option}: give a time above 0, such as {such_as}")
    return float(seconds)


_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set in a program that spark-submit has started; such a program has a JVM and a master already."""

_LOG = "pipeline.log"


@contextmanager
def spark_for(
    master: str | None, state: StateDir, log_name: str = _LOG, *, small: bool = False
) -> Iterator[tuple[SparkSession, SparkProgress]]:
    """Start Spark, and stop it at the end; yields the session and the progress line.

    Spark's own output goes to a file in the state directory. If spark-submit has started this
    program, the output goes where spark-submit sends it. A JVM for a small run on this machine is
    started as one.
    """
    check_jvm()
    # PySpark without a JVM has nothing of this
    from ktui.pipeline.spark.cluster import executor_wait_limited, shipped  # noqa: PLC0415
    from ktui.pipeline.spark.session import start  # noqa: PLC0415

    submitted = _SUBMITTED in os.environ
    log = None if submitted else state.path / log_name
    if log is not None:
        state.make(state.path)
        os.close(open_regular(log, os.O_WRONLY | os.O_CREAT))
        log.unlink()  # a new one: another process may still write to the old one
    line = SparkProgress(sys.stderr)
    line.tell("starting Spark")
    try:
        spark = start(master or (None if submitted else LOCAL), log=log, small=small)
        try:
            with line.following(spark.sparkContext), ExitStack() as stack:
                if not is_local(spark.sparkContext):
                    stack.enter_context(shipped(spark.sparkContext))
                    stack.enter_context(executor_wait_limited(spark.sparkContext, log))
                yield spark, line
        finally:
            with suppress(Py4JError, OSError):  # its JVM may be what has died
                spark.stop()
    except SparkFailed as problem:
        more = "" if log is None else f"\nSpark's whole output is in {log}"
        raise SparkFailed(f"{problem}{more}") from problem
    finally:
        line.close()


@contextmanager
def sail_for(request: PipelineRequest) -> Iterator[tuple[SparkSession, SparkProgress]]:
    """Run Sail in this process; yields the session and the progress line."""
    check_places((*request.recordings, request.lake))
    check_sail()
    line = SparkProgress(sys.stderr)
    line.tell("starting Sail")
    try:
        with sail() as session:
            yield session, line
    finally:
        line.close()


_MOST_SHOWN = 50


def bring_up_to_date(  # noqa: PLR0913 - an option each
    *,
    recordings: tuple[str, ...],
    lake: str | None,
    engine: str | None,
    master: str | None,
    clusters: tuple[str, ...],
    since: int | None,
    until: int | None,
    follow: bool,
    every: str | None,
    state: StateDir,
    **derived_values: Any,
) -> None:
    """Carry out `ktui pipeline run`, given the values of its options."""
    if every is not None and not follow:
        raise click.UsageError("--every needs --follow")
    every_s = time_above_0("--every", every or EVERY, EVERY)
    with_sail = _chosen(engine, master) is Engine.SAIL
    selection = SegmentSelection(since_ms=since, until_ms=until, clusters=frozenset(clusters))
    places = recordings or (str(state.path),)
    derived = read_derived_options(derived_values)
    request = PipelineRequest(places, lake_of(lake, state), selection, derived)
    share = None if derived_values["keep_insights"] else state.path
    state.make(state.path)
    if follow:
        started = _engine(request, master, state, "pipeline-follow.log", with_sail=with_sail)
        with following_alone(request), started as at:
            _follow(request, every_s, share, *at)
        return
    here = listed_here(places)
    check_recorded(request, here)
    small = reads_little(request, here)
    with (
        telling_interrupts(
            f"ktui: interrupted. The lake {request.lake} is intact. The next run reads what it "
            "does not have yet"
        ),
        _engine(request, master, state, _LOG, with_sail=with_sail, small=small) as (spark, line),
    ):
        outcome = run(spark, request, line.tell)
    click.echo("\n".join(_outcome_lines(outcome, request.lake)))
    if outcome.insights is not None and share is not None:
        publish_insights(outcome.insights, share)
    for problem in outcome.problems[:_MOST_SHOWN]:
        click.echo(f"ktui: {clean(problem)}", err=True)
    if len(outcome.problems) > _MOST_SHOWN:
        others = as_count(len(outcome.problems) - _MOST_SHOWN, "more file")
        click.echo(f"ktui: and {others} with something wrong", err=True)


def _chosen(engine: str | None, master: str | None) -> Engine:
    """Return the engine of the option; without it, that of config.yaml where it can do the work."""
    if engine == Engine.SAIL and master is not None:
        raise click.UsageError("--master needs Spark: leave out --engine sail")
    if engine is not None:
        return Engine(engine)
    needs_spark = master is not None or _SUBMITTED in os.environ
    return Engine.SPARK if needs_spark else load_config().pipeline.engine


@contextmanager
def _engine(
    request: PipelineRequest,
    master: str | None,
    state: StateDir,
    log_name: str,
    *,
    with_sail: bool,
    small: bool = False,
) -> Iterator[tuple[SparkSession, SparkProgress]]:
    if with_sail:
        with sail_for(request) as started:
            yield started
        return
    with spark_for(master, state, log_name, small=small) as (spark, line):
        _check_executors(spark, request, line)
        yield spark, line


def _check_executors(spark: SparkSession, request: PipelineRequest, line: SparkProgress) -> None:
    from ktui.pipeline.spark.cluster import check_executors  # noqa: PLC0415 - as in spark_for

    check_executors(spark.sparkContext, request.recordings, request.lake, line.tell)


def _follow(
    request: PipelineRequest,
    every_s: float,
    share: Path | None,
    spark: SparkSession,
    line: SparkProgress,
) -> None:
    printer = FollowPrinter(line, request, every_s, share)
    follower = Follower(spark, request, every_s, printer)
    with ended_by_signals(follower.end):
        follower.follow()
    printer.ended()


def _outcome_lines(outcome: PipelineOutcome, lake: str) -> Iterator[str]:
    if outcome.read:
        segments = as_count(outcome.read, "new segment")
        clusters = as_count(len(outcome.clusters), "cluster")
        yield f"{lake}, version {outcome.manifest.version}: {segments} of {clusters}"
        for name, parts in outcome.manifest.tables.items():
            yield f"  {name:<12} {sum(part.rows for part in parts.values()):>14,} rows"
    else:
        yield f"{lake}: nothing new in {as_count(outcome.found, 'segment')}"
    if outcome.copies:
        yield f"Left out: {as_count(outcome.copies, 'file')} with the same bytes as others"
    if outcome.unfinished:
        unfinished = as_count(outcome.unfinished, "segment")
        yield f"Left out: {unfinished} still being written. Run this again later"


def write_package(*, folder: Path) -> None:
    """Carry out `ktui pipeline package`, given the values of its options."""
    from ktui.pipeline.spark.cluster import package  # noqa: PLC0415 - as in spark_for

    try:
        code, program = package(folder)
    except OSError as error:
        raise BadInput(f"{folder}: {error.strerror or error}") from error
    click.echo(f"spark-submit --master URL --py-files {code} {program} --recordings URI --lake URI")
