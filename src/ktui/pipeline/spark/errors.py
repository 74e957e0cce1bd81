"""Errors of Spark, or of Sail in its place, in plain words."""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from subprocess import Popen, TimeoutExpired
from typing import Any

from pyspark.errors import PySparkException

from ktui.pipeline.lake.engine import Py4JError
from ktui.pipeline.lake.manifest import SparkFailed

_FULL = "no space is left on the disk of the lake, or of Spark's temporary files"
_NO_MEMORY = (
    "Spark ran out of memory. Give it more, on this machine with "
    "PYSPARK_SUBMIT_ARGS='--driver-memory 8g pyspark-shell', "
    "on a cluster with '--executor-memory 8g pyspark-shell'"
)
_OUT_OF_MEMORY = 52  # the exit code of a JVM whose memory is full (Spark's `SparkExitCode.OOM`)
CONNECTION_LOST = (ConnectionRefusedError, ConnectionResetError)
"""What py4j raises where the JVM has ended between two calls."""
_JVM_ENDED = (
    "Java side is empty",
    "Error while sending or receiving",
    "SparkContext.dagScheduler()",
    "SparkContext was shut down",
    "stopped SparkContext",
)
"""Words of the errors where the JVM has ended during a call, or is about to end."""
_HEAP_FULL = ("OutOfMemoryError: Java heap space", "OutOfMemoryError: GC overhead limit exceeded")
_ENDS_S = 5.0  # the longest that a JVM takes to end
_TRACEBACK = "Traceback (most recent call last):\n"


@contextmanager
def spark_errors_as_problems() -> Iterator[None]:
    """Turn Spark's errors within the block into `SparkFailed`, with a one-line message."""
    try:
        yield
    except (Py4JError, PySparkException, *CONNECTION_LOST) as error:
        raise SparkFailed(error_sentence(error)) from error


def error_sentence(error: Exception) -> str:
    """Put an error of Spark in a sentence."""
    cause = root_cause(error)
    return cause if cause in (_FULL, _NO_MEMORY) else f"Spark failed: {cause}"


def root_cause(error: Exception) -> str:
    """Return the root cause of an error of Spark, as one line."""
    causes = [_text(error), *_causes(error)]
    if any("No space left on device" in cause for cause in causes):
        return _FULL
    if _say(causes, _HEAP_FULL):
        return _NO_MEMORY
    if isinstance(error, CONNECTION_LOST) or _say(causes, _JVM_ENDED):
        ended = _end_of_jvm()
        if ended is not None:
            return ended
    raised = _raised_in_python(causes[-1])
    if raised is not None:
        return f"in Python on an executor: {raised}"
    lines = [line.strip() for line in causes[-1].splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _text(error: Exception) -> str:
    """Return the text of an error; for one of Java's, py4j asks the JVM, which may have ended."""
    try:
        return str(error)
    except (Py4JError, *CONNECTION_LOST):
        return _JVM_ENDED[0]


def _say(causes: Iterable[str], words: Collection[str]) -> bool:
    return any(one in cause for cause in causes for one in words)


def _end_of_jvm() -> str | None:
    from pyspark import SparkContext  # noqa: PLC0415 - PySpark without a JVM has none

    gateway: Any = SparkContext._gateway  # noqa: SLF001 - PySpark has no other way to its process
    jvm: Popen[bytes] | None = getattr(gateway, "proc", None)
    if jvm is None:
        return None
    with suppress(TimeoutExpired):
        code = jvm.wait(_ENDS_S)
        if code == _OUT_OF_MEMORY:
            return _NO_MEMORY
        if code == -signal.SIGKILL:
            return "its JVM was killed by SIGKILL, as Linux does where memory is full"
        return f"its JVM has ended with exit code {code}"
    return None


def _raised_in_python(cause: str) -> str | None:
    _, found, traceback = cause.rpartition(_TRACEBACK)
    lines = [line for line in traceback.splitlines() if line.strip()] if found else []
    ends = (line.strip() for line in lines if _indent(line) < _indent(lines[0]))
    return next(ends, None)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _causes(error: Exception) -> Iterator[str]:
    """Yield the JVM's causes of an error, the outermost first; none where the JVM has died."""
    thrown: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    with suppress(Py4JError, OSError):
        while thrown is not None:
            yield str(thrown.toString())
            thrown = thrown.getCause()
