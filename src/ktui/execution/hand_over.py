"""A run that goes on in another state directory: its journal goes there in a file.

The file is a journal of its own. Its last event says that the run was exported, so that a journal
which was merely copied is none, nor one that is cut short.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.text import clean
from ktui.durable import copy_new
from ktui.execution.events import Entry, Exported, Imported, Started
from ktui.execution.follow import RunFollower
from ktui.execution.journal import Journal
from ktui.execution.journal_file import beside
from ktui.execution.journal_head import head_path
from ktui.execution.ownership import take, this_process
from ktui.execution.problem import JournalProblem, RunProblem, RunRefused
from ktui.execution.regular import open_regular
from ktui.execution.rollback_plan import write_rollback_anew
from ktui.execution.run import Run
from ktui.execution.statedir import RunDir, StateDir

_AT_ONCE = 5_000
_SQLITE = b"SQLite format 3\0"


class Export(msgspec.Struct, frozen=True):
    """A run in a file, as it was read."""

    run: Run
    begun: Started
    exported: Exported
    journal: Path
    """A copy of the file, in the state directory that is to have the run."""


def refuse_exported(run: Run) -> None:
    """See that a run goes on here, and not in another state directory.

    Raises:
        RunRefused: it was exported.
    """
    if run.exported is not None:
        file = clean(run.exported.file)
        raise RunRefused(
            f"run {run.name} was exported to {file}, and goes on where that is imported. If it was "
            f"imported nowhere, take it back: ktui runs import {file}"
        )


def export_run(run_dir: RunDir, file: Path, clock: Clock) -> Run:
    """Write a run into a file, and leave it to whoever imports that.

    The run is given up before the file is there. Where the file cannot be written, and for one that
    is lost, this can be done again.

    Args:
        run_dir: the run; no process carries it on.
        file: where nothing is yet.
        clock: the time of the event.

    Returns:
        The run, as it is in the file.

    Raises:
        Held: a process carries it on.
        RunRefused: it has ended, or its start was cut off.
        RunProblem: its journal is damaged, or the file cannot be written.
    """
    with take(run_dir) as owned, Journal.open(run_dir.journal, clock) as journal:
        run = _whole(run_dir, journal)
        if run.exported is None:
            me = owned.holder
            to = clean(str(file.absolute()))
            told = Exported(run=run_dir.name, file=to, host=me.host, user=me.user)
            run.fold(journal.append([told]))
        _write(run_dir, journal, file, clock)
    return run


@contextmanager
def opened(state: StateDir, file: Path, clock: Clock) -> Iterator[Export]:
    """Read a run in a file, of which a copy is kept while the block lasts.

    Raises:
        RunProblem: it cannot be read, is damaged, or is no export of a run.
    """
    state.check()
    state.make(state.path)
    folder = Path(tempfile.mkdtemp(prefix=".import-", dir=state.path))
    try:
        journal = folder / "journal.db"
        _copy(file, journal)
        yield _read(file, journal, clock)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def import_run(
    state: StateDir, export: Export, name: str, connection: Mapping[str, str], clock: Clock
) -> RunDir:
    """Have a run that was read from a file go on in a state directory.

    Args:
        state: the state directory.
        export: the run.
        name: what it is called here. A run of that name is replaced if it was exported from here,
            and the file has all that it has.
        connection: how the cluster is named from now on.
        clock: the time of the event.

    Raises:
        RunRefused: another run has the name.
        RunProblem: it cannot be written.
    """
    if state.run(name).path.exists():
        return _take_back(state.run(name), export, connection, clock)
    run_dir = state.create_run(name)
    try:
        _put_into(run_dir, export, connection, clock)
    except BaseException:
        shutil.rmtree(run_dir.path, ignore_errors=True)
        raise
    return run_dir


def _whole(run_dir: RunDir, journal: Journal) -> Run:
    run = Run(run_dir.name).fold(journal.entries())
    if journal.damage is not None:
        fix = f"`ktui resume {run_dir.name}` recovers what is whole"
        raise JournalProblem(f"{journal.damage}. {fix}")
    if not run.complete:
        raise RunRefused(f"{journal.path}: the start of the run was cut off: nothing was sent")
    if run.ended:
        raise RunRefused(f"run {run.name} has ended: nothing of it is left to go on elsewhere")
    return run


def _write(run_dir: RunDir, journal: Journal, file: Path, clock: Clock) -> None:
    """Build the file beside the journal, on a disk that can hold one, and copy it."""
    building = run_dir.path / "export.db"
    try:
        _remove(building)
        with Journal.create(building, clock) as new:
            entries = journal.entries()
            while some := list(islice(entries, _AT_ONCE)):
                new.copy(some)
        source = open_regular(building, os.O_RDONLY)
        try:
            copy_new(source, file)
        finally:
            os.close(source)
    except FileExistsError:
        raise RunProblem(f"{clean(str(file))}: is there already. Name another file") from None
    except OSError as error:
        raise RunProblem(f"{clean(str(file))}: cannot be written: {error.strerror}") from None
    finally:
        _remove(building)


def _remove(journal: Path) -> None:
    for each in (journal, head_path(journal), *beside(journal)):
        each.unlink(missing_ok=True)


def _copy(file: Path, journal: Path) -> None:
    where = clean(str(file))
    try:
        source = open_regular(file.resolve(), os.O_RDONLY)
        try:
            if os.pread(source, len(_SQLITE), 0) != _SQLITE:
                raise RunProblem(
                    f"{where}: is no exported run. One is written by: ktui runs export"
                )
            copy_new(source, journal)
        finally:
            os.close(source)
    except OSError as error:
        raise RunProblem(f"{where}: cannot be read: {error.strerror}") from None


def _read(file: Path, journal: Path, clock: Clock) -> Export:
    where = clean(str(file))
    last: Entry | None = None
    try:
        with RunFollower(journal, clock) as follower:
            last = next(iter(follower.refresh()[-1:]), None)
    except JournalProblem as problem:
        raise RunProblem(_of_file(problem, journal, where)) from None
    run = follower.run
    if follower.damage is not None:
        raise RunProblem(f"{_of_file(follower.damage, journal, where)}. Copy the file again")
    exported = last.event if last is not None else None
    if run.started is None or not run.complete or not isinstance(exported, Exported):
        raise RunProblem(
            f"{where}: is the journal of a run that was not given up, or is cut short. Have the "
            f"state directory that has the run write it: ktui runs export RUN FILE"
        )
    return Export(run, run.started, exported, journal)


def _of_file(words: object, journal: Path, where: str) -> str:
    """Name the file that was given, and not its copy."""
    return str(words).replace(str(journal), where)


def _take_back(
    run_dir: RunDir, export: Export, connection: Mapping[str, str], clock: Clock
) -> RunDir:
    """Put what became of a run elsewhere in the place of what was exported from here."""
    with take(run_dir):
        if not _goes_on_from(run_dir, export, clock):
            raise RunRefused(
                f"run {run_dir.name} is here already, and is not what this file goes on from. "
                "Import it under another name: --name NAME"
            )
        _put_into(run_dir, export, connection, clock)
    return run_dir


def _goes_on_from(run_dir: RunDir, export: Export, clock: Clock) -> bool:
    """Whether a run was exported, and everything of it is in the file."""
    with (
        Journal.open(run_dir.journal, clock, read_only=True) as here,
        Journal.open(export.journal, clock, read_only=True) as there,
    ):
        last = None
        theirs = there.entries()
        for last in here.entries():
            if last != next(theirs, None):
                return False
        whole = here.damage is None and there.damage is None
        return whole and last is not None and isinstance(last.event, Exported)


def _put_into(run_dir: RunDir, export: Export, connection: Mapping[str, str], clock: Clock) -> None:
    """Move the copy, once it says that it was imported, into the run's folder."""
    me = this_process()
    told = Imported(host=me.host, user=me.user, connection=dict(connection))
    try:
        with Journal.open(export.journal, clock) as journal:
            journal.append([told])
        for stale in (head_path(run_dir.journal), *beside(run_dir.journal)):
            stale.unlink(missing_ok=True)
        export.journal.replace(run_dir.journal)
        with suppress(FileNotFoundError):
            head_path(export.journal).replace(head_path(run_dir.journal))
    except OSError as error:
        raise RunProblem(f"{run_dir.journal}: cannot be written: {error.strerror}") from None
    write_rollback_anew(run_dir)
