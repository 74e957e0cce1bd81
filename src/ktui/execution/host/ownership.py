"""Who owns a run, by an OS lock that the kernel releases, and the cancel gate of a cluster.

The gate (KIP-236's reassign_cancel) is a file in the state directory: while shut, nothing new is
submitted. So it binds every process that uses that directory, and outlives them all. Cancels and
rollbacks pass the gate.
"""

from __future__ import annotations

import errno
import fcntl
import getpass
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Self

import msgspec

from ktui.cluster.clock import SystemClock
from ktui.cluster.text import clean
from ktui.durable import open_regular
from ktui.execution import RunProblem, RunRefused
from ktui.execution.host.state_dir import NoteFile, RunDir, StateDir, refuse_network
from ktui.execution.journal.file import sqlite_side_files
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import Started
from ktui.json_text import Dated, decode_untrusted

_PATIENCE_S = 0.5  # until a lock counts as held: who asks for the holder also locks for a moment
_START_PATIENCE_S = 30.0
_RETRY_S = 0.02
_MOST_BYTES = 4096
_WHILE = "while this process owned the run: another one may own it now"


class Holder(Dated, frozen=True):
    """The process that holds a lock."""

    pid: int
    host: str
    user: str
    since: datetime  # aware, UTC

    def __str__(self) -> str:
        since = self.since.astimezone().isoformat(" ", timespec="seconds")
        return f"process {self.pid} of {self.user} on {self.host}, since {since}"

    @property
    def short(self) -> str:
        return f"{self.user}@{self.host} ({self.pid})"


_HOLDERS = msgspec.json.Decoder(Holder)


class OwnedElsewhere(RunRefused):
    """Another process owns the run."""

    def __init__(self, run: str, holder: Holder) -> None:
        self.run = run
        self.holder = holder
        super().__init__(f"run {run} is owned by {holder}. See it with: ktui status {run}")


class LiveRun(msgspec.Struct, frozen=True):
    """A run that a process owns."""

    name: str
    holder: Holder


