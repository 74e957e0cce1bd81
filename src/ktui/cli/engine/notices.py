"""Hand an engine's notices to the command of `--on-event`, beside the run."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from ktui.cli.output.event_json import engine_died_json, notice_json
from ktui.cluster.clock import Clock
from ktui.cluster.text import clean
from ktui.execution.host.operator_command import EventCommand
from ktui.execution.run.events import EventCommandFailed, JournalEntry
from ktui.execution.run.notices import NoticeFilter
from ktui.execution.run.run import Run

log = logging.getLogger(__name__)


class RunNotices:
    """The notices of a run, from the moment at which its engine has a command for them.

    Args:
        clock: the time of a notice that no event has.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._filter = NoticeFilter()
        self._run: Run | None = None
        self._command: EventCommand | None = None

    def begin(self, run: Run, command: str) -> None:
        """Hand on the notices of a run from now on; an empty command gets none."""
        self._run = run
        self._command = EventCommand(command) if command else None

    def take(self, entries: Iterable[JournalEntry]) -> None:
        """Hand on the notices of events that were just journalled."""
        if self._command is None or self._run is None:
            return
        for notice in self._filter.take(entries):
            self._command.send(notice_json(self._run, notice))

    def failures(self) -> list[EventCommandFailed]:
        """Return the failures of the command since the last call."""
        failures = [] if self._command is None else self._command.failures()
        return [EventCommandFailed(reason=reason) for reason in failures]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._command is None or self._run is None:
            return
        if isinstance(error, Exception):
            died = engine_died_json(self._run, self._clock.now(), clean(str(error)))
            self._command.send(died)
        for failure in self._command.close():
            log.warning("%s", failure)
