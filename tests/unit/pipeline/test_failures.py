"""Runs that end oddly, and what stalled them."""

from __future__ import annotations

import gzip
import io
import subprocess
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NoReturn

import msgspec
import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark import SparkContext

from ktui.execution.run.events import AnyRunEvent, Planned, PlannedPart, encode
from ktui.insights import RateCurve
from ktui.pipeline.forecast import replay, what_if
from ktui.pipeline.forecast.model import Model
from ktui.pipeline.forecast.play import GridCell
from ktui.pipeline.lake.records import (
    MOST_TELLING,
    Interval,
    LogEndRecord,
    Sample,
    ThrottleRecord,
    cause_of,
    cause_window,
    stalls,
)
from ktui.pipeline.run import replays
from ktui.pipeline.spark.errors import error_sentence
from ktui.pipeline.spark.progress import SparkProgress
from ktui.pipeline.tables import runs
from ktui.progress.timeline import Cause
from ktui.recording import segments
from ktui.recording.codec import Encoder
from ktui.recording.segments import AnyLine, Head, RunLine
from support.journals.journals import started
from support.pipeline.lake_rows import looks

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


MODEL = Model(
    curve=RateCurve(most_bytes_s=1e6, half_at=0.0, most_at_once=1), joining_s=0, other_s=1
)


def planned(partition: int = 0, *, original: tuple[int, ...] = (1,), **more: Any) -> PlannedPart:
    part = Planned(
        topic="orders", partition=partition, topic_id=None, target=(4,), original=original,
        leader=None, **{"size": 1_000, **more},
    )  # fmt: skip
    return PlannedPart(partitions=(part,))


def rows(events: Sequence[AnyRunEvent]) -> list[dict[str, Any]]:
    return [
        {"cluster_id": "c", "run": "r", "run_id": "r@1", "entry": n, "t": n, "lot": 0,
         "event": encode(event).decode(), "done": False, "lasted_ms": None,
         "by_ms": None, "rates": None, "down": None}
        for n, event in enumerate(events, start=1)
    ]  # fmt: skip


def key(*parts: object) -> tuple[pa.Scalar, ...]:
    return tuple(map(pa.scalar, parts))


def test_a_run_with_a_partition_without_replicas_is_skipped_without_an_error() -> None:
    play = what_if._lot((GridCell(started(1).limits),), 1, what_if.Models({"c": MODEL}, {}))
    for original, count in (((1,), 1), ((), 0)):
        events = pa.Table.from_pylist(rows([started(1), planned(original=original)]))
        table = play(key("c", "r@1", 0), events)
        assert table.num_rows == count
        tested = table.append_column("tested", pa.array([0] * count, pa.int64()))
        assert what_if._advised(None)(tested).num_rows == count


def test_a_run_with_figures_too_large_for_a_table_is_left_out() -> None:
    fold = runs._folded()
    for partition, count in ((0, 1), (2**40, 0)):
        events = pa.Table.from_pylist(rows([started(1), planned(partition)]))
        assert fold(key("c", "r@1"), events).num_rows == count


def test_invalid_and_repeated_events_are_left_out_of_a_run() -> None:
    recorded = rows([started(1), planned(), planned()])
    recorded[1:1] = [
        {**recorded[0], "event": text} for text in ("", "[" * 5_000, "{}", '{"event":"x"}')
    ]

    facts = runs.fold(recorded)

    assert [part.topic for part in facts.partitions] == ["orders"]


def test_a_session_that_fails_to_fold_has_no_forecasts_and_raises_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = segments_of_a_session()
    assert forecasts(table) > 0

    def stumbles(_fold: object, _progress: object) -> NoReturn:
        raise IndexError("of a partition without replicas")

    monkeypatch.setattr(replay, "fold", stumbles)

    assert forecasts(table) == 0


def test_each_row_of_a_replay_has_what_its_table_requires() -> None:
    rows = replays._replayed(segments_of_a_session()).to_pylist()
    assert {kind for row in rows for kind in replays._KINDS if row[kind]} == {*replays._KINDS}
    for kind, table in replays._KINDS.items():
        of_kind = [row[kind] for row in rows if row[kind] is not None]
        required = [field.name for field in table.schema if not field.nullable]
        assert all(row[name] is not None for row in of_kind for name in required), kind


