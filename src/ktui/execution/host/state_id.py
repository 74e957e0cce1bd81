"""The random id of a state directory, by which the cluster knows its owner.

The id is bound to the inode of its file. A copy of the directory gets another id, because it is
another owner.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ktui.durable import sync_folder
from ktui.execution.host.state_dir import StateDir, StateDirProblem
from ktui.execution.regular_files import open_regular

_BYTES = 16
_MOST_BYTES = 4096


class _Id(msgspec.Struct):
    """The contents of the file."""

    id: str
    inode: int
    """The inode of the file itself."""


def read_id(state: StateDir) -> str | None:
    """Return the id of a state directory; None if it has none yet. Nothing is created.

    Raises:
        StateDirProblem: the file of the id cannot be read.
    """
    path = state.id_file
    try:
        file = open_regular(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StateDirProblem(f"{path}: cannot be read: {error.strerror}") from None
    try:
        found = msgspec.json.decode(os.read(file, _MOST_BYTES), type=_Id)
        return found.id if found.inode == os.fstat(file).st_ino else None
    except msgspec.DecodeError:
        return None
    finally:
        os.close(file)


def ensure_id(state: StateDir) -> str:
    """Return the id of a state directory, and create one if it has none of its own yet.

    Raises:
        StateDirProblem: the state directory cannot be used.
    """
    if (known := read_id(state)) is not None:
        return known
    state.check()
    state.make(state.path)
    try:
        with _exclusive(state.path):
            return read_id(state) or _make_id(state.id_file)
    except OSError as error:
        raise StateDirProblem(f"{state.id_file}: cannot be made: {error.strerror}") from None


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Keep other processes from making an id for the same folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make_id(path: Path) -> str:
    """Put a new id in place, as a whole file."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    beside.unlink(missing_ok=True)
    file = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        new = _Id(secrets.token_hex(_BYTES), os.fstat(file).st_ino)
        with os.fdopen(file, "wb") as content:
            content.write(msgspec.json.encode(new) + b"\n")
            content.flush()
            os.fsync(content.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    sync_folder(path.parent)
    return new.id
