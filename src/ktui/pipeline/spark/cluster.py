"""A Spark cluster: whether its master answers, and its executors."""

from __future__ import annotations

import io
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any, BinaryIO
from zipfile import ZIP_DEFLATED, ZipFile

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException

from ktui.durable import write_output
from ktui.pipeline.lake.engine import Py4JError
from ktui.pipeline.lake.files import local_path
from ktui.pipeline.lake.manifest import PipelineProblem, SparkFailed
from ktui.pipeline.lake.sizing import is_local
from ktui.pipeline.spark.errors import spark_errors_as_problems
from ktui.pipeline.spark.probe import ProbeResult, probe
from ktui.quantities import Seconds, as_duration, parse_quantity

STANDALONE = "spark://"
YARN = "yarn"
_ANSWER_S = 10.0
_MANAGER = "yarn.resourcemanager.address"
_MANAGER_PORT = 8032

Address = tuple[str, int]


def check_master(url: str | None, settings: Mapping[str, str]) -> None:
    """Raise PipelineProblem unless a standalone master or YARN's resource manager answers.

    Masters of other kinds are not checked. None is the master of the spark-submit that started this
    program. For YARN the JVM starts here, with Spark's `settings`, to read Hadoop's configuration.
    """
    if url is None:
        SparkContext._ensure_initialized()  # noqa: SLF001 - else it is not in the settings
        url = SparkConf().get("spark.master", "")
    if url.startswith(STANDALONE):
        if failure := _failure(_standalone_masters(url)):
            raise PipelineProblem(
                f"{url}: no master answers: {failure}. The master's web page and log show its URL"
            )
    elif url == YARN:
        own = SparkConf(loadDefaults=False).setMaster(url).setAll([*settings.items()])
        SparkContext._ensure_initialized(conf=own)  # noqa: SLF001 - a context would ask YARN at once
        jvm: Any = SparkContext._jvm  # noqa: SLF001 - the same
        hadoop = jvm.org.apache.spark.deploy.SparkHadoopUtil.get()
        found = hadoop.newConfiguration(jvm.org.apache.spark.SparkConf())  # with spark.hadoop.*
        check_resource_manager(jvm.org.apache.hadoop.yarn.conf.YarnConfiguration(found))


def check_resource_manager(configuration: Any) -> None:
    """Raise PipelineProblem unless one of Hadoop's resource managers answers."""
    managers: list[Address] = []
    # an address that Hadoop cannot read is for Spark to report
    with suppress(Py4JError, PySparkException):
        managers = _resource_managers(configuration)
    if failure := _failure(managers):
        places = ", ".join(f"{host}:{port}" for host, port in managers)
        raise PipelineProblem(
            f"{places}: no resource manager of YARN answers: {failure}. The yarn-site.xml in "
            f"HADOOP_CONF_DIR names it, as {_MANAGER} or yarn.resourcemanager.hostname"
        )


def _standalone_masters(url: str) -> list[Address]:
    try:
        places = [place.rpartition(":") for place in url.removeprefix(STANDALONE).split(",")]
        return [(host.strip("[]"), int(port)) for host, _, port in places]
    except ValueError:
        fix = "Name one like spark://host:7077"
        raise PipelineProblem(f"{url}: not the URL of a master. {fix}") from None


def _resource_managers(configuration: Any) -> list[Address]:
    if configuration.get("yarn.resourcemanager.ha.enabled") != "true":
        return [_manager(configuration)]
    managers = []
    for name in configuration.getTrimmedStringCollection("yarn.resourcemanager.ha.rm-ids"):
        configuration.set("yarn.resourcemanager.ha.id", name)
        managers.append(_manager(configuration))
    return managers


def _manager(configuration: Any) -> Address:
    address = configuration.getSocketAddr(_MANAGER, f"0.0.0.0:{_MANAGER_PORT}", _MANAGER_PORT)
    return address.getHostString(), address.getPort()


