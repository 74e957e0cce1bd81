"""The runs of a recording, put where the view looks for runs: as they were at the moment played."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from ktui.cluster.clock import Clock, SystemClock
from ktui.execution.host.ownership import Holder, Ownership, take
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import JournalEntry
from ktui.execution.run.run import Run
from ktui.tui.replay.recorded_run import RecordedRun


class _Staged(msgspec.Struct):
    """A run that is on the stage."""

    folder: RunDir
    journal: Journal
    written: list[JournalEntry]
    ownership: Ownership | None = None


class RunStage:
    """Writes runs into a state directory of its own, and owns those that were owned.

    Args:
        folder: empty, and its caller's to delete.
    """

    def __init__(self, folder: Path) -> None:
        self.state_dir = StateDir(folder)
        self._clock: Clock = SystemClock()
        self._staged: dict[str, _Staged] = {}

    def show(self, runs: Iterable[RecordedRun]) -> RunDir | None:
        """Put runs on the stage as they are, and no others; give the one that began last.

        Raises:
            RunProblem: the disk does not let it.
        """
        begun = {each.name: each for each in runs if each.begun}
        for name in self._staged.keys() - begun.keys():
            self._leave(name)
        for name, each in begun.items():
            self._put(self._staged.get(name), each)
        last = max(begun.values(), key=lambda each: each.entries[0].at, default=None)
        return None if last is None else self._staged[last.name].folder

    def close(self) -> None:
        """Let go of everything; the folder stays."""
        for staged in self._staged.values():
            _let_go(staged)
        self._staged.clear()

    def _put(self, staged: _Staged | None, run: RecordedRun) -> None:
        if staged is None:
            folder = self.state_dir.create_run(run.name)
            staged = _Staged(folder, Journal.create(folder.journal, self._clock), [])
            self._staged[run.name] = staged
        elif not _goes_on(staged.written, run.entries):
            staged.journal.close()
            staged.journal = Journal.create_anew(staged.folder.journal, self._clock)
            staged.written = []
        new = run.entries[len(staged.written) :]
        staged.journal.copy(new)
        staged.written.extend(new)
        _own(staged, run)

    def _leave(self, name: str) -> None:
        """Take a run off the stage: at the moment played, it has not begun yet."""
        staged = self._staged.pop(name)
        _let_go(staged)
        for file in staged.folder.path.iterdir():
            file.unlink()
        staged.folder.path.rmdir()


def _goes_on(written: list[JournalEntry], entries: list[JournalEntry]) -> bool:
    """Whether what is written is the beginning of what is to be; entries are never changed."""
    count = len(written)
    return count <= len(entries) and (not count or written[-1] == entries[count - 1])


def _own(staged: _Staged, run: RecordedRun) -> None:
    if run.owned and staged.ownership is None:
        staged.ownership = take(staged.folder, _owner(run.run))
    elif not run.owned and staged.ownership is not None:
        staged.ownership.release()
        staged.ownership = None


def _owner(run: Run) -> Holder | None:
    owner = run.owner
    return None if owner is None else Holder(owner.pid, owner.host, owner.user, owner.since)


def _let_go(staged: _Staged) -> None:
    staged.journal.close()
    if staged.ownership is not None:
        staged.ownership.release()
