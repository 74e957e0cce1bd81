"""Record the events of a run: in its journal first, and then in the run itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ktui.cluster.clock import Clock
from ktui.execution.errors import RunProblem
from ktui.execution.journal.in_memory import EngineJournal
from ktui.execution.run.events import AnyRunEvent, JournalEntry
from ktui.execution.run.run import Run


class EventRecorder:
    """Writes events to the disk, and only then applies them to the run.

    Args:
        run: the fold of the journal so far.
        journal: the journal of the run, which this process owns.
        clock: time.
        lost: returns why this process does not own the run any more; None while it does.
    """

    def __init__(
        self, run: Run, journal: EngineJournal, clock: Clock, lost: Callable[[], str | None]
    ) -> None:
        self._run = run
        self._journal = journal
        self._clock = clock
        self._lost = lost
        self._accepted = True
        """Whether the journal accepts writes."""

    def record(self, events: Sequence[AnyRunEvent]) -> None:
        """Write events to the journal, and apply them to the run.

        Raises:
            JournalProblem: the journal cannot be written.
            RunProblem: this process does not own the run any more.
        """
        if events:
            self.check_owned()
        entries = self._journal.append(events) if self._accepted else self._numbered(events)
        for entry in entries:
            self._run.apply(entry)

    def check_owned(self) -> None:
        """Check that this process still owns the run, and that others can see what is done to it.

        Raises:
            RunProblem: another process may own the run, or others may read another journal.
        """
        if reason := self._lost():
            raise RunProblem(
                f"run {self._run.name} is no longer carried on by this process: {reason}"
            )

    def give_up_journal(self) -> None:
        """Only apply events from now on, because the journal cannot be written."""
        self._accepted = False

    def _numbered(self, events: Sequence[AnyRunEvent]) -> list[JournalEntry]:
        now, seq = self._clock.now(), self._run.seq
        return [JournalEntry(seq + n, now, event) for n, event in enumerate(events, start=1)]
