"""Follow recordings: read segments into the lake soon after they are complete, until asked to end.

A run of the pipeline, round after round. The manifest knows what was read, so a follower keeps
nothing that a later one would need.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from types import FrameType

import msgspec
from pyspark.sql import SparkSession

from ktui.cluster.text import clean
from ktui.insights import publish_insights
from ktui.pipeline.forecast.derived import DerivedOptions
from ktui.pipeline.ingest import segments
from ktui.pipeline.ingest.segments import Found
from ktui.pipeline.lake.files import ListedFile, local_path, locked_alone
from ktui.pipeline.lake.manifest import LakeLocked, PipelineProblem, SparkFailed
from ktui.pipeline.run.run import PipelineOutcome, PipelineRequest, read_segments
from ktui.pipeline.spark.errors import spark_errors_as_problems
from ktui.pipeline.spark.progress import SparkProgress
from ktui.pipeline.spark.sail import forget_kept
from ktui.quantities import as_count, as_duration

_LOCKS = "_following"
_POLL_S = 0.5


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
        self._over = threading.Event()
        self._seen: frozenset[ListedFile] | None = None  # by a version; None: there is none yet
        self._problems: set[str] = set()

    def end(self) -> None:
        """End the follower soon and in order; begun work is dropped. Safe in signal handlers."""
        self._over.set()

    def follow(self) -> None:
        """Bring the lake up to date, and keep it up to date until `end` is called.

        Raises PipelineProblem if a place is no folder, SparkFailed if the work fails.
        """
        with spark_errors_as_problems():
            segments.check_there(self._spark, self._request.recordings, folders=True)
        self._report.doing("looking for segments")
        with ThreadPoolExecutor(1) as pool:
            # in another thread, as a signal does not end a call of Spark's in this one
            rounds = pool.submit(self._rounds)
            while not wait([rounds], timeout=_POLL_S).done:
                if self._over.is_set():
                    with suppress(SparkFailed), spark_errors_as_problems():  # a JVM may have ended
                        self._spark.interruptAll()
            rounds.result()

    def _rounds(self) -> None:
        try:
            self._round()
            while not self._over.wait(self._every_s):
                self._round()
        except (_Dropped, SparkFailed):
            if not self._over.is_set():
                raise

    def _round(self) -> None:
        with spark_errors_as_problems():
            found = segments.find(self._spark, self._request.recordings)
        self._report_problems(found.problems)
        begins = self._seen is None
        new = tuple(each for each in found.files if each not in (self._seen or ()))
        if not (begins or new):
            return
        try:
            fresh = msgspec.structs.replace(found, files=new)
            outcome = read_segments(self._spark, self._request, fresh, self._doing)
        except LakeLocked as locked:
            self._report.waits(str(locked))
            return
        forget_kept(self._spark)
        self._report_problems(outcome.problems)
        self._report.read(outcome)
        self._seen = frozenset(found.files)
        if begins:
            self._report.follows(found)
            self._request = _of_new_data(self._request)

    def _doing(self, what: str) -> None:
        self._report.doing(what)
        if self._over.is_set():
            raise _Dropped

    def _report_problems(self, problems: Iterable[str]) -> None:
        """Report each problem once: a segment that cannot be completed now never can be."""
        for problem in problems:
            if problem not in self._problems:
                self._problems.add(problem)
                self._report.problem(problem)


def _of_new_data(request: PipelineRequest) -> PipelineRequest:
    """Return a request without simulations of clusters that have no new segments."""
    if request.asked is None or request.asked.what_if is None:
        return request
    what_if = msgspec.structs.replace(request.asked.what_if, all_runs=False)
    return msgspec.structs.replace(request, asked=DerivedOptions(what_if))


@contextmanager
def following_alone(request: PipelineRequest) -> Iterator[None]:
    """Within the block, be the only follower of these folders into a lake on this machine.

    Raises PipelineProblem if there is another one, or if a place on this machine is no folder.
    """
    segments.check_there(None, request.recordings, folders=True)
    path = local_path(request.lake)
    if path is None:
        yield
        return
    places = ", ".join(request.recordings)
    busy = PipelineProblem(f"{path}: another follower already reads {places} into this lake")
    with locked_alone(path / _LOCKS / f"{_name(request)}.lock", busy):
        yield


def _name(request: PipelineRequest) -> str:
    places = sorted({str(local_path(each) or each) for each in request.recordings})
    return sha256("\n".join(places).encode()).hexdigest()[:16]


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
