"""Messages of a replay: its position, and what it plays."""

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


class ReplayPosition(msgspec.Struct, frozen=True):
    """The position of a replay, for the line on the screens."""

    from_s: float
    until_s: float
    at_s: float
    at: datetime
    surveyed_s: float
    """The second up to which the events are known."""
    stretches: Sequence[RecordedPeriod]
    marks: Sequence[SurveyMark]
    speed: float
    paused: bool
    goes_to_s: float | None = None
    """The second that the replay is going to and has not reached yet; None without one."""
    reached_s: float = 0.0
    """The second reached so far on the way there."""

    @property
    def ended(self) -> bool:
        """Whether the replay has come to the end."""
        return self.at_s >= self.until_s


class ReplayAdvanced(Message):
    """The replay has advanced."""

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
        """Whether this does not continue from the previous message."""


class Surveyed(Message):
    """More events are known, or a seek has come further on its way."""


class ReplayNotice(Message):
    """A notice for the operator."""

    def __init__(self, words: str, severity: str = "information", *, instead: bool = False) -> None:
        super().__init__()
        self.words = words
        self.severity = severity
        self.instead = instead
        """Whether it replaces the previous notice, however severe that was."""
