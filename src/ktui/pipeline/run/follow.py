"""Follows recordings: segments come into the lake soon after they are whole, until told to end.

Which segments are new is said by Spark's file source, and its checkpoint remembers them over
restarts. It says so at least once: what a follower that dies has written into the lake, but not
noted yet, is said again. The lake's manifest knows each file that was read, so the second time
comes to nothing, and each line is in the tables once.
"""

from __future__ import annotations

import fcntl
import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from hashlib import sha256
from typing import Protocol

import msgspec
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ktui.pipeline.errors import LakeLocked, PipelineProblem, SparkFailed
from ktui.pipeline.ingest import segments
from ktui.pipeline.ingest.segments import Found
from ktui.pipeline.lake.files import LocalFiles, lake_files, local_path
from ktui.pipeline.lake.lake import FOLLOWING
from ktui.pipeline.run.run import PipelineOutcome, PipelineRequest, take
from ktui.pipeline.spark.failures import cause_in_words, in_words

_LAYOUT = 1
"""Of what is remembered; another one begins anew, which the manifest makes harmless."""
_LOOK_S = 0.2
_WAITS = "Waiting for next trigger"
"""Spark's word for a stream that has looked."""
_DEAD = (Py4JNetworkError, ConnectionRefusedError, ConnectionResetError)
"""Raised by whoever asks a JVM that is no more."""


class FollowReport(Protocol):
    """Takes what a follower does. Each call may come from another thread, one at a time."""

    def doing(self, what: str) -> None:
        """Take what is begun, in words."""
        ...

    def waits(self, why: str) -> None:
        """Take that it waits for somebody, in words."""
        ...

    def read(self, outcome: PipelineOutcome) -> None:
        """Take what became of some segments."""
        ...

    def follows(self, found: Found) -> None:
        """Take that all that there was has been read, and that it waits for more."""
        ...

    def problem(self, words: str) -> None:
        """Take what is wrong with a file that is passed over, or read in part."""
        ...


