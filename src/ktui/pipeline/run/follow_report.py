"""What `ktui pipeline run --follow` says, and how it is ended."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import FrameType

from ktui.cluster.text import clean
from ktui.insights.file import share_insights
from ktui.pipeline.ingest.segments import Found
from ktui.pipeline.run.run import PipelineOutcome, PipelineRequest
from ktui.pipeline.spark.progress import SparkProgress
from ktui.quantities import as_count, as_duration

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class FollowTold:
    """Says a line for each version of the lake, and shares its insights.

    Args:
        line: says how far things are, meanwhile; only on a terminal.
        wanted: what is followed.
        every_s: seconds between two looks for segments.
        share: the folder where live views find insights; None for them to stay in the lake.
    """

    def __init__(
        self, line: SparkProgress, wanted: PipelineRequest, every_s: float, share: Path | None
    ) -> None:
        self._line = line
        self._wanted = wanted
        self._every_s = every_s
        self._share = share
        self._version = 0

    def doing(self, what: str) -> None:
        """Show what is begun."""
        self._line.show(what)

    def waits(self, why: str) -> None:
        """Say that it waits for somebody."""
        self._line.tell(f"{why.partition(';')[0]}; waiting for it")

    def read(self, outcome: PipelineOutcome) -> None:
        """Say which version there is now, where there is a new one, and share its insights."""
        self._version = outcome.manifest.version
        if outcome.written:
            self._line.say(_version(outcome))
        if outcome.insights is not None and self._share is not None:
            share_insights(outcome.insights, self._share)
        self._line.show("waiting for segments")

    def follows(self, found: Found) -> None:
        """Say what is followed, and what there is to wait for."""
        places = ", ".join(self._wanted.recordings)
        every = as_duration(self._every_s)
        self._line.say(f"Following {places}, every {every}. Ctrl-C, or SIGTERM, ends it")
        if found.unfinished:
            written = as_count(found.unfinished, "segment")
            self._line.say(f"{written} being written: each is read when it is whole")
        elif not found.files:
            self._line.say("Nothing is recorded there yet: waiting for segments")

    def problem(self, words: str) -> None:
        """Say what is wrong with a file that is passed over, or read in part."""
        self._line.say(f"ktui: {clean(words)}", err=True)

    def ended(self) -> None:
        """Say that it has ended, and how the lake is left."""
        left = f"at version {self._version}" if self._version else "as it was"
        self._line.say(f"Ended; {self._wanted.lake} is {left}")


def _version(outcome: PipelineOutcome) -> str:
    """Tell of a version in a line: when it was written, and what is new."""
    at = datetime.fromisoformat(outcome.manifest.written_at).astimezone()
    rows = sum(part.rows for parts in outcome.manifest.tables.values() for part in parts.values())
    what = []
    if outcome.read:
        clusters = as_count(len(outcome.clusters), "cluster")
        what.append(f"{as_count(outcome.read, 'new segment')} of {clusters}")
    if outcome.copies:
        what.append(f"{as_count(outcome.copies, 'file')} with the bytes of others left out")
    if not what:
        what.append("played anew")
    told = f"version {outcome.manifest.version}: {', '.join(what)}; {rows:,} rows in all"
    return f"{at:%Y-%m-%d %H:%M:%S %z}  {told}"


@contextmanager
def ended_by_signals(end: Callable[[], None]) -> Iterator[None]:
    """Let the first SIGINT or SIGTERM end something in order; the next kills this process."""

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
