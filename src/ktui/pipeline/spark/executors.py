"""The executors of a Spark cluster: wait for them with a limit, and check them before any work."""

from __future__ import annotations

import io
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any, BinaryIO
from zipfile import ZIP_DEFLATED, ZipFile

from py4j.protocol import Py4JError
from pyspark import SparkContext

from ktui.durable import write_output
from ktui.pipeline.errors import PipelineProblem, SparkFailed
from ktui.pipeline.lake.files import local_path
from ktui.pipeline.spark.master import spark_errors_as_problems
from ktui.pipeline.spark.probe import ProbeResult, probe
from ktui.quantities import as_duration
from ktui.units import Seconds, parse_quantity

WAIT = "spark.ktui.executorWait"
"""A setting in Spark's configuration: how long work may wait while there is no executor at all."""
USUAL_WAIT = "2m"
_EVERY_S = 0.5
_PROBES = 32  # the tasks that probe executors: more than the first executor alone can run


def is_local(context: SparkContext) -> bool:
    """Whether all work is done in this process's own JVM."""
    return str(context.master).startswith("local")


@contextmanager
def executor_wait_limited(context: SparkContext) -> Iterator[None]:
    """Within the block, cancel Spark's jobs once they have had no executor for too long.

    Spark itself waits for ever. Raises SparkFailed then, PipelineProblem if `WAIT` is no duration.
    """
    text = context.getConf().get(WAIT, USUAL_WAIT) or USUAL_WAIT
    try:
        wait_s: float = parse_quantity(Seconds, text)
    except ValueError as error:
        raise PipelineProblem(f"{WAIT}: {error}") from None
    over, gave_up = threading.Event(), threading.Event()

    def watch() -> None:
        with suppress(Py4JError, OSError):  # the JVM has died: the job's caller gets the error
            for alone_s in _without_executors(context, over):
                if alone_s > wait_s:
                    gave_up.set()
                    context.cancelAllJobs()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    except SparkFailed:
        if gave_up.is_set():
            raise SparkFailed(_no_executor(context, wait_s)) from None
        raise
    finally:
        over.set()
        watcher.join()


def _without_executors(context: SparkContext, over: threading.Event) -> Iterator[float]:
    jobs = context.statusTracker()
    java: Any = context._jsc  # noqa: SLF001 - Python's tracker does not list executors
    executors = java.sc().statusTracker()
    since = time.monotonic()
    while not over.wait(_EVERY_S):
        now = time.monotonic()
        # the driver is listed as one of them
        if len(executors.getExecutorInfos()) > 1 or not jobs.getActiveJobsIds():
            since = now
        yield now - since


def _no_executor(context: SparkContext, wait_s: float) -> str:
    memory = context.getConf().get("spark.executor.memory", "1g")
    return (
        f"{context.master} has provided no executor for {as_duration(wait_s)}. Its workers are "
        f"gone or busy, or none has the {memory} and the cores that an executor asks for. "
        f"To wait longer, set {WAIT}"
    )


def check_executors(
    context: SparkContext, recordings: Iterable[str], lake: str, tell: Callable[[str], None]
) -> None:
    """Check that executors have the libraries and paths, before any work: PipelineProblem if not.

    SparkFailed: the check itself fails, as where executors have no such Python.
    """
    if is_local(context):
        return
    tell("waiting for executors")
    with ExitStack() as stack:
        places = {path: place for place in recordings if (path := _here(place)) is not None}
        folder = local_path(lake)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            # a unique file, as other machines may have a folder with the lake's name, too
            mark = stack.enter_context(NamedTemporaryFile(dir=folder, prefix=".seen-"))
            places[mark.name] = lake
        found = _probed(context, tuple(places))
    for one in sorted(set(found)):
        _check(one, [places[path] for path in one.paths])


def _probed(context: SparkContext, paths: tuple[str, ...]) -> list[ProbeResult]:
    try:
        with spark_errors_as_problems():
            tasks = context.parallelize(range(_PROBES), _PROBES)
            return tasks.mapPartitions(lambda _: probe(paths)).collect()
    except SparkFailed as problem:
        python = f"Executors start Python as {context.pythonExec}. Set PYSPARK_PYTHON to change it"
        raise SparkFailed(f"{problem}. {python}") from problem


def _here(place: str) -> str | None:
    path = local_path(place)
    return str(path) if path is not None and path.exists() else None


def _check(one: ProbeResult, unseen: list[str]) -> None:
    if one.libraries:
        needed = " ".join(one.libraries)
        raise PipelineProblem(
            f"the Python of executors on {one.host}, {one.python}, lacks {needed}. Install it "
            "there, or set PYSPARK_PYTHON to a Python that has it"
        )
    if unseen:
        raise PipelineProblem(
            f"{unseen[0]}: executors on {one.host} do not see this machine's. Name a folder that "
            "all machines of the cluster share, or a URI such as hdfs:///ktui/lake"
        )


PACKAGE = "ktui.zip"
JOB = "ktui_job.py"
_CODE = Path(__file__).parents[2]


def package(folder: Path) -> tuple[Path, Path]:
    """Write ktui's code, for --py-files, and the program for spark-submit; return both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    code = io.BytesIO()
    _zipped(code)
    write_output(folder / PACKAGE, code.getvalue())
    program = _CODE / "cli" / "pipeline" / "spark_submit.py"
    write_output(folder / JOB, program.read_bytes())
    return folder / PACKAGE, folder / JOB


@contextmanager
def shipped(context: SparkContext) -> Iterator[None]:
    """Within the block, serve ktui's code to all executors, also to those that join later."""
    if not _CODE.is_dir():  # ktui runs from the zip that spark-submit has sent already
        yield
        return
    with TemporaryDirectory(prefix="ktui-") as folder:
        # a name that --py-files cannot have: executors keep all such files in one folder
        path = Path(folder) / f"ktui-{uuid.uuid4().hex[:8]}.zip"
        _zipped(path)
        context.addPyFile(str(path))
        yield


def _zipped(zipped: Path | BinaryIO) -> None:
    with ZipFile(zipped, "w", ZIP_DEFLATED, strict_timestamps=False) as archive:
        for file in sorted(_CODE.rglob("*.py")):
            archive.write(file, file.relative_to(_CODE.parent))
