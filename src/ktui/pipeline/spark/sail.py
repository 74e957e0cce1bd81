"""Start Sail: an engine for Spark's DataFrames in this process, without Java."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ktui.pipeline.lake.engine import on_sail
from ktui.pipeline.lake.files import local_path
from ktui.pipeline.lake.manifest import PipelineProblem
from ktui.pipeline.spark.errors import root_cause

KNOWN_PYSPARK = ("4.1", "4.2")
"""The releases of PySpark that Sail 0.7 takes. Of another it says only that no session runs."""
_IN_PLACE = "pip install 'ktui[pipeline-sail]'"
_BESIDE = "pip install 'pyspark[connect]==4.2.*' 'pysail==0.7.*'"
_CLIENT = ("grpc", "grpc_status", "google.rpc", "zstandard")
"""What PySpark imports for Spark Connect, and installs only where it is asked to."""
_STAGED = "SAIL_EXECUTION__CHECKPOINT__PATH"
_LOG = "RUST_LOG"


def check_sail() -> None:
    """Raise PipelineProblem, with what installs it, unless Sail and its client are here."""
    lacking = [name for name in ("pysail", *_CLIENT) if not _is_here(name)]
    if lacking:
        raise PipelineProblem(
            f"--engine sail needs {lacking[0].partition('.')[0]}, which is not installed. "
            f"Install it: {_fix()}"
        )
    found = _release()
    if found not in KNOWN_PYSPARK:
        known = " and ".join(KNOWN_PYSPARK)
        raise PipelineProblem(
            f"--engine sail works with PySpark {known}, and here is {found}. Install one: {_fix()}"
        )


def check_jvm() -> None:
    """Raise PipelineProblem, with what to do, unless this PySpark has a JVM of its own to start."""
    if not hasattr(pyspark, "SparkContext"):
        raise PipelineProblem(
            "here is pyspark-client, PySpark without Spark: use --engine sail, or install Spark "
            "into another environment: pip install 'ktui[pipeline]'"
        )


def check_places(places: Iterable[str]) -> None:
    """Raise PipelineProblem for a place that only Spark can read or write."""
    for place in places:
        if local_path(place) is None:
            raise PipelineProblem(
                f"{place}: --engine sail reads and writes files of this machine only. "
                "Leave it out, and Spark does the work"
            )


def _is_here(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False


def _release() -> str:
    return ".".join(pyspark.__version__.split(".")[:2])


def _fix() -> str:
    """Return what installs it: beside a PySpark with its own JVM, or in place of one."""
    try:
        version("pyspark")
    except PackageNotFoundError:
        return _IN_PLACE
    return _BESIDE


@contextmanager
def sail() -> Iterator[SparkSession]:
    """Within the block, run Sail in this process, on a port of 127.0.0.1; yields its session."""
    from pysail.spark import SparkConnectServer  # noqa: PLC0415 - an extra of its own

    with TemporaryDirectory(prefix="ktui-sail-") as folder, _environment(Path(folder)):
        server = SparkConnectServer("127.0.0.1", 0)
        try:
            server.start()
            host, port = server.listening_address
            session = SparkSession.builder.remote(f"sc://{host}:{port}").create()
            session.conf.set("spark.sql.session.timeZone", "UTC")
        except (PySparkException, OSError, RuntimeError) as error:
            raise PipelineProblem(f"Sail does not start: {root_cause(error)}") from None
        try:
            yield session
        finally:
            session.stop()
            server.stop()


def forget_kept(session: SparkSession) -> None:
    """Remove the rows that Sail has kept so far, which it would do at its end; Spark keeps none."""
    if on_sail(session):
        for kept in Path(urlsplit(os.environ[_STAGED]).path).iterdir():
            rmtree(kept)


@contextmanager
def _environment(folder: Path) -> Iterator[None]:
    """Set the folder in which Sail caches rows, and keep its log off the screen."""
    before = {name: os.environ.get(name) for name in (_STAGED, _LOG)}
    os.environ[_STAGED] = folder.as_uri()
    os.environ.setdefault(_LOG, "off")
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