def test_a_damaged_state_stops_no_other_session() -> None:
    table = segments_of_a_session().set_column(2, "state", [[b"damaged"]])
    assert not replays._replayed(table).num_rows


def segments_of_a_session() -> pa.Table:
    return pa.table(
        {
            "cluster_id": ["c"],
            "session": ["s"],
            "state": pa.nulls(1, pa.binary()),
            "content": [a_session()],
        }
    )


def forecasts(table: pa.Table) -> int:
    rows = replays._replayed(table).to_pylist()
    return sum(row["forecast"] is not None for row in rows)


def a_session() -> bytes:
    """Return a session with a run of one partition, caught up in the last of five polls."""
    head = Head(seq=0, at=0, ms=0, schema_version=1, session="s", segment=0, cluster_id="c")
    events: list[AnyRunEvent] = [started(1), planned()]
    of_run = [
        RunLine(seq=n, at=0, ms=0, run="r", run_id="r@1", entry=n, event=msgspec.Raw(encode(event)))
        for n, event in enumerate(events, start=1)
    ]
    encoder = Encoder()
    *copied, last = looks(5)
    in_sync = {
        tp: msgspec.structs.replace(state, isr=state.replicas)
        for tp, state in last.partitions.items()
    }
    copied.append(msgspec.structs.replace(last, partitions=in_sync))
    seen = [encoder.poll(look, seq=3 + n) for n, look in enumerate(copied)]
    recorded: list[AnyLine] = [head, *of_run, *seen]
    return gzip.compress(b"".join(map(segments.encode, recorded)))


BEHIND = (LogEndRecord(1, 100), LogEndRecord(4, 70))
CAUGHT_UP = (LogEndRecord(1, 100), LogEndRecord(4, 100))
HELD = {"isr": (1, 2, 4), "replicas": (4, 1, 2, 3), "removing": (3,)}
"""Broker 4 is added and in sync; 1 and 2 are kept, and 3 is removed."""


def _sample(**other: object) -> Sample:
    usual = {"topic": "orders", "partition": 0, "t": 0, "leader": 1, "isr": (1, 2), "adding": (4,)}
    return msgspec.convert({**usual, **other}, Sample)


def _interval(state: str, began: int, ended: int) -> Interval:
    return Interval(topic="orders", partition=0, state=state, began=began, ended=ended)


@pytest.mark.parametrize(
    ("sample", "cause", "words"),
    [
        (_sample(down=(4,)), Cause.TARGET_DOWN, "broker 4 was down"),
        (_sample(down=(2,)), Cause.UNKNOWN, ""),
        (_sample(offline=(4,)), Cause.LOG_DIR_OFFLINE, "a log dir of broker 4 was offline"),
        (_sample(leader=None), Cause.NO_LEADER, "there was no leader to copy from"),
        (_sample(leader=None, described=False), Cause.UNKNOWN, ""),
        (_sample(ends=BEHIND, described=False), Cause.UNKNOWN, ""),
        (
            _sample(rates=(ThrottleRecord(4, 30_000),), ends=BEHIND),
            Cause.THROTTLED,
            "the throttle of broker 4 was 30,000 B/s",
        ),
        (
            _sample(rates=(ThrottleRecord(1, None, 30_000),), ends=BEHIND),
            Cause.THROTTLED,
            "the throttle of broker 1 was 30,000 B/s",
        ),
    ],
)  # fmt: skip
def test_a_sample_shows_the_cause_that_blocks_a_copy(
    sample: Sample, cause: Cause, words: str
) -> None:
    assert cause_of([sample]) == (cause, words)


def test_a_lagging_replica_without_another_cause_is_not_fetching() -> None:
    elsewhere = (
        ThrottleRecord(1, 30_000, None),
        ThrottleRecord(2, 30_000, 30_000),
        ThrottleRecord(4, None, 30_000),
    )

    for rates in ((), elsewhere):
        found = cause_of([_sample(ends=BEHIND, rates=rates)])
        assert found == (Cause.NOT_FETCHING, "broker 4 did not fetch from 1")


@pytest.mark.parametrize(
    "rates", [ThrottleRecord(4, 50_000_000), ThrottleRecord(1, None, 50_000_000)]
)
def test_a_lagging_replica_under_a_high_throttle_has_an_unknown_cause(
    rates: ThrottleRecord,
) -> None:
    assert cause_of([_sample(ends=BEHIND, rates=(rates,))]) == (Cause.UNKNOWN, "")


