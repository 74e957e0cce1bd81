"""What a replay tells of itself, and of what it plays."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
from textual.message import Message

from ktui.execution.host.state_dir import RunDir
from ktui.progress.timeline import Progress
from ktui.recording.replay_tape import RecordedPeriod
from ktui.tui.poll.outages import Outages
from ktui.tui.poll.overview import Overview
from ktui.tui.replay.survey import SurveyMark


class Course(msgspec.Struct, frozen=True):
    """How far a replay is, for people."""

    from_s: float
    until_s: float
    at_s: float
    at: datetime
    surveyed_s: float
    """Up to which second it is known what happens."""
    stretches: Sequence[RecordedPeriod]
    marks: Sequence[SurveyMark]
    speed: float
    paused: bool
    goes_to_s: float | None = None
    """The second that is being gone to, and is not reached yet."""
    reached_s: float = 0.0
    """How far it has come on the way there."""

    @property
    def ended(self) -> bool:
        """Whether it has come to the end."""
        return self.at_s >= self.until_s


class ReplayAdvanced(Message):
    """The replay has gone on."""

    def __init__(
        self,
        progress: Progress,
        overview: Overview,
        outages: Outages,
        run: RunDir | None,
        *,
        jumped: bool,
    ) -> None:
        super().__init__()
        self.progress = progress
        self.overview = overview
        self.outages = outages
        self.run = run
        """The run that began last."""
        self.jumped = jumped
        """Whether it did not simply go on from what was told before."""


class Surveyed(Message):
    """More is known of what happens where, or of how far it is on the way to another place."""


class ReplayNotice(Message):
    """There is something to be told."""

    def __init__(self, words: str, severity: str = "information", *, instead: bool = False) -> None:
        super().__init__()
        self.words = words
        self.severity = severity
        self.instead = instead
        """Whether it takes the place of what was told before, however grave that was."""
