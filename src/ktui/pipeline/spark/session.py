"""Start Spark on this machine or on a cluster's master, and keep its output off the screen."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import platformdirs
import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ktui.lab.java import Java, find_java
from ktui.lab.layout import LabError
from ktui.pipeline.lake.engine import Py4JError
from ktui.pipeline.lake.manifest import PipelineProblem
from ktui.pipeline.lake.sizing import SMALL_JAVA_OPTIONS
from ktui.pipeline.spark.cluster import check_master
from ktui.pipeline.spark.errors import root_cause

_OPTIONS = "SPARK_SUBMIT_OPTS"
"""The variable with the JVM options that Spark's scripts add to a driver's settings."""
_CLASS_ARCHIVE_ALWAYS = (
    "-Xshare:auto",
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-Xlog:cds=off,cds+dynamic=off",
)
_ROOM_BYTES = 1 << 30  # the free disk space that writing an archive needs
_WRITTEN_WITHIN_S = 3600.0  # a JVM that began to write an archive longer ago than this has died
_MOST = 3
"""The archives to keep, over all Javas, Sparks and environments; the oldest are removed first."""


@contextmanager
def shared_classes(java: Java) -> Iterator[None]:
    """Let JVMs within the block read or write the class archive; if it raises, remove it."""
    before = os.environ.get(_OPTIONS)
    archive, options = None, ""
    with suppress(OSError):
        archive = _found(place := _place(java))
        options = _reading(archive) if archive else _writing(place)
    os.environ[_OPTIONS] = " ".join(filter(None, (options, before)))
    try:
        yield
    except Exception:
        if archive is not None:
            with suppress(OSError):
                archive.unlink()
        raise
    finally:
        os.environ.pop(_OPTIONS)
        if before is not None:
            os.environ[_OPTIONS] = before


def _place(java: Java) -> Path:
    """The prefix of the archive's path, by jars: environments that link to one PySpark share it."""
    jars = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).resolve().parent, "jars")
    parts = (java.program, java.build, pyspark.__version__, jars, jars.stat().st_mtime_ns)
    key = sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]
    return platformdirs.user_cache_path("ktui") / f"spark-{key}"


def _found(place: Path) -> Path | None:
    for new in place.parent.glob("spark-*-*.new"):  # of other Sparks, too: else they stay for ever
        _settle(new, new.with_name(new.name.rpartition("-")[0]))
    # a JVM that maps a truncated archive dies
    whole = (one for one in place.parent.glob(f"{place.name}-*.jsa") if one == _sized(place, one))
    return next(whole, None)


def _settle(new: Path, place: Path) -> None:
    """Rename an archive once a JVM has written it; remove one whose JVM has died."""
    with new.open("rb") as file:
        is_whole = any(file.read(4))  # written last, and zero until then
    if is_whole:
        for other in place.parent.glob(f"{place.name}-*.jsa"):
            other.unlink()  # of a JVM that ran at the same time
        new.replace(_sized(place, new))
        archives = [(one.stat().st_mtime, one) for one in place.parent.glob("spark-*-*.jsa")]
        for _, old in sorted(archives)[:-_MOST]:
            old.unlink()
    elif time.time() - new.stat().st_mtime > _WRITTEN_WITHIN_S:
        new.unlink()


def _sized(place: Path, file: Path) -> Path:
    return place.with_name(f"{place.name}-{file.stat().st_size}.jsa")


def _reading(archive: Path) -> str:
    option = _class_archive_quoted(f"-XX:SharedArchiveFile={archive}")
    return " ".join((option, "-XX:+VerifySharedSpaces", *_CLASS_ARCHIVE_ALWAYS))


def _writing(place: Path) -> str:
    place.parent.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(place.parent).free < _ROOM_BYTES:
        return ""
    option = _class_archive_quoted(f"-XX:ArchiveClassesAtExit={place}-{os.getpid()}.new")
    return " ".join((option, *_CLASS_ARCHIVE_ALWAYS))


def _class_archive_quoted(option: str) -> str:
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


NEEDED_JAVA = 17


def _quarter_of_memory_gib() -> int:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, total // 4 // 2**30)


