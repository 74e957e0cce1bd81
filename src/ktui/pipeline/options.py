"""The options that verbs on a lake share, and how they start Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TypeVar

import click
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from ktui.execution.statedir import STATE_DIR, StateDir, StateDirProblem, state_dir
from ktui.pipeline.executors import is_local, waited_for
from ktui.pipeline.problem import SparkFailed
from ktui.pipeline.progress import ProgressLine
from ktui.pipeline.session import LOCAL, start
from ktui.pipeline.shipping import shipped

F = TypeVar("F", bound=Callable[..., Any])

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
) -> Iterator[tuple[SparkSession, ProgressLine]]:
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
    line = ProgressLine(sys.stderr)
    line.tell("starting Spark")
    try:
        spark = start(master or (None if submitted else LOCAL), log=log)
        try:
            with line.following(spark.sparkContext), ExitStack() as stack:
                if not is_local(spark.sparkContext):
                    stack.enter_context(shipped(spark.sparkContext))
                    stack.enter_context(waited_for(spark.sparkContext))
                yield spark, line
        finally:
            with suppress(Py4JError, OSError):  # its JVM may be what has died
                spark.stop()
    except SparkFailed as problem:
        more = "" if log is None else f"\nAll that Spark said is in {log}"
        raise SparkFailed(f"{problem}{more}") from problem
    finally:
        line.close()
