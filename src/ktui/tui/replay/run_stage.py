"""The run of a recording, as it was at the moment played."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from ktui.cluster.clock import Clock, SystemClock
from ktui.execution.host.ownership import Holder, Ownership, own_run
from ktui.execution.host.state_dir import RunDir, StateDir, run_name_problem
from ktui.execution.journal.journal import Journal
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


class _Staged(msgspec.Struct):
    folder: RunDir
    journal: Journal
    written: list[JournalEntry]
    ownership: Ownership | None = None


class RunStage:
    """Writes runs into a state directory of its own, and owns those that were owned.

    Args:
        folder: an empty folder, which the caller deletes.
    """

    def __init__(self, folder: Path) -> None:
        self.state_dir = StateDir(folder)
        self._clock: Clock = SystemClock()
        self._runs: dict[str, _Staged] = {}

    def show(self, runs: Iterable[RecordedRun]) -> RunDir | None:
        """Write these runs as they are, and remove all others.

        Returns:
            The folder of the run that began last; None where no run has begun.

        Raises:
            RunProblem: the folder cannot be written.
        """
        begun = {each.name: each for each in runs if each.begun}
        for name in self._runs.keys() - begun.keys():
            self._remove(name)
        for name, each in begun.items():
            self._put(self._runs.get(name), each)
        last = max(begun.values(), key=lambda each: each.entries[0].at, default=None)
        return None if last is None else self._runs[last.name].folder

    def close(self) -> None:
        """Close all journals, and release all runs; the folder stays."""
        for staged in self._runs.values():
            _release(staged)
        self._runs.clear()

    def _put(self, staged: _Staged | None, run: RecordedRun) -> None:
        if staged is None:
            folder = self.state_dir.create_run(run.name)
            staged = _Staged(folder, Journal.create(folder.journal, self._clock), [])
            self._runs[run.name] = staged
        elif not _continues(staged.written, run.entries):
            staged.journal.close()
            staged.journal = Journal.create_replacement(staged.folder.journal, self._clock)
            staged.written = []
        new = run.entries[len(staged.written) :]
        staged.journal.copy(new)
        staged.written.extend(new)
        _own(staged, run)

    def _remove(self, name: str) -> None:
        """Remove a run that has not begun yet at the moment played."""
        staged = self._runs.pop(name)
        _release(staged)
        for file in staged.folder.path.iterdir():
            file.unlink()
        staged.folder.path.rmdir()


def _continues(written: list[JournalEntry], entries: list[JournalEntry]) -> bool:
    """Whether the entries continue those that are written; entries are never changed."""
    count = len(written)
    return count <= len(entries) and (not count or written[-1] == entries[count - 1])


def _own(staged: _Staged, run: RecordedRun) -> None:
    if run.owned and staged.ownership is None:
        staged.ownership = own_run(staged.folder, _owner(run.run))
    elif not run.owned and staged.ownership is not None:
        staged.ownership.release()
        staged.ownership = None


def _owner(run: Run) -> Holder | None:
    owner = run.owner
    return None if owner is None else Holder(owner.pid, owner.host, owner.user, owner.since)


def _release(staged: _Staged) -> None:
    staged.journal.close()
    if staged.ownership is not None:
        staged.ownership.release()
