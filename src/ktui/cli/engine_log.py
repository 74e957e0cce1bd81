"""What an engine says beside its journal: a line for each event of note, and for each error."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from ktui.cli.engine_log_file import LogFile
from ktui.cluster.ports import Verdict
from ktui.execution.cancel_events import CancelGate
from ktui.execution.event_words import sentence
from ktui.execution.events import (
    Answered,
    Elect,
    Entry,
    Event,
    NowIn,
    Outage,
    PlannedPart,
    Started,
    StepBegun,
    StepOver,
)
from ktui.execution.problem import JournalProblem
from ktui.execution.recording_event import Recording
from ktui.execution.run import Run
from ktui.execution.states import State
from ktui.execution.throttle_events import (
    Configure,
    Configured,
    SettingChanged,
    SettingsFound,
    SettingsLeft,
)
from ktui.quantities import as_count, as_duration

log = logging.getLogger(__name__)

_TROUBLE = (
    State.FAILED,
    State.STALLED,
    State.REFUSED,
    State.CHANGED_ELSEWHERE,
    State.TOPIC_GONE,
)


def log_to(path: Path) -> None:
    """Let ktui's log go to standard error, which is the file of that name."""
    logging.basicConfig(level=logging.INFO, handlers=[LogFile(path)])


class JournalWait:
    """The wait of an engine for a journal that another process keeps locked: told, and endable.

    It blocks the whole process, as it must: nothing is sent that is not in the journal.
    """

    def __init__(self) -> None:
        self.given_up: str | None = None
        """Why the process is to end, also in the middle of a wait; None while it is not."""

    def begins(self, why: str) -> None:
        """Tell that nothing goes on until the journal is free."""
        log.warning(
            "%s: nothing is decided and nothing is sent until it is free. See who has the file "
            "open: ktui stopped in a write, or sqlite3",
            why,
        )

    def waits(self) -> None:
        """Go on waiting, unless the process was told to end.

        Raises:
            JournalProblem: it was.
        """
        if self.given_up is not None:
            raise JournalProblem(f"{self.given_up} while another process kept the journal locked")

    def ends(self, waited_s: float) -> None:
        """Tell that the run goes on."""
        log.warning("the journal is free again after %s: the run goes on", as_duration(waited_s))


class EngineLog:
    """Tells of a run's events: decisions in a line each, and what is no part of a smooth run."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def tell(self, entries: Iterable[Entry]) -> None:
        """Tell of events that were just written."""
        events = [entry.event for entry in entries]
        begun = [event for event in events if isinstance(event, StepBegun)]
        if begun:
            done = f"{self._run.over:,} of {len(self._run.tracks):,} partitions have ended"
            log.info("decision %d: %s; %s", begun[-1].batch, as_count(len(begun), "step"), done)
        for event in events:
            level = _level(event)
            if level is not None:
                log.log(level, "%s", sentence(event))


def _level(event: Event) -> int | None:  # noqa: PLR0911 - a case a kind of event
    """Say how much an event is to be noted; None for what goes as it should."""
    match event:
        case Started() | PlannedPart() | StepBegun() | Elect() | SettingsFound() | Configure():
            return None
        case Answered() | Configured():
            return None if event.verdict is Verdict.ACCEPTED else logging.WARNING
        case Outage() | SettingChanged():
            return logging.WARNING
        case StepOver():
            return None if event.reached else logging.INFO
        case NowIn():
            return logging.WARNING if event.state in _TROUBLE else None
        case CancelGate():
            return logging.WARNING if event.shut else logging.INFO
        case SettingsLeft():
            return logging.WARNING if event.reason else None
        case Recording():
            return logging.WARNING if event.reason else logging.INFO
    return logging.INFO