@pytest.mark.parametrize("ends", [(), (LogEndRecord(1, 100),), (LogEndRecord(4, 70),)])
def test_a_replica_of_unknown_lag_is_not_reported_as_not_fetching(
    ends: tuple[LogEndRecord, ...],
) -> None:
    assert cause_of([_sample(ends=ends)]) == (Cause.UNKNOWN, "")


@pytest.mark.parametrize("rates", [(), (ThrottleRecord(4, 30_000),)])
def test_a_caught_up_replica_outside_the_isr_is_kept_out_of_sync(
    rates: tuple[ThrottleRecord, ...],
) -> None:
    found = cause_of([_sample(ends=CAUGHT_UP, rates=rates)])

    assert found == (Cause.KEPT_OUT_OF_SYNC, "broker 4 had all, and was not in the ISR")


def test_the_lagging_one_of_two_new_replicas_is_the_cause() -> None:
    ends = (*CAUGHT_UP, LogEndRecord(5, 70))

    found = cause_of([_sample(adding=(4, 5), ends=ends)])

    assert found == (Cause.NOT_FETCHING, "broker 5 did not fetch from 1")


def test_a_kept_replica_out_of_the_isr_is_the_cause_that_holds_a_move() -> None:
    held = _sample(**HELD | {"isr": (1, 4)})
    down = _sample(**HELD | {"isr": (1, 4), "down": (2,)})

    assert cause_of([held]) == (Cause.KEPT_OUT_OF_SYNC, "broker 2 was out of the ISR")
    assert cause_of([down]) == (Cause.KEPT_OUT_OF_SYNC, "broker 2 was out of the ISR and down")
    assert cause_of([_sample(**HELD)]) == (Cause.UNKNOWN, "all in sync, yet not completed")


def test_a_stall_has_the_strongest_cause_in_its_samples() -> None:
    samples = [_sample(), _sample(leader=None), _sample(down=(4,)), _sample(ends=BEHIND)]

    assert cause_of(samples) == (Cause.TARGET_DOWN, "broker 4 was down")
    assert cause_of([]) == (Cause.UNKNOWN, "")


def test_causes_are_ranked_as_in_the_live_view() -> None:
    assert tuple(Cause) == MOST_TELLING


def test_a_move_that_does_not_end_in_half_a_minute_stood_still_since_it_was_in_sync() -> None:
    seen = [
        _interval("in sync", 0, 30_000),
        _interval("stalled", 30_000, 31_000),
        _interval("catching up", 31_000, 900_000),
        _interval("in sync", 900_000, 990_000),
    ]

    assert [(one.began, one.ended) for one in stalls(seen)] == [
        (30_000, 31_000),
        (900_000, 990_000),
    ]


def test_the_cause_is_searched_only_in_the_first_minute_of_a_stall() -> None:
    assert cause_window(_interval("stalled", 1_000, 9_000)) == (1_000, 9_000)
    assert cause_window(_interval("stalled", 1_000, 900_000)) == (1_000, 61_000)
    assert cause_window(_interval("stalled", 1_000, 1_000)) == (1_000, 1_001)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_redraws_the_progress_line_and_clears_it_at_the_end() -> None:
    terminal = Terminal()
    line = SparkProgress(terminal)

    line.tell("decoding")
    line.tell("moves")
    line.close()

    assert "\n" not in terminal.getvalue()
    assert terminal.getvalue().split("\r\x1b[K") == ["", "decoding ...", "moves ...", ""]


def test_a_pipe_gets_one_line_per_progress_step() -> None:
    pipe = io.StringIO()
    line = SparkProgress(pipe)

    line.tell("decoding")
    line.tell("moves")
    line.close()

    assert pipe.getvalue() == "decoding\nmoves\n"


def test_a_permanent_line_is_printed_above_the_progress_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    terminal = Terminal()
    line = SparkProgress(terminal)

    line.show("waiting")
    line.say("version 1")

    assert capsys.readouterr().out == "version 1\n"
    assert terminal.getvalue().split("\r\x1b[K") == ["", "waiting ...", "waiting ..."]


def test_a_pipe_omits_transient_lines_and_keeps_permanent_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pipe = io.StringIO()
    line = SparkProgress(pipe)

    line.show("waiting")
    line.say("version 1")

    assert (pipe.getvalue(), capsys.readouterr().out) == ("", "version 1\n")
