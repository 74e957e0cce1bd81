"""Follow recordings: read segments into the lake soon after they are complete, until asked to end.

Spark's file source reports new segments at least once; its checkpoint remembers them over restarts.
The manifest knows the files that were read, so a second report has no effect.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from types import FrameType

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ktui.cluster.text import clean
from ktui.insights import publish_insights
from ktui.pipeline.forecast.derived import DerivedOptions
from ktui.pipeline.ingest import segments
from ktui.pipeline.ingest.segments import Found
from ktui.pipeline.lake.engine import Py4JError, Py4JJavaError
from ktui.pipeline.lake.files import lake_files, local_path, locked_alone
from ktui.pipeline.lake.lake import FOLLOWING
from ktui.pipeline.lake.manifest import LakeLocked, PipelineProblem, SparkFailed
from ktui.pipeline.run.run import PipelineOutcome, PipelineRequest, read_segments
from ktui.pipeline.spark.errors import CONNECTION_LOST, root_cause, spark_errors_as_problems
from ktui.pipeline.spark.progress import SparkProgress
from ktui.quantities import as_count, as_duration

_LAYOUT = 1
"""The checkpoint's layout version. A new one starts over, which the manifest makes harmless."""
_POLL_S = 0.2
_WAITS = "Waiting for next trigger"
"""Spark's status message of a stream that has listed its folders."""


class Follower:
    """Keeps a lake up to date with folders of recordings, searched every `every_s` seconds.

    If runs are to be simulated under other limits, all are once, in the beginning; later only those
    of clusters with new segments. `report` gets the progress.
    """

    def __init__(
        self, spark: SparkSession, request: PipelineRequest, every_s: float, report: FollowPrinter
    ) -> None:
        self._spark = spark
        self._request = request
        self._every_s = every_s
        self._report = report
        self._files = lake_files(request.lake, spark)
        self._over = False
        self._failure: Exception | None = None
        """The error of a batch: Spark would report it with the tracebacks of two languages."""
        self._problems: set[str] = set()

    def end(self) -> None:
        """End the follower soon and in order; begun work is dropped. Safe in signal handlers."""
        self._over = True

    def follow(self) -> None:
        """Bring the lake up to date, and keep it up to date until `end` is called."""
        with spark_errors_as_problems():
            segments.check_folders(self._spark, self._request.recordings)
            try:
                self._catch_up()
                self._keep_up()
            except (_Dropped, SparkFailed, PySparkException, Py4JError, *CONNECTION_LOST):
                if not self._over:
                    raise

    def _catch_up(self) -> None:
        """Read the existing segments in another thread, as this one has to watch for the end."""
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(self._read_all)
            while not wait([first], timeout=_POLL_S).done:
                if self._over:
                    self._spark.sparkContext.cancelAllJobs()
            first.result()

    def _read_all(self) -> None:
        self._doing("looking for segments")
        with spark_errors_as_problems():
            found = segments.find(self._spark, self._request.recordings)
        self._read_found(self._request, found)
        self._report.follows(found)

    def _keep_up(self) -> None:
        going = False
        try:
            query = self._started()
            try:
                going = self._watch(query)
            finally:
                query.stop()
            if self._failure is not None:
                raise self._failure
            query.awaitTermination()
        except (PySparkException, Py4JJavaError) as error:
            # All existing segments were just read, so an early failure is due to the checkpoint.
            if going:
                raise
            raise SparkFailed(self._bad_checkpoint(error)) from error

    def _started(self) -> StreamingQuery:
        stream = segments.stream(self._spark, _places(self._request)).writeStream
        stream = stream.foreachBatch(self._batch).option("checkpointLocation", self._checkpoint)
        every_ms = max(1, math.ceil(self._every_s * 1000))
        return stream.trigger(processingTime=f"{every_ms} milliseconds").start()

    def _watch(self, query: StreamingQuery) -> bool:
        """Wait for a stream's end, and complete segments; return whether it has listed all."""
        going, sealed_at = False, time.monotonic()
        while query.isActive and not self._over:
            going = going or query.status["message"] == _WAITS or query.lastProgress is not None
            if time.monotonic() - sealed_at >= self._every_s:
                self._report_problems(segments.complete_abandoned(self._request.recordings))
                sealed_at = time.monotonic()
            time.sleep(_POLL_S)
        return going

    def _batch(self, rows: DataFrame, _number: int) -> None:
        """Read the segments of a batch. Spark calls this in a thread of its own."""
        try:
            with spark_errors_as_problems():
                found = segments.segments_in_batch(rows)
            self._read_found(self._later, found)
        except Exception as error:  # noqa: BLE001 - the thread that waits for Spark raises it
            self._failure = error
            # A longer traceback would overflow the stack of the JVM's regular expression for it.
            raise _Dropped from None

    @property
    def _later(self) -> PipelineRequest:
        asked = self._request.asked
        if asked is None or asked.what_if is None:
            return self._request
        later = DerivedOptions(msgspec.structs.replace(asked.what_if, all_runs=False))
        return msgspec.structs.replace(self._request, asked=later)

    def _read_found(self, request: PipelineRequest, found: Found) -> None:
        waits = False
        while True:
            try:
                outcome = read_segments(self._spark, request, found, self._doing)
            except LakeLocked as locked:
                if not waits:
                    self._report.waits(str(locked))
                waits = True
            else:
                self._report_problems(outcome.problems)
                self._report.read(outcome)
                return
            time.sleep(_POLL_S)
            self._check_end()

    def _doing(self, what: str) -> None:
        self._check_end()
        self._report.doing(what)
        self._check_end()  # the report may have taken long

    def _check_end(self) -> None:
        if self._over:
            raise _Dropped

    def _report_problems(self, problems: tuple[str, ...] | list[str]) -> None:
        """Report each problem once: a segment that cannot be completed now never can be."""
        for problem in problems:
            if problem not in self._problems:
                self._problems.add(problem)
                self._report.problem(problem)

    @property
    def _checkpoint(self) -> str:
        return f"{self._files.uri}/{FOLLOWING}/{_name(self._request)}"

    def _bad_checkpoint(self, error: Exception) -> str:
        return (
            f"{self._checkpoint.removeprefix('file://')}: the checkpoint there cannot be used: "
            f"{root_cause(error)}. Remove that folder and follow again: nothing is lost or "
            "read twice, as the lake knows what it has"
        )