def _failure(addresses: Iterable[Address]) -> str:
    failure = ""
    for address in addresses:
        try:
            socket.create_connection(address, _ANSWER_S).close()
        except OSError as error:
            failure = error.strerror or str(error)
        else:
            return ""
    return failure


WAIT = "spark.ktui.executorWait"
"""A setting in Spark's configuration: how long work may wait while there is no executor at all."""
USUAL_WAIT = "2m"
_EVERY_S = 0.5
_ENDS = 4  # so many executors that end in a row, with none alive, will not start any more
_BEGUN = re.compile(r"Executor added: (\S+) on \S+ \((\S+):\d+\)")
_ENDED = re.compile(
    r"Executor updated: (\S+) is now (?:EXITED|FAILED|LOST) \((.*)\)$", re.MULTILINE
)
_TOLD_BY = "org.apache.spark.deploy.client.StandaloneAppClient$ClientEndpoint"
"""The logger that tells the ends of a standalone master's executors, even if they never joined."""
_PROBES = 32  # the tasks that probe executors: more than the first executor alone can run


@contextmanager
def executor_wait_limited(context: SparkContext, log: Path | None) -> Iterator[None]:
    """Within the block, cancel Spark's jobs once they have had no executor for too long.

    So it does once several executors in a row have ended, as far as Spark's log is here. Spark
    itself waits for ever. Raises SparkFailed then, PipelineProblem if `WAIT` is no duration.
    """
    text = context.getConf().get(WAIT, USUAL_WAIT) or USUAL_WAIT
    try:
        wait_s: float = parse_quantity(Seconds, text)
    except ValueError as error:
        raise PipelineProblem(f"{WAIT}: {error}") from None
    over, gave_up = threading.Event(), threading.Event()
    ends = _Ends(context, log)

    def watch() -> None:
        with suppress(Py4JError, OSError):  # the JVM has died: the job's caller gets the error
            for alone_s in _without_executors(context, over):
                ends.read(in_a_row=alone_s > 0)
                if alone_s > wait_s or len(ends.found) >= _ENDS:
                    gave_up.set()
                    context.cancelAllJobs()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    except SparkFailed:
        if gave_up.is_set():
            raise SparkFailed(_no_executor(context, wait_s, ends)) from None
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


class _Ends:
    """Reads from Spark's log which executors of a standalone master have ended, and why."""

    def __init__(self, context: SparkContext, log: Path | None) -> None:
        self.found: list[tuple[str, str]] = []  # their names, and why they ended
        self._hosts: dict[str, str] = {}
        self._log = log if str(context.master).startswith(STANDALONE) else None
        self._read = 0
        if self._log is not None:
            java: Any = context._jvm  # noqa: SLF001 - the log says it at a level that is off
            log4j = java.org.apache.logging.log4j
            log4j.core.config.Configurator.setLevel(_TOLD_BY, log4j.Level.INFO)

    def read(self, *, in_a_row: bool) -> None:
        """Find those that have ended since the last call, `in_a_row` with those before."""
        if self._log is None:
            return
        with self._log.open("rb") as file:
            file.seek(self._read)
            whole = file.read().rpartition(b"\n")[0]
        self._read += len(whole)
        text = whole.decode(errors="replace")
        self._hosts |= dict(_BEGUN.findall(text))
        ended = _ENDED.findall(text)
        self.found = [*self.found, *ended] if in_a_row else ended

    def last(self) -> str:
        """Return the name of the last one that has ended, with its host and the reason."""
        name, why = self.found[-1]
        host = self._hosts.get(name)
        place = "" if host is None else f" on {host}"
        return f"{name}{place}: {why}. The reason is in the worker's work/{name}/stderr"


def _no_executor(context: SparkContext, wait_s: float, ends: _Ends) -> str:
    if ends.found:
        return f"{context.master} starts executors, but they end at once: {ends.last()}"
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
