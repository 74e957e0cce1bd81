"""The options that verbs on a lake share, and the start of Spark for them."""

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

from ktui.cli.context.option import add_option
from ktui.execution.host.state_dir import StateDir
from ktui.execution.regular_files import open_regular
from ktui.pipeline.errors import SparkFailed
from ktui.pipeline.forecast.derived import DerivedOptions
from ktui.pipeline.spark.cluster import executor_wait_limited, is_local, shipped
from ktui.pipeline.spark.session import LOCAL, SparkProgress, start
from ktui.pipeline.what_if.play import read_grid
from ktui.units import Seconds, parse_quantity

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    add_option(
        "--grid FILE",
        "A YAML file with the limits and throttles to simulate recorded runs with; by default "
        "a quarter to four times each run's own.",
        type=click.Path(path_type=Path, dir_okay=False),
    ),
    add_option(
        "--window TIME",
        "How long a run may take, such as 4h. ktui then recommends the gentlest limits that "
        "fit; otherwise, faster ones that hold no more replicas at once than the run did.",
    ),
    add_option(
        "--no-insights",
        "Write only the recorded facts: no check of forecasts, no simulations, no insights.",
    ),
    add_option(
        "--keep-insights",
        "Keep new insights in the lake only, and do not replace those of the live view.",
    ),
)


def derived_options(function: F) -> F:
    """Add the options; `read_derived_options` reads their values."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def read_derived_options(given: Mapping[str, Any]) -> DerivedOptions | None:
    """Read the options; None if nothing is to be simulated."""
    if given["no_insights"]:
        return None
    cells = None if given["grid"] is None else read_grid(given["grid"])
    window = given["window"]
    window_s = None if window is None else time_above_0("--window", window, "4h")
    return DerivedOptions(cells, window_s, anew=cells is not None or window is not None)


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

master_option = add_option(
    "--master URL", f"Spark's master URL, as for spark-submit; {LOCAL} by default."
)


@contextmanager
def spark_for(
    master: str | None, state: StateDir, log_name: str = "pipeline.log", *, small: bool = False
) -> Iterator[tuple[SparkSession, SparkProgress]]:
    """Start Spark, and stop it at the end; yields the session and the progress line.

    Spark's own output goes to a file in the state directory. If spark-submit has started this
    program, the output goes where spark-submit sends it. A JVM for a small run on this machine is
    started as one.
    """
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
                    stack.enter_context(executor_wait_limited(spark.sparkContext))
                yield spark, line
        finally:
            with suppress(Py4JError, OSError):  # its JVM may be what has died
                spark.stop()
    except SparkFailed as problem:
        more = "" if log is None else f"\nSpark's whole output is in {log}"
        raise SparkFailed(f"{problem}{more}") from problem
    finally:
        line.close()
