"""The options that verbs on a lake share, and how they start Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import click
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from ktui.execution.host.state_dir import STATE_DIR, StateDir, StateDirProblem, state_dir
from ktui.pipeline.errors import SparkFailed
from ktui.pipeline.forecast.derived import DerivedOptions
from ktui.pipeline.spark.executors import executor_wait_limited, is_local
from ktui.pipeline.spark.progress import SparkProgress
from ktui.pipeline.spark.session import LOCAL, start
from ktui.pipeline.spark.shipping import shipped
from ktui.pipeline.what_if.grid import read_grid, usual_grid
from ktui.units import Seconds, parse_quantity

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--grid",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="The limits and throttles under which recorded runs are played, as YAML; else 96 "
        "usual ones.",
    ),
    click.option(
        "--window",
        metavar="TIME",
        help="How long a run may take, as 4h: the gentlest limits that fit are advised; else the "
        "fastest that hold no more replicas at once than the run did.",
    ),
    click.option(
        "--no-insights",
        is_flag=True,
        help="Only what was seen: no forecasts held against it, nothing played, no insights.",
    ),
    click.option(
        "--keep-insights",
        is_flag=True,
        help="Leave insights in the lake: the live view's are not replaced.",
    ),
)


def outlook_options(function: F) -> F:
    """Add the options; `asked_of` reads what they give."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def asked_of(given: Mapping[str, Any]) -> DerivedOptions | None:
    """Read the options; None where nothing is to be played.

    Raises:
        FileProblem: the grid cannot be used; with the line.
    """
    if given["no_insights"]:
        return None
    cells = usual_grid() if given["grid"] is None else read_grid(given["grid"])
    chosen = given["grid"] is not None or given["window"] is not None
    return DerivedOptions(cells, _window_s(given["window"]), anew=chosen)


def _window_s(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds: Seconds = parse_quantity(Seconds, text)
    except ValueError as error:
        raise click.UsageError(f"--window: {error}") from error
    if seconds <= 0:
        raise click.UsageError("--window: nothing fits into no time. Give one such as 4h.")
    return float(seconds)


_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set in a program that spark-submit has started: it has a JVM and a master already."""

master_option = click.option(
    "--master",
    metavar="URL",
    help=f"Where Spark works, as spark-submit takes it; {LOCAL} unless said otherwise.",
)


def _state_dir(_context: click.Context, _option: click.Parameter, folder: str | None) -> StateDir:
    try:
        return state_dir(folder)
    except StateDirProblem as problem:
        raise click.BadParameter(str(problem)) from None


state_dir_option = click.option(
    "--state-dir",
    "state",
    type=click.Path(file_okay=False),
    metavar="DIR",
    callback=_state_dir,
    help=f"Where runs are remembered, on a local disk; else ${STATE_DIR}.",
)


@contextmanager
def spark_for(
    master: str | None, state: StateDir, log_name: str = "pipeline.log"
) -> Iterator[tuple[SparkSession, SparkProgress]]:
    """Start Spark, and stop it in the end; with it comes the line that tells how far things are.

    What Spark itself says goes to a file in the state directory, unless spark-submit has started
    this program: then it goes where that sends it.

    Raises:
        PipelineProblem: Spark does not start.
    """
    submitted = _SUBMITTED in os.environ
    log = None if submitted else state.path / log_name
    if log is not None:
        state.make(state.path)
        log.unlink(missing_ok=True)
    line = SparkProgress(sys.stderr)
    line.tell("starting Spark")
    try:
        spark = start(master or (None if submitted else LOCAL), log=log)
        try:
            with line.following(spark.sparkContext), ExitStack() as stack:
                if not is_local(spark.sparkContext):
                    stack.enter_context(shipped(spark.sparkContext))
                    stack.enter_context(executor_wait_limited(spark.sparkContext))
                yield spark, line
        finally:
            with suppress(Py4JError, OSError):  # its JVM may be what has died
                spark.stop()
    except SparkFailed as problem:
        more = "" if log is None else f"\nAll that Spark said is in {log}"
        raise SparkFailed(f"{problem}{more}") from problem
    finally:
        line.close()
