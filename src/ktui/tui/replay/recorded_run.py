"""A run rebuilt from a recording, event by event."""

from __future__ import annotations

import msgspec

from ktui.execution.host.state_dir import run_name_problem
from ktui.execution.run.events import JournalEntry, decode
from ktui.execution.run.run import Run
from ktui.recording.lines import RunLine, from_wall_ms


class RecordedRun:
    """One run, as far as its events have been played.

    The run is followed from its first event on, or not at all.

    Args:
        name: the run's name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.run = Run(name)
        self.entries: list[JournalEntry] = []
        self.problem = run_name_problem(name)
        """Why the run is not followed any further; None while it is."""

    @property
    def begun(self) -> bool:
        """Whether there is anything of the run to show."""
        return self.run.started is not None

    @property
    def owned(self) -> bool:
        """Whether an engine owned the run, or was just being started for it."""
        return self.run.left is None and not self.run.ended

    def take(self, line: RunLine) -> JournalEntry | None:
        """Apply an event, and return it.

        Returns:
            The event; None where it is not new, or where events before it are missing.
        """
        if self.problem is not None or line.entry <= self.run.seq:
            return None
        if line.entry > self.run.seq + 1:
            missing = f"events {self.run.seq + 1} to {line.entry - 1}"
            self.problem = f"{missing} of run {self.name} are not in the recording"
            return None
        try:
            entry = JournalEntry(line.entry, from_wall_ms(line.at), decode(bytes(line.event)))
            self.run.apply(entry)
        except (msgspec.MsgspecError, LookupError) as error:
            what = f"event {line.entry} of run {self.name}"
            self.problem = f"{what} is none that this ktui can follow: {error}"
            return None
        self.entries.append(entry)
        return entry
