"""Export and import of a run: its journal moves to another state directory in a file.

The file is a journal of its own. Its last event is the export of the run. So neither a journal that
was merely copied nor a truncated one counts as an export.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.text import clean
from ktui.durable import copy_new, find_place, open_regular, sync_folder
from ktui.execution import JournalProblem, RunProblem, RunRefused
from ktui.execution.host.launch import rewrite_rollback
from ktui.execution.host.ownership import own_run, this_process
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.file import check_foreign, sqlite_side_files, tail_marker_path
from ktui.execution.journal.journal import Journal, RunFollower
from ktui.execution.run.events import Exported, Imported, JournalEntry, Started
from ktui.execution.run.run import Run

_CHUNK = 5_000
_COPIES = ".import-"
_STALE_S = 86_400.0  # seconds until a copy was left by a killed import
_SQLITE = b"SQLite format 3\0"
_FREE = 256 << 20  # disk space that an import leaves for the runs of the state directory


class Export(msgspec.Struct, frozen=True):
    """An exported run, as it was read from a file."""

    run: Run
    begun: Started
    exported: Exported
    journal: Path  # a copy of the file, in the state directory that is to have the run


def refuse_exported(run: Run) -> None:
    """Check that a run goes on here. Raises RunRefused: it was exported."""
    if run.exported is not None:
        file = clean(run.exported.file)
        raise RunRefused(
            f"run {run.name} was exported to {file}, and goes on where that is imported. If it was "
            f"imported nowhere, take it back: ktui runs import {file}. If that file is lost, write "
            f"it again: ktui runs export {run.name} FILE"
        )


def export_run(run_dir: RunDir, file: Path, clock: Clock) -> Run:
    """Export a run to a new file or a stream; it then belongs to whoever imports it.

    The run is given up before the file exists. If that cannot be written, or is lost later, the
    export can be repeated. Raises OwnedElsewhere; RunRefused: it has ended, or was cut off;
    RunProblem: a damaged journal, or no file.
    """
    with own_run(run_dir) as owned, Journal.open(run_dir.journal, clock) as journal:
        run = _read_whole(run_dir, journal)
        _check_place(file)
        if run.exported is None:
            me = owned.holder
            to = clean(str(file.absolute()))
            event = Exported(run=run_dir.name, file=to, host=me.host, user=me.user)
            run.fold(journal.append([event]))
        _write(run_dir, journal, file, clock)
    return run


@contextmanager
def open_export(state: StateDir, file: Path, clock: Clock) -> Iterator[Export]:
    """Yield an export, with a copy of the file meanwhile. RunProblem: unreadable, or no export."""
    state.check()
    state.make(state.path)
    folder = Path(tempfile.mkdtemp(prefix=_COPIES, dir=state.path))
    try:
        _remove_stale(state)
        journal = folder / "journal.db"
        _copy(file, journal)
        yield _read(file, journal, clock)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_import(state: StateDir, export: Export, name: str, clock: Clock) -> None:
    """Check a name before a cluster is taken over. RunRefused: bad, taken, or imported."""
    run_dir = state.run(name)
    if run_dir.path.exists() and not _is_cut_off(run_dir):
        _check_extends(run_dir, export, clock)
    with Journal.open(export.journal, clock, read_only=True) as journal:
        first = journal.first()
    for other in state.run_dirs():
        if other.name != name and _is_here(other, first, clock):
            raise RunRefused(
                f"run {other.name} is the run in this file, and is here already. Go on with it: "
                f"ktui resume {other.name}; or see what became of it: ktui status {other.name}"
            )


def import_run(
    state: StateDir, export: Export, name: str, connection: Mapping[str, str], clock: Clock
) -> RunDir:
    """Import a run into a state directory; `connection` names the cluster from now on.

    A run of that name is replaced if it was exported from here and the file has all that it has.
    Raises RunRefused: another run has the name; RunProblem: it cannot be written.
    """
    run_dir = state.run(name)
    if run_dir.path.exists() and not _is_cut_off(run_dir):
        with own_run(run_dir):
            _check_extends(run_dir, export, clock)
            _put_into(run_dir, export, connection, clock)
        return run_dir
    if not run_dir.path.exists():
        state.create_run(name)
    try:
        _put_into(run_dir, export, connection, clock)
    except BaseException:
        shutil.rmtree(run_dir.path, ignore_errors=True)
        raise
    return run_dir


def _remove_stale(state: StateDir) -> None:
    for each in state.path.glob(f"{_COPIES}*"):
        with suppress(OSError):
            if time.time() - each.stat().st_mtime > _STALE_S:
                shutil.rmtree(each, ignore_errors=True)


def _read_whole(run_dir: RunDir, journal: Journal) -> Run:
    run = Run(run_dir.name).fold(journal.entries())
    if journal.damage is not None:
        fix = f"`ktui resume {run_dir.name}` recovers what is whole"
        raise JournalProblem(f"{journal.damage}. {fix}")
    if not run.complete:
        raise RunRefused(f"{journal.path}: the start of the run was cut off: nothing was sent")
    if run.ended:
        raise RunRefused(f"run {run.name} has ended. Nothing of it is left to do elsewhere")
    return run


def _write(run_dir: RunDir, journal: Journal, file: Path, clock: Clock) -> None:
    """Next to the journal, on a disk that has room for one, then copy it."""
    building = run_dir.path / "export.db"
    try:
        _remove(building)
        with Journal.create(building, clock) as new:
            _copy_into(new, journal)
        source = open_regular(building, os.O_RDONLY)
        try:
            _copy_out(source, file)
        finally:
            os.close(source)
    except FileExistsError:
        raise RunProblem(f"{clean(str(file))}: exists already. Name another file") from None
    except OSError as error:
        raise RunProblem(f"{clean(str(file))}: cannot be written: {error.strerror}") from None
    finally:
        _remove(building)


def _copy_out(source: int, file: Path) -> None:
    place = find_place(file)
    if not place.is_stream:
        copy_new(source, file)
        return
    with os.fdopen(os.dup(source), "rb") as old, place.stream() as stream:
        shutil.copyfileobj(old, stream)


def _check_place(file: Path) -> None:
    try:
        place = find_place(file)
        if place.old is not None:
            raise RunProblem(f"{clean(str(file))}: exists already. Name another file")
        if not place.is_stream:
            with tempfile.TemporaryFile(dir=file.absolute().parent):
                pass
    except OSError as error:
        raise RunProblem(
            f"{clean(str(file))}: cannot be written: {error.strerror}. Name another file; run and "
            "cluster stay as they are"
        ) from None


def _copy_into(new: Journal, journal: Journal) -> None:
    """With the commands that are not answered yet."""
    entries = journal.entries()
    while chunk := list(islice(entries, _CHUNK)):
        new.copy(chunk)
    for asked in journal.asked():
        if asked.command is not None:  # no engine of this version would carry it out
            new.ask(asked.command, asked.who)


def _remove(journal: Path) -> None:
    for each in (journal, tail_marker_path(journal), *sqlite_side_files(journal)):
        each.unlink(missing_ok=True)


def _copy(file: Path, journal: Path) -> None:
    where = clean(str(file))
    try:
        source = open_regular(file.resolve(), os.O_RDONLY)
        try:
            if os.pread(source, len(_SQLITE), 0) != _SQLITE:
                raise RunProblem(
                    f"{where}: is not an exported run. Export one: ktui runs export RUN FILE"
                )
            if shutil.disk_usage(journal.parent).free < 2 * os.fstat(source).st_size + _FREE:
                raise RunProblem(
                    f"{where}: there is no room for two copies of it in {journal.parent.parent}, "
                    "beside what the runs need. Make room on that disk"
                )
            copy_new(source, journal)
        finally:
            os.close(source)
    except OSError as error:
        raise RunProblem(f"{where}: cannot be read: {error.strerror}") from None


def _read(file: Path, journal: Path, clock: Clock) -> Export:
    where = clean(str(file))
    last: JournalEntry | None = None
    try:
        check_foreign(journal)
    except JournalProblem as problem:
        raise RunProblem(
            f"{_name_file(problem, journal, where)}. Copy the file again, or export the run again: "
            "ktui runs export RUN FILE"
        ) from None
    try:
        with RunFollower(journal, clock) as follower:
            last = next(iter(follower.refresh()[-1:]), None)
    except JournalProblem as problem:
        raise RunProblem(_name_file(problem, journal, where)) from None
    run = follower.run
    if follower.damage is not None:
        raise RunProblem(f"{_name_file(follower.damage, journal, where)}. Copy the file again")
    exported = last.event if last is not None else None
    if run.started is None or not run.complete or not isinstance(exported, Exported):
        raise RunProblem(
            f"{where}: is the journal of a run that was not exported, or is cut short. Export the "
            f"run from the state directory that has it: ktui runs export RUN FILE"
        )
    return Export(run, run.started, exported, journal)


def _name_file(words: object, journal: Path, where: str) -> str:
    return str(words).replace(str(journal), where)


def _is_cut_off(run_dir: RunDir) -> bool:
    """A killed import left this folder: it is empty."""
    return not any(run_dir.path.iterdir())


def _is_here(run_dir: RunDir, first: JournalEntry | None, clock: Clock) -> bool:
    try:
        with Journal.open(run_dir.journal, clock, read_only=True) as journal:
            if journal.first() != first:
                return False
            last = journal.last()
    except RunProblem:
        return False
    return last is None or not isinstance(last.event, Exported)


def _check_extends(run_dir: RunDir, export: Export, clock: Clock) -> None:
    with (
        Journal.open(run_dir.journal, clock) as here,  # closing it empties its write-ahead log
        Journal.open(export.journal, clock, read_only=True) as there,
    ):
        same, last, theirs = True, None, there.entries()
        for last in here.entries():
            same = same and last == next(theirs, None)
        whole = same and here.damage is None and there.damage is None
    if not (whole and last is not None and isinstance(last.event, Exported)):
        raise RunRefused(
            f"run {run_dir.name} is here already, and this file does not continue it. "
            "Import it under another name: --name NAME"
        )


def _put_into(run_dir: RunDir, export: Export, connection: Mapping[str, str], clock: Clock) -> None:
    """Into a new journal: nothing else in a file from elsewhere is taken over."""
    me = this_process()
    event = Imported(host=me.host, user=me.user, connection=dict(connection))
    new = export.journal.with_name("imported.db")
    try:
        with (
            Journal.open(export.journal, clock, read_only=True) as exported,
            Journal.create(new, clock) as journal,
        ):
            _copy_into(journal, exported)
            journal.append([event])
        for stale in (tail_marker_path(run_dir.journal), *sqlite_side_files(run_dir.journal)):
            stale.unlink(missing_ok=True)
        new.replace(run_dir.journal)
        with suppress(FileNotFoundError):
            tail_marker_path(new).replace(tail_marker_path(run_dir.journal))
        sync_folder(run_dir.path)
    except OSError as error:
        raise RunProblem(f"{run_dir.journal}: cannot be written: {error.strerror}") from None
    rewrite_rollback(run_dir)
