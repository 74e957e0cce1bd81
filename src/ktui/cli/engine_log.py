"""What an engine says beside its journal: a line for each event of note, and for each error."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from pathlib import Path

from ktui.cluster.ports import Verdict
from ktui.cluster.text import clean
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
from ktui.execution.throttle_events import Configure, Configured, SettingsFound, SettingsLeft
from ktui.quantities import as_count, as_duration

log = logging.getLogger(__name__)

_WARNING = " WARNING "
_TROUBLE = (
    State.FAILED,
    State.STALLED,
    State.REFUSED,
    State.CHANGED_ELSEWHERE,
    State.TOPIC_GONE,
)


def log_to_stderr() -> None:
    """Let ktui's log go to standard error, a line a record, in UTC."""
    form = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s")
    form.default_time_format, form.datefmt = "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S"
    form.converter = time.gmtime
    handler = logging.StreamHandler()
    handler.setFormatter(form)
    logging.basicConfig(level=logging.INFO, handlers=[handler])


class JournalWait:
    """The wait of an engine for a journal that another process keeps locked: told, and endable.

    It blocks the whole process, as it must: nothing is sent that is not in the journal.
    """

    def __init__(self) -> None:
        self.given_up: str | None = None
        """Why the process is to end, also in the middle of a wait; None while it is not."""

    def begins(self, why: str) -> None:
        """Tell that nothing goes on until the journal is free."""
        log.warning("%s. Until then nothing is decided and nothing is sent", why)

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


class Warnings:
    """The warnings that come to stand in an engine's log from now on."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._at = log.stat().st_size if log.exists() else 0

    def new(self) -> list[str]:
        """Give those since the last call, in whole lines and without their times."""
        try:
            with self._log.open("rb") as file:
                file.seek(self._at)
                lines = file.read().splitlines(keepends=True)
        except OSError:
            return []
        whole = [line for line in lines if line.endswith(b"\n")]
        self._at += sum(map(len, whole))
        told = (line.decode(errors="replace").strip().partition(_WARNING) for line in whole)
        return [clean(words) for _, sign, words in told if sign]


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
        case Outage():
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
