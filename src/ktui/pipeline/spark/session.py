"""Spark, started on this machine or on a cluster's master, and kept off the screen."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ktui.lab.errors import LabError
from ktui.lab.java import Java, find_java
from ktui.pipeline.errors import PipelineProblem
from ktui.pipeline.spark.class_archive import sharing
from ktui.pipeline.spark.failures import cause_in_words

NEEDED_JAVA = 17
LOCAL = "local[*]"


def _quarter_of_memory_gib() -> int:
    """Give the share of this machine's memory that a JVM takes unless told otherwise."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, total // 4 // 2**30)


_ALWAYS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionOverwriteMode": "static",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
}
_ON_THIS_MACHINE = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": f"{_quarter_of_memory_gib()}g",
    "spark.sql.shuffle.partitions": "32",
    "spark.sql.ui.explainMode": "simple",  # plans are told to pages that are off
}
_TELL_TWICE = ("DataFrameQueryContextLogger", "py4j", "SQLQueryContextLogger")
"""Loggers of what is raised as well."""
_LAST_WORDS = 8
"""Lines of Spark's log that are quoted when it does not start."""
_STANDALONE = "spark://"
_ANSWER_S = 10.0


def start(
    master: str | None = LOCAL, *, log: Path | None = None, more: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark, or give the session that is there.

    Args:
        master: as spark-submit takes it; `local[...]` binds to 127.0.0.1 only. None for the one
            of the spark-submit that started this program.
        log: what Spark and its JVM say goes there; None leaves it on the screen.
        more: settings of Spark that go before those here.

    Raises:
        PipelineProblem: there is no Java that will do, no master, or Spark does not start.
    """
    java = check_java()
    builder = SparkSession.builder.appName("ktui pipeline")
    if master is not None:
        _see_master(master)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        builder = builder.master(master)
    local = _ON_THIS_MACHINE if (master or "").startswith("local") else {}
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for key, value in {**_ALWAYS, **local, **(more or {})}.items():
        builder = builder.config(key, value)
    for name in _TELL_TWICE:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger().addHandler(logging.NullHandler())  # py4j tells of an interrupt there
    try:
        with _said_to(log), _interrupts_kept(), sharing(java) if local else nullcontext():
            return builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise PipelineProblem(
            f"Spark does not start: {cause_in_words(error)}{_quoted(log)}"
        ) from None


def check_java() -> Java:
    """Find the Java that Spark runs on.

    Raises:
        PipelineProblem: there is none, or it is too old.
    """
    try:
        return find_java(NEEDED_JAVA, "The pipeline")
    except LabError as error:
        raise PipelineProblem(str(error)) from None


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Let Ctrl-C mean what it did: PySpark takes it, and tells of it in tracebacks."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _said_to(log: Path | None) -> Iterator[None]:
    """Let the processes that are started meanwhile write to a file what they would to the screen.

    The JVM, and the Python workers that it starts, keep the streams that they began with.
    """
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


def _see_master(url: str) -> None:
    """See that some standalone master answers: Spark itself would try for over a minute."""
    if not url.startswith(_STANDALONE):
        return
    said = ""
    for place in url.removeprefix(_STANDALONE).split(","):
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S).close()
        except ValueError:
            raise PipelineProblem(f"{url}: no master. One is named as spark://host:7077") from None
        except OSError as error:
            said = error.strerror or str(error)
        else:
            return
    raise PipelineProblem(f"{url}: no master answers: {said}. Its own page and log name its URL")


def _quoted(log: Path | None) -> str:
    if log is None or not log.exists():
        return ""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    told = [line for line in lines if not line.startswith("\tat ")][-_LAST_WORDS:]
    return "".join(f"\n  | {line}" for line in told) + f"\nAll that it said is in {log}"