@contextmanager
def following_alone(request: PipelineRequest) -> Iterator[None]:
    """Within the block, be the only follower of these folders into a lake on this machine.

    Raises PipelineProblem if there is another one, or if a place on this machine is no folder.
    """
    segments.check_folders(None, request.recordings)
    path = local_path(request.lake)
    if path is None:
        yield
        return
    places = ", ".join(request.recordings)
    busy = PipelineProblem(f"{path}: another follower already reads {places} into this lake")
    with locked_alone(path / FOLLOWING / f"{_name(request)}.lock", busy):
        yield


def _places(request: PipelineRequest) -> list[str]:
    return sorted({str(local_path(each) or each) for each in request.recordings})


def _name(request: PipelineRequest) -> str:
    named = "\n".join((str(_LAYOUT), *_places(request)))
    return sha256(named.encode()).hexdigest()[:16]


class _Dropped(Exception):
    """Raised to drop begun work, as the follower is to end."""


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class FollowPrinter:
    """Prints a line for each version of the lake, and shares its insights in a folder, if any."""

    def __init__(
        self, line: SparkProgress, request: PipelineRequest, every_s: float, share: Path | None
    ) -> None:
        self._line = line
        self._request = request
        self._every_s = every_s
        self._share = share
        self._version = 0

    def doing(self, what: str) -> None:
        self._line.show(what)

    def waits(self, why: str) -> None:
        self._line.tell(f"{why.partition(';')[0]}; waiting for it")

    def read(self, outcome: PipelineOutcome) -> None:
        self._version = outcome.manifest.version
        if outcome.written:
            self._line.say(_version(outcome))
        if outcome.insights is not None and self._share is not None:
            publish_insights(outcome.insights, self._share)
        self._line.show("waiting for segments")

    def follows(self, found: Found) -> None:
        places = ", ".join(self._request.recordings)
        every = as_duration(self._every_s)
        self._line.say(f"Following {places}, every {every}. Ctrl-C or SIGTERM ends it")
        if found.unfinished:
            written = as_count(found.unfinished, "segment is", "segments are")
            self._line.say(f"{written} being written: each is read once it is complete")
        elif not found.files:
            self._line.say("Nothing is recorded there yet: waiting for segments")

    def problem(self, words: str) -> None:
        self._line.say(f"ktui: {clean(words)}", err=True)

    def ended(self) -> None:
        state = f"at version {self._version}" if self._version else "as it was"
        self._line.say(f"Ended; {self._request.lake} is {state}")


def _version(outcome: PipelineOutcome) -> str:
    at = datetime.fromisoformat(outcome.manifest.written_at).astimezone()
    rows = sum(part.rows for parts in outcome.manifest.tables.values() for part in parts.values())
    what = []
    if outcome.read:
        clusters = as_count(len(outcome.clusters), "cluster")
        what.append(f"{as_count(outcome.read, 'new segment')} of {clusters}")
    if outcome.copies:
        what.append(f"{as_count(outcome.copies, 'duplicate file')} left out")
    if not what:
        what.append("runs simulated again")
    news = f"version {outcome.manifest.version}: {', '.join(what)}; {rows:,} rows in all"
    return f"{at:%Y-%m-%d %H:%M:%S %z}  {news}"


@contextmanager
def ended_by_signals(end: Callable[[], None]) -> Iterator[None]:
    """Within the block, let the first SIGINT or SIGTERM call `end`; the next kills the process."""

    def first(_number: int, _frame: FrameType | None) -> None:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        end()

    before = {number: signal.signal(number, first) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
