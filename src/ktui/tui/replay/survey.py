"""Survey a recording once, ahead of the replay: its events, and the states to replay from."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import attrgetter

import msgspec

from ktui.progress.news import EventSeverity
from ktui.progress.timeline import Event
from ktui.recording.replay_tape import Tape
from ktui.rehearsal.branch.compare import Happening
from ktui.rehearsal.branch.point import RecordedEntries, ShownRates
from ktui.tui.replay.walk import Checkpoint, Walk

AT_ONCE_S = 0.1
"""Real seconds after which the survey can be stopped."""
SPACING = 30
"""Lines between two checkpoints at first; the spacing grows with the recording."""
MOST_CHECKPOINTS = 400
MOST_TIMELINES = 20_000
"""The most timelines kept in all checkpoints together."""


class SurveyMark(msgspec.Struct, frozen=True):
    """A second of the recording with an event worth going to."""

    at_s: float
    severity: int
    words: str
    """The text of the most severe event of that second."""


class Survey:
    """Folds a whole recording as fast as possible, and keeps what a replay needs of it."""

    def __init__(self, tape: Tape) -> None:
        self._walk = Walk(tape, note=self._note)
        self._spacing, self._since = SPACING, 0
        self.checkpoints = [self._walk.checkpoint]
        self.marks: list[SurveyMark] = []
        """The marks found so far, by their seconds."""
        self.happened: list[Happening] = []
        """What has happened to brokers so far, whatever the cause; missing figures are left out."""
        self.rates = ShownRates()
        """How fast brokers copied."""

    @property
    def over(self) -> bool:
        """Whether the survey has come to the end."""
        return self._walk.following is None

    @property
    def at_s(self) -> float:
        """The second up to which everything is known."""
        return self._walk.at_s

    @property
    def runs(self) -> Sequence[RecordedEntries]:
        """The events of each run, up to there."""
        runs = self._walk.runs.values()
        return [RecordedEntries(run.name, tuple(run.entries)) for run in runs if run.begun]

    def go_on(self, most_s: float = AT_ONCE_S) -> None:
        """Survey for at most so many real seconds."""
        began = time.monotonic()
        while not self.over and time.monotonic() - began < most_s:
            self._walk.step()
            self.rates.note(self._walk.progress)
            self._since += 1
            if self._since >= self._spacing:
                self._keep()

    def before(self, at_s: float) -> Checkpoint:
        """Return the last checkpoint at or before a second; the first one where there is none."""
        number = bisect_right(self.checkpoints, at_s, key=attrgetter("at_s"))
        return self.checkpoints[max(0, number - 1)]

    def mark_after(self, at_s: float) -> SurveyMark | None:
        """Return the next mark after a second; None where none is known."""
        number = bisect_right(self.marks, at_s, key=attrgetter("at_s"))
        return self.marks[number] if number < len(self.marks) else None

    def mark_before(self, at_s: float) -> SurveyMark | None:
        """Return the last mark before a second; None where there is none."""
        number = bisect_left(self.marks, at_s, key=attrgetter("at_s"))
        return self.marks[number - 1] if number else None

    def _keep(self) -> None:
        """Keep where the walk is. Where the checkpoints become too many, drop every other one."""
        self._since = 0
        self.checkpoints.append(self._walk.checkpoint)
        timelines = sum(len(checkpoint.progress.timelines) for checkpoint in self.checkpoints)
        if len(self.checkpoints) > MOST_CHECKPOINTS or timelines > MOST_TIMELINES:
            self.checkpoints = self.checkpoints[::2]
            self._spacing *= 2

    def _note(self, at_s: float, event: Event) -> None:
        """Mark trouble and warnings, and events that are not about one partition alone."""
        missing = event.severity == EventSeverity.WARNING
        if event.broker is not None and event.tp is None and not missing:
            self.happened.append(Happening(event.at, event.what))
        if event.severity == 0 and event.tp is not None:
            return
        words = event.what if event.tp is None else f"{event.tp}: {event.what}"
        mark = SurveyMark(at_s, event.severity, words)
        if not self.marks or self.marks[-1].at_s < at_s:
            self.marks.append(mark)
        elif self.marks[-1].severity < mark.severity:
            self.marks[-1] = mark