_ALWAYS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionOverwriteMode": "static",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # PySpark would note the caller of each column function, slowly, for tracebacks nobody sees
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    # by default times have a form without zone, and without least and greatest values in footers
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Spark takes a file's size for that of its rows, which are some forty times as large here: a
    # join would broadcast three million of them, and run out of memory
    "spark.sql.sources.fileCompressionFactor": "40",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
_ON_THIS_MACHINE = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": f"{_quarter_of_memory_gib()}g",
    "spark.sql.ui.explainMode": "simple",  # plans are for web pages that are off
    # a task that fails is not tried again here, so its files need no second move
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
}
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LOGGED_TWICE = ("DataFrameQueryContextLogger", "py4j", "SQLQueryContextLogger")
"""Loggers of errors that are raised as well."""
_USED_CLASSES = (
    "functions",
    "PythonUtils",
    "PythonSQLUtils",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.types.Metadata",
)
"""The names in PySpark of Java classes that it uses for columns and their lists."""
_LAST_LINES = 8  # the lines of Spark's log that are quoted when Spark does not start


def start(
    master: str | None,
    *,
    log: Path | None = None,
    small: bool = False,
    more: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark, or return the session that exists; PipelineProblem names what is missing.

    `master` is in the format of spark-submit: `local[...]` binds to 127.0.0.1 only; None is that of
    the spark-submit that started this program. `log` takes the output of Spark and its JVM, else
    the screen does. `small`: the JVM ends soon. `more` settings override those here.
    """
    java = check_java()
    builder = SparkSession.builder.appName("ktui pipeline")
    if master is not None:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        builder = builder.master(master)
    local = _ON_THIS_MACHINE if (master or "").startswith("local") else {}
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if local and small:
        local = {**local, _JAVA_OPTIONS: SMALL_JAVA_OPTIONS}
    settings = {**_ALWAYS, **local, **(more or {})}
    for key, value in settings.items():
        builder = builder.config(key, value)
    for name in _LOGGED_TWICE:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger().addHandler(logging.NullHandler())  # py4j logs interrupts there
    try:
        with _output_to(log), _interrupts_kept(), shared_classes(java) if local else nullcontext():
            check_master(master, settings)
            session = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise PipelineProblem(f"Spark does not start: {root_cause(error)}{_quoted(log)}") from None
    _remember_classes(session)
    _print_no_cut_connections(session)
    if local:
        _write_no_checksum_files(session)
    return session


def _print_no_cut_connections(session: SparkSession) -> None:
    """Keep PySpark's server from printing a traceback where the JVM dies; an error says that."""
    server: Any = session.sparkContext._accumulatorServer  # noqa: SLF001 - PySpark has no other way
    server.handle_error = lambda _request, _client_address: None


def _remember_classes(session: SparkSession) -> None:
    """Cache Java classes by name: the JVM searches all jars of Spark for each column function."""
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to them
    for name in _USED_CLASSES:
        setattr(jvm, name, getattr(jvm, name))


def _write_no_checksum_files(session: SparkSession) -> None:
    """Write no checksum files: Parquet has checksums, and Hadoop starts two programs for a file."""
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to it
    context: Any = session.sparkContext._jsc  # noqa: SLF001 - the same
    local = jvm.org.apache.hadoop.fs.FileSystem.getLocal(context.hadoopConfiguration())
    local.setWriteChecksum(False)


def check_java() -> Java:
    """Find the Java that Spark runs on; PipelineProblem if there is none, or it is too old."""
    try:
        return find_java(NEEDED_JAVA, "The pipeline")
    except LabError as error:
        raise PipelineProblem(str(error)) from None


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Restore the handler of Ctrl-C after the block: PySpark's own handler prints tracebacks."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _output_to(log: Path | None) -> Iterator[None]:
    """Redirect the output of the JVM and its Python workers, which keep their first streams."""
    if log is None:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(file, 1)
        os.dup2(file, 2)
        yield
    finally:
        for number, own in enumerate(kept, start=1):
            os.dup2(own, number)
            os.close(own)
        os.close(file)


def _quoted(log: Path | None) -> str:
    if log is None or not log.exists():
        return ""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    shown = [line for line in lines if not line.startswith("\tat ")][-_LAST_LINES:]
    return "".join(f"\n  | {line}" for line in shown) + f"\nThe whole log is in {log}"