class Ownership:
    """A run's lock, until released or the process ends; its children do not inherit it."""

    def __init__(self, run: RunDir, lock: int, holder: Holder) -> None:
        self.run = run
        self.holder = holder
        self._lock: int | None = lock
        self._seen = {run.lock: _identity(os.fstat(lock)), run.path: _identity(run.path.stat())}
        self._watch(run.journal)

    def watch_journal(self) -> None:
        """Remember its files, for `lost`; once it is open, for a damaged one is replaced before."""
        self._watch(self.run.journal)
        self._watch(sqlite_side_files(self.run.journal)[0])

    def lost(self) -> str | None:
        """What was removed or replaced; then send nothing more: another process may own the run."""
        for path, seen in self._seen.items():
            try:
                same = _identity(path.stat()) == seen
            except (FileNotFoundError, NotADirectoryError):
                return f"{path} was removed or renamed {_WHILE}"
            except OSError as error:
                return f"{path} cannot be seen any more, {error.strerror}, {_WHILE}"
            if not same:
                return f"{path} was replaced {_WHILE}"
        return None

    def _watch(self, path: Path) -> None:
        with suppress(FileNotFoundError):
            self._seen[path] = _identity(path.stat())

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def this_process() -> Holder:
    """Return this process as a holder, from now on."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user id without a name
        user = str(os.getuid())
    return Holder(os.getpid(), socket.gethostname(), user, SystemClock().now())


def own_run(run: RunDir, me: Holder | None = None) -> Ownership:
    """Lock a run for this process. Raises OwnedElsewhere, or RunProblem: unusable lock."""
    refuse_network(run.path)
    state_dir = StateDir(run.path.parent.parent)
    state_dir.check()
    state_dir.make(run.lock.parent)
    lock = _lock_or_refuse(run)
    try:
        me = me or this_process()
        note = msgspec.json.encode(me) + b"\n"
        os.pwrite(lock, note, 0)
        os.ftruncate(lock, len(note))
        return Ownership(run, lock, me)
    except BaseException as error:
        os.close(lock)
        if isinstance(error, OSError):
            raise RunProblem(f"{run.path}: cannot be owned: {error.strerror}") from None
        raise


def holder(run: RunDir) -> Holder | None:
    """Return the owner, whatever the file contains. RunProblem: unreadable, or nameless."""
    path = run.lock
    try:
        file = open_regular(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # no run can have this name, so it was never locked
            return None
        raise RunProblem(f"{path}: cannot be read: {error.strerror}") from None
    try:
        return _holder(file, path)
    finally:
        os.close(file)


def live_runs(state_dir: StateDir, cluster_id: str) -> list[LiveRun]:
    """Return owned runs of a cluster, or of an unknown one. RunProblem: a lock is not readable."""
    folders = [*state_dir.run_dirs(), *state_dir.removed_runs()]
    held = [(run, holder(run)) for run in folders]
    return [
        LiveRun(run.name, owner)
        for run, owner in held
        if owner is not None and _cluster_of(run) in (cluster_id, None)
    ]


@contextmanager
def lock_starts(state_dir: StateDir, cluster_id: str) -> Iterator[list[LiveRun]]:
    """Let nobody else start on the cluster until the block has its run owned. RunProblem."""
    state_dir.check()
    state_dir.make(state_dir.locks)
    path = state_dir.locks / f"{sha256(cluster_id.encode()).hexdigest()[:32]}.lock"
    file = lock_file(path, _START_PATIENCE_S)
    if file is None:
        raise RunProblem(
            "another run is being started on this cluster, and has taken more than "
            f"{_START_PATIENCE_S:.0f} s. See which: ktui runs"
        )
    try:
        yield live_runs(state_dir, cluster_id)
    finally:
        os.close(file)


def _lock_or_refuse(run: RunDir) -> int:
    while (file := lock_file(run.lock, _PATIENCE_S)) is None:
        other = holder(run)
        if other is not None:
            raise OwnedElsewhere(run.name, other)
    return file


def lock_file(path: Path, patience_s: float) -> int | None:
    """Open a file and lock it exclusively; None if someone else keeps it locked."""
    until = time.monotonic() + patience_s
    while True:
        try:
            file = open_regular(path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise RunProblem(f"{path}: cannot be opened: {error.strerror}") from None
        while not _try_lock(file, fcntl.LOCK_EX):
            if time.monotonic() >= until:
                os.close(file)
                return None
            time.sleep(_RETRY_S)
        if _is_same_file(path, file):
            return file
        os.close(file)


def _is_same_file(path: Path, file: int) -> bool:
    try:
        return _identity(path.stat()) == _identity(os.fstat(file))
    except OSError:
        return False


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _try_lock(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(file: int, path: Path) -> Holder | None:
    until = time.monotonic() + _PATIENCE_S
    while not _try_lock(file, fcntl.LOCK_SH):
        note = os.pread(file, _MOST_BYTES, 0).split(b"\n")[0]
        try:
            return decode_untrusted(_HOLDERS, note)
        except msgspec.DecodeError:  # it has just been locked, and is not written yet
            if time.monotonic() >= until:
                raise RunProblem(
                    f"{path}: is locked by a process that does not name itself"
                ) from None
            time.sleep(_RETRY_S)
    return None


def _cluster_of(run: RunDir) -> str | None:
    try:
        with Journal.open(run.journal, SystemClock(), read_only=True) as journal:
            first = journal.first()
    except RunProblem:
        return None
    event = None if first is None else first.event
    return event.cluster_id if isinstance(event, Started) else None


class ShutGate(Dated, frozen=True):
    """Who shut the gate of a cluster, when, and why."""

    cluster_id: str
    at: datetime
    who: str  # user@host (pid)
    reason: str  # what was cancelled

    @property
    def words(self) -> str:
        at = self.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        return clean(f"{self.who} at {at}, to {self.reason}")


class CancelGateFile:
    """The cancel gate of one cluster."""

    def __init__(self, folder: StateDir, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self.path = path = folder.cluster_note("gates", cluster_id)
        self._file = NoteFile[ShutGate](folder, path, ShutGate, self._problem)

    def shut(self, at: datetime, who: str, reason: str) -> ShutGate:
        """A gate that is shut already now names this operator. Raises RunRefused: not writable."""
        shut = ShutGate(self._cluster_id, at, who, reason)
        self._file.save(shut)
        return shut

    def open(self) -> ShutGate | None:
        """Return who had shut it. Raises RunRefused: the file cannot be removed."""
        before = self.state()
        if before is not None:
            self._file.delete()
        return before

    def state(self) -> ShutGate | None:
        """None while it is open; unreadable counts as shut. Raises RunRefused."""
        try:
            return self._file.load()
        except msgspec.DecodeError:
            with suppress(FileNotFoundError):  # it was opened just now
                at = datetime.fromtimestamp(self.path.stat().st_mtime).astimezone()
                why = f"cancel something: {self.path} cannot be read"
                return ShutGate(self._cluster_id, at, "someone", why)
        return None

    def _problem(self, what: str) -> RunRefused:
        return RunRefused(f"{self.path}: the cancel gate cannot be {what}")

    def words(self) -> str | None:
        """Who has shut it; for engines, an unreadable gate is shut, for that reason."""
        try:
            shut = self.state()
        except RunRefused as refused:
            return str(refused)
        return None if shut is None else shut.words


def shut_gate_in_words(shut: ShutGate) -> str:
    """Return in words which cluster's gate is shut, and by whom."""
    return f"the cancel gate of cluster {clean(shut.cluster_id)} is shut, by {shut.words}"
