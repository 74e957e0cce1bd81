"""The executors of a Spark cluster: waited for, but not for ever, and seen before work is sent."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple

from py4j.protocol import Py4JError
from pyspark import SparkContext

from ktui.pipeline.errors import PipelineProblem, SparkFailed
from ktui.pipeline.lake.files import local_path
from ktui.pipeline.spark.failures import in_words
from ktui.quantities import as_duration
from ktui.units import Seconds, read

LIBRARIES = {"msgspec": "msgspec", "pyarrow": "pyarrow", "yaml": "pyyaml"}
"""What ktui's code imports in executors, and the packages that bring it."""


class Probed(NamedTuple):
    """What one executor lacks."""

    host: str
    python: str
    libraries: tuple[str, ...]
    """Packages."""
    paths: tuple[str, ...]
    """Paths that are not there."""


def probe(paths: Iterable[str]) -> Iterator[Probed]:
    """Look at the Python that runs this, and at some paths."""
    lacks = tuple(package for name, package in LIBRARIES.items() if find_spec(name) is None)
    unseen = tuple(path for path in paths if not Path(path).exists())
    yield Probed(socket.gethostname(), sys.executable, lacks, unseen)


WAIT = "spark.ktui.executorWait"
"""A setting of Spark: how long work may wait while there is no executor at all."""
USUAL_WAIT = "2m"
_EVERY_S = 0.5
_PROBES = 32
"""Tasks that look at executors: more than are taken by the one that comes first."""


def is_local(context: SparkContext) -> bool:
    """Whether all work is done in this process's own JVM."""
    return str(context.master).startswith("local")


@contextmanager
def waited_for(context: SparkContext) -> Iterator[None]:
    """Give up what is asked of Spark meanwhile where no executor is there for it.

    Spark itself waits for ever.

    Raises:
        PipelineProblem: the setting `WAIT` is no time.
        SparkFailed: there was no executor for that long.
    """
    text = context.getConf().get(WAIT, USUAL_WAIT) or USUAL_WAIT
    try:
        wait_s: float = read(Seconds, text)
    except ValueError as error:
        raise PipelineProblem(f"{WAIT}: {error}") from None
    over, gave_up = threading.Event(), threading.Event()

    def watch() -> None:
        with suppress(Py4JError, OSError):  # its JVM has died: whoever asked it for work tells
            for alone_s in _alone(context, over):
                if alone_s > wait_s:
                    gave_up.set()
                    context.cancelAllJobs()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    except SparkFailed:
        if gave_up.is_set():
            raise SparkFailed(_nobody(context, wait_s)) from None
        raise
    finally:
        over.set()
        watcher.join()


def _alone(context: SparkContext, over: threading.Event) -> Iterator[float]:
    """Tell now and then for how many seconds there has been work, and no executor for it."""
    jobs = context.statusTracker()
    java: Any = context._jsc  # noqa: SLF001 - Python's tracker does not tell executors
    executors = java.sc().statusTracker()
    since = time.monotonic()
    while not over.wait(_EVERY_S):
        now = time.monotonic()
        # the driver is told as one of them
        if len(executors.getExecutorInfos()) > 1 or not jobs.getActiveJobsIds():
            since = now
        yield now - since


def _nobody(context: SparkContext, wait_s: float) -> str:
    memory = context.getConf().get("spark.executor.memory", "1g")
    return (
        f"{context.master} has had no executor for this for {as_duration(wait_s)}: its workers are "
        f"gone or taken, or none has the {memory} and the cores that an executor asks for. "
        f"{WAIT} lets it wait longer"
    )


def see_executors(
    context: SparkContext, recordings: Iterable[str], lake: str, tell: Callable[[str], None]
) -> None:
    """See that a cluster's executors have what is needed, before they are given work.

    Args:
        context: Spark; where it works in this process there is nothing to see.
        recordings: places, by path or URI.
        lake: a place; where it is a path of this machine its folder is made.
        tell: takes what is begun, in words.

    Raises:
        PipelineProblem: one lacks a library, or does not see a path that it has to.
    """
    if is_local(context):
        return
    tell("waiting for executors")
    with ExitStack() as stack:
        places = {path: place for place in recordings if (path := _here(place)) is not None}
        folder = local_path(lake)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            # a file of its own: other machines may have a folder of that name, too
            mark = stack.enter_context(NamedTemporaryFile(dir=folder, prefix=".seen-"))
            places[mark.name] = lake
        found = _probed(context, tuple(places))
    for one in sorted(set(found)):
        _check(one, [places[path] for path in one.paths])


def _probed(context: SparkContext, paths: tuple[str, ...]) -> list[Probed]:
    try:
        with in_words():
            tasks = context.parallelize(range(_PROBES), _PROBES)
            return tasks.mapPartitions(lambda _: probe(paths)).collect()
    except SparkFailed as problem:
        python = f"Executors start Python as {context.pythonExec}; PYSPARK_PYTHON names another"
        raise SparkFailed(f"{problem}. {python}") from problem


def _here(place: str) -> str | None:
    path = local_path(place)
    return str(path) if path is not None and path.exists() else None


def _check(one: Probed, unseen: list[str]) -> None:
    if one.libraries:
        needed = " ".join(one.libraries)
        raise PipelineProblem(
            f"the Python of executors on {one.host}, {one.python}, lacks {needed}. Install it "
            "there, or let PYSPARK_PYTHON name a Python that has it"
        )
    if unseen:
        raise PipelineProblem(
            f"{unseen[0]}: executors on {one.host} do not see this machine's. Give a folder that "
            "all machines of the cluster share, or a URI such as hdfs:///ktui/lake"
        )