class Follower:
    """Keeps a lake up to date with folders of recordings.

    Args:
        spark: reads, works and writes.
        wanted: as a run takes it; what is to be played anew is so once, in the beginning.
        every_s: seconds between two looks for segments.
        told: takes what it does.
    """

    def __init__(
        self, spark: SparkSession, wanted: PipelineRequest, every_s: float, told: FollowReport
    ) -> None:
        self._spark = spark
        self._wanted = wanted
        self._every_s = every_s
        self._told = told
        self._files = lake_files(wanted.lake, spark)
        self._places = sorted({str(local_path(each) or each) for each in wanted.recordings})
        self._over = False
        self._failure: Exception | None = None
        """Of a batch: Spark would tell it with the tracebacks of two languages."""
        self._problems: set[str] = set()

    def end(self) -> None:
        """Have it end in order, soon: what is begun is dropped. Signal handlers may call this."""
        self._over = True

    def follow(self) -> None:
        """Bring the lake up to date, and keep it so until `end` is called.

        Raises:
            PipelineProblem: a place of recordings is no folder, somebody else follows the same, or
                something stands in the way; the lake is whole.
        """
        with in_words():
            segments.check_folders(self._spark, self._wanted.recordings)
            with self._alone():
                try:
                    self._catch_up()
                    self._keep_up()
                except _DEAD as error:
                    if not self._over:
                        raise SparkFailed("Spark failed: its JVM has died") from error
                except (_Dropped, SparkFailed, PySparkException, Py4JError):
                    if not self._over:
                        raise

    def _catch_up(self) -> None:
        """Read what there is, in another thread: this one has to see when it is to end."""
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(self._read_all)
            while not wait([first], timeout=_LOOK_S).done:
                if self._over:
                    self._spark.sparkContext.cancelAllJobs()
            first.result()

    def _read_all(self) -> None:
        self._doing("looking for segments")
        with in_words():
            found = segments.find(self._spark, self._wanted.recordings)
        self._take(self._wanted, found)
        self._told.follows(found)

    def _keep_up(self) -> None:
        going = False
        try:
            query = self._begun()
            try:
                going = self._watched(query)
            finally:
                query.stop()
            if self._failure is not None:
                raise self._failure
            query.awaitTermination()
        except (PySparkException, Py4JJavaError) as error:
            # All that there was has just been read: what fails before a first look is the notes.
            if going:
                raise
            raise SparkFailed(self._lost_notes(error)) from error

    def _begun(self) -> StreamingQuery:
        stream = segments.stream(self._spark, self._places).writeStream
        stream = stream.foreachBatch(self._batch).option("checkpointLocation", self._notes)
        return stream.trigger(processingTime=f"{_ms(self._every_s)} milliseconds").start()

    def _watched(self, query: StreamingQuery) -> bool:
        """Wait for the end of a stream, or ours; say whether it has looked at its folders.

        Meanwhile segments that recorders leave behind are made whole, which is all the stream sees.
        """
        going, sealed_at = False, time.monotonic()
        while query.isActive and not self._over:
            going = going or query.status["message"] == _WAITS or query.lastProgress is not None
            if time.monotonic() - sealed_at >= self._every_s:
                self._tell_problems(segments.sealed_left(self._wanted.recordings))
                sealed_at = time.monotonic()
            time.sleep(_LOOK_S)
        return going

    def _batch(self, rows: DataFrame, _number: int) -> None:
        """Read the segments of a batch; called by Spark, in a thread of its own."""
        try:
            with in_words():
                found = segments.in_batch(rows)
            self._take(self._later, found)
        except Exception as error:  # noqa: BLE001 - whoever waits for Spark's thread raises it
            self._failure = error
            # A longer story than this one overflows the stack of the JVM's pattern for it.
            raise _Dropped from None

    @property
    def _later(self) -> PipelineRequest:
        """What is wanted of a batch: only what is new is played."""
        asked = self._wanted.asked
        if asked is None:
            return self._wanted
        later = msgspec.structs.replace(asked, anew=False)
        return msgspec.structs.replace(self._wanted, asked=later)

    def _take(self, wanted: PipelineRequest, found: Found) -> None:
        """Read segments, as soon as nobody else writes the lake."""
        waits = False
        while True:
            try:
                outcome = take(self._spark, wanted, found, self._doing)
            except LakeLocked as locked:
                if not waits:
                    self._told.waits(str(locked))
                waits = True
            else:
                self._tell_problems(outcome.problems)
                self._told.read(outcome)
                return
            time.sleep(_LOOK_S)
            self._go_on()

    def _doing(self, what: str) -> None:
        self._go_on()
        self._told.doing(what)

    def _go_on(self) -> None:
        if self._over:
            raise _Dropped

    def _tell_problems(self, problems: tuple[str, ...] | list[str]) -> None:
        """Tell each once: what cannot be made whole now cannot be the next time either."""
        for problem in problems:
            if problem not in self._problems:
                self._problems.add(problem)
                self._told.problem(problem)

    @property
    def _name(self) -> str:
        """Of what is remembered: by the folders that are followed."""
        named = "\n".join((str(_LAYOUT), *self._places))
        return sha256(named.encode()).hexdigest()[:16]

    @property
    def _notes(self) -> str:
        return f"{self._files.uri}/{FOLLOWING}/{self._name}"

    def _lost_notes(self, error: Exception) -> str:
        return (
            f"{self._notes.removeprefix('file://')}: what is noted there of the segments that were "
            f"followed cannot be used: {cause_in_words(error)}. Remove that folder, and follow "
            "anew: nothing is lost, nor read twice, for the lake knows what it has"
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep others from noting in the same place what they follow."""
        if not isinstance(self._files, LocalFiles):
            yield
            return
        folder = self._files.path / FOLLOWING
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{self._name}.lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                places = ", ".join(self._wanted.recordings)
                raise PipelineProblem(
                    f"{self._files.path}: somebody follows {places} into this lake already"
                ) from None
            yield


class _Dropped(Exception):
    """What was begun is not finished, as it is to end."""


def _ms(seconds: float) -> int:
    return max(1, math.ceil(seconds * 1000))
