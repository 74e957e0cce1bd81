"""The output of `ktui pipeline run --follow`, and its end by signals."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import FrameType

from ktui.cluster.text import clean
from ktui.insights.file import publish_insights
from ktui.pipeline.ingest.segments import Found
from ktui.pipeline.run.run import PipelineOutcome, PipelineRequest
from ktui.pipeline.spark.progress import SparkProgress
from ktui.quantities import as_count, as_duration

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class FollowPrinter:
    """Prints a line for each version of the lake, and shares its insights.

    Args:
        line: shows the progress in between, on a terminal only.
        request: the request that the follower works on.
        every_s: seconds between two searches for segments.
        share: the folder where live views find insights; None to leave them in the lake only.
    """

    def __init__(
        self, line: SparkProgress, request: PipelineRequest, every_s: float, share: Path | None
    ) -> None:
        self._line = line
        self._request = request
        self._every_s = every_s
        self._share = share
        self._version = 0

    def doing(self, what: str) -> None:
        """Show the step that begins."""
        self._line.show(what)

    def waits(self, why: str) -> None:
        """Show why the follower waits for another run."""
        self._line.tell(f"{why.partition(';')[0]}; waiting for it")

    def read(self, outcome: PipelineOutcome) -> None:
        """Print the new version, if there is one, and share the insights."""
        self._version = outcome.manifest.version
        if outcome.written:
            self._line.say(_version(outcome))
        if outcome.insights is not None and self._share is not None:
            publish_insights(outcome.insights, self._share)
        self._line.show("waiting for segments")

    def follows(self, found: Found) -> None:
        """Print what is followed, and which segments are still to come."""
        places = ", ".join(self._request.recordings)
        every = as_duration(self._every_s)
        self._line.say(f"Following {places}, every {every}. Ctrl-C or SIGTERM ends it")
        if found.unfinished:
            written = as_count(found.unfinished, "segment is", "segments are")
            self._line.say(f"{written} being written: each is read once it is complete")
        elif not found.files:
            self._line.say("Nothing is recorded there yet: waiting for segments")

    def problem(self, words: str) -> None:
        """Print the problem of a file that is skipped, or read in part."""
        self._line.say(f"ktui: {clean(words)}", err=True)

    def ended(self) -> None:
        """Print that the follower has ended, and the lake's version."""
        state = f"at version {self._version}" if self._version else "as it was"
        self._line.say(f"Ended; {self._request.lake} is {state}")


def _version(outcome: PipelineOutcome) -> str:
    """Return a version as a line: when it was written, and what is new."""
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
