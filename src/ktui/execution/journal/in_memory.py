"""What an engine needs of a run's journal, and a journal of that kind without a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ktui.cluster.clock import Clock
from ktui.execution.journal.commands import Answer, StoredCommand
from ktui.execution.run.events import AnyRunEvent, JournalEntry


class EngineJournal(Protocol):
    """The part of a journal that the engine of its run works with; `Journal` has it in a file."""

    def append(self, events: Sequence[AnyRunEvent]) -> list[JournalEntry]:
        """Keep events before anything rests on them, and return their entries.

        Raises:
            JournalProblem: no event was kept.
        """
        ...

    def asked(self) -> list[StoredCommand]:
        """Return the commands without an answer, in the order in which they were asked."""
        ...

    def answer(self, number: int, answer: Answer) -> None:
        """Write the answer to a command; its first answer stays."""
        ...

    def data_version(self) -> int:
        """Return a number that changes when a command may have arrived; cheap to read."""
        ...


class MemoryJournal:
    """The journal of a simulated run, which ends with its process and which nobody commands.

    Args:
        clock: the times of the events.
        pass_on: gets the entries of each call of `append`.
    """

    def __init__(self, clock: Clock, pass_on: Callable[[Sequence[JournalEntry]], None]) -> None:
        self._clock = clock
        self._pass_on = pass_on
        self.entries: list[JournalEntry] = []

    def append(self, events: Sequence[AnyRunEvent]) -> list[JournalEntry]:
        """Keep events, and pass their entries on."""
        now, after = self._clock.now(), len(self.entries)
        entries = [JournalEntry(after + n, now, event) for n, event in enumerate(events, start=1)]
        self.entries += entries
        if entries:
            self._pass_on(entries)
        return entries

    def asked(self) -> list[StoredCommand]:
        """Return no command."""
        return []

    def answer(self, number: int, answer: Answer) -> None:
        """Answer a command, although there is none."""

    def data_version(self) -> int:
        """Return the same number each time."""
        return 0
