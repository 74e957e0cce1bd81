"""Failures in Spark take one line, even if Python raised them on an executor."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError
from pyspark import SparkContext

from ktui.pipeline.spark.master import error_sentence

_RAISED = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: \
Traceback (most recent call last):
  File "worker.py", line 4174, in main
    process()
KeyError: 'first'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "worker.py", line 4180, in main
    import msgspec
    ^^^^^^^^^^^^^^
ModuleNotFoundError: No module named 'msgspec'
Look for it elsewhere.
 SQLSTATE: 38000"""
_NOT_STARTED = """Error from python worker:
  Traceback (most recent call last):
    File "<frozen runpy>", line 198, in _run_module_as_main
  ImportError: cannot import name 'daemon'
PYTHONPATH was:
  /opt/spark/python"""


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        (_RAISED, "in Python on an executor: ModuleNotFoundError: No module named 'msgspec'"),
        (_NOT_STARTED, "in Python on an executor: ImportError: cannot import name 'daemon'"),
        ("\njava.io.IOException: gone\n\tat a.b(C.java:1)", "java.io.IOException: gone"),
        ("", "ValueError"),
    ],
)
def test_a_spark_error_is_summed_up_in_its_decisive_line(raised: str, words: str) -> None:
    assert error_sentence(ValueError(raised)) == f"Spark failed: {words}"


def test_a_full_disk_is_reported_as_such() -> None:
    words = error_sentence(ValueError("java.io.IOException: No space left on device"))

    assert words == "no space is left on the disk of the lake, or of Spark's temporary files"


_STOPPED = 'NullPointerException: "org.apache.spark.SparkContext.dagScheduler()" is null'


def test_a_full_memory_is_reported_as_such_with_what_to_do() -> None:
    words = error_sentence(ValueError("Lost task 0.0: java.lang.OutOfMemoryError: Java heap space"))

    assert words.startswith("Spark ran out of memory. Give it more")


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("exit 52", "Spark ran out of memory. Give it more"),
        ("exit 143", "Spark failed: its JVM has ended with exit code 143"),
        ("kill -9 $$", "Spark failed: its JVM was killed by SIGKILL"),
    ],
)
def test_a_jvm_that_ended_tells_by_its_exit_code_whether_its_memory_was_full(
    end: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["sh", "-c", end]) as jvm:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=jvm))

        assert error_sentence(ValueError(_STOPPED)).startswith(words)


def test_an_error_of_a_jvm_that_lives_is_told_without_waiting_for_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def waits(_seconds: float) -> int:
        raise AssertionError

    living = SimpleNamespace(proc=SimpleNamespace(wait=waits))
    monkeypatch.setattr(SparkContext, "_gateway", living)
    error = ValueError("Job aborted\n\tat org.apache.spark.SparkContext.runJob(SparkContext.scala)")

    assert error_sentence(error) == "Spark failed: Job aborted"


def test_an_error_whose_text_died_with_its_jvm_is_told_all_the_same() -> None:
    class Mute(Py4JError):  # type: ignore[misc] # py4j has no types
        def __str__(self) -> str:
            raise ConnectionRefusedError

    assert error_sentence(Mute()) == "Spark failed: Java side is empty"
