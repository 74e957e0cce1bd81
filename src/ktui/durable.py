"""Files and folders that survive a power cut, what may be written where, and regular files only.

Every file that a person names is written by one rule: links are followed, a regular file or a new
name is replaced atomically, and named pipes, character devices and the process's own streams are
written through. Anything else is refused: a rename would remove it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

_OWN_STREAM = re.compile(r"/(?:dev|proc/self)/fd/([0-9]{1,9})")
"""A descriptor of this process: what `/dev/stdout` leads to, and what a shell makes of `>(...)`."""
_MOST_LINKS = 40  # the kernel follows no more links either
_REFUSED = (
    (stat.S_ISDIR, "it is a folder. Name a file in it"),
    (stat.S_ISBLK, "it is a block device. Name a regular file or a named pipe"),
    (stat.S_ISSOCK, "it is a socket. Name a regular file or a named pipe"),
)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the names of new files in it survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # not every file system can sync a folder
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create a folder and missing parents, accessible to the owner only (mode 0700)."""
    missing = [folder]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for each in reversed(missing):
        try:
            each.mkdir(mode=0o700)
        except FileExistsError:
            if not each.is_dir():
                raise
        else:
            each.chmod(0o700)  # the umask may have removed the owner's own permissions
            sync_folder(each.parent)


def copy_new(source: int, path: Path) -> None:
    """Copy an open file, from its present position, to a new path of mode 0600, whole or not."""
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as new:
        try:
            with os.fdopen(os.dup(source), "rb") as old:
                shutil.copyfileobj(old, new)
            new.flush()
            os.fsync(new.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    sync_folder(path.parent)


class Place(NamedTuple):
    """Where a file goes that a person names."""

    path: Path  # with links followed, where they lead to a regular file
    old: os.stat_result | None = None
    is_stream: bool = False  # whether it is written through, and not replaced
    own_stream: int | None = None  # the descriptor, where it is a stream of this process

    @contextlib.contextmanager
    def stream(self) -> Iterator[BinaryIO]:
        """Open a stream for writing; a named pipe is waited for until somebody reads it."""
        if self.own_stream is not None:  # opening it by name would begin a regular file anew
            descriptor = os.dup(self.own_stream)
        else:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(descriptor, "wb") as file:
            if self.own_stream is None and not _is_stream(os.fstat(descriptor)):
                raise OSError(errno.EINVAL, "it was replaced just now. Try again", str(self.path))
            yield file


def find_place(path: Path) -> Place:
    """Find out how a file that a person names is written; an OSError has the reason and the fix."""
    own = _own_stream(path)
    if own is not None:
        os.fstat(own)  # a closed one raises
        return Place(path, is_stream=True, own_stream=own)
    try:
        status = path.stat()
    except FileNotFoundError:
        return Place(_new(path))
    return Place(path, is_stream=True) if _is_stream(status) else Place(_old(path, status), status)


def write_output(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Write a file that a person has named: through a stream, else as `write_whole` does."""
    place = find_place(path)
    if not place.is_stream:
        _replace(place, content, mode)
        return
    with place.stream() as file:
        file.write(content)


def write_whole(path: Path, content: bytes, *, mode: int | None = 0o600) -> None:
    """Replace a regular file atomically, or make a new one; no part remains after an OSError.

    Several processes may do this at once: each writes its own temporary file, and the last rename
    wins. `mode` None keeps that of the old file, or follows the umask.
    """
    place = find_place(path)
    if place.is_stream:
        raise _irregular(path)
    _replace(place, content, mode)


def check_replaceable(path: Path) -> None:
    """Raise OSError unless a rename onto ktui's own path replaces a regular file, or nothing."""
    if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
        raise _irregular(path)


_LONGEST_NOTE = 1 << 20  # the most bytes of a note that are read; ktui writes none that is longer


def open_regular(path: Path, flags: int) -> int:
    """Open a regular file, no link, without blocking, closed in children, new: 0600; OSError."""
    try:
        file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link. Remove it", str(path)) from None
        if error.errno == errno.ENXIO:  # a pipe that nobody reads
            raise _irregular(path) from None
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise _irregular(path)
    return file


def read_note(path: Path) -> bytes:
    """Return a small file's content, up to a MiB. OSError: unreadable, or not regular."""
    with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        return file.read(_LONGEST_NOTE)


def check_regular(path: Path) -> None:
    """Check that a path is a regular file, or a link to one; else OSError."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise _irregular(path)


def _irregular(path: Path) -> OSError:
    """A pipe, a folder or a device in a file's place: reading a pipe would never end."""
    return OSError(errno.EINVAL, "it is not a regular file. Remove it, or move it away", str(path))


def _replace(place: Place, content: bytes, mode: int | None) -> None:
    path, old = place.path, place.old
    beside = path.with_name(f".ktui-{secrets.token_hex(8)}.tmp")
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        file = os.open(beside, flags, 0o666 if mode is None else 0o600)
        try:
            with os.fdopen(file, "wb") as new:
                if old is not None and mode is None:  # with a mode of its own, the file is ours
                    with contextlib.suppress(OSError):  # only root may give a file away
                        os.fchown(file, old.st_uid, old.st_gid)
                    mode = stat.S_IMODE(old.st_mode)
                if mode is not None:
                    os.fchmod(file, mode)
                new.write(content)
                new.flush()
                os.fsync(file)
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _own_stream(path: Path) -> int | None:
    for _ in range(_MOST_LINKS):
        match = _OWN_STREAM.fullmatch(os.path.abspath(path))  # noqa: PTH100 - keeps the links
        if match is not None:
            return int(match[1])
        if not path.is_symlink():
            return None
        path = path.parent / path.readlink()
    return None


def _is_stream(status: os.stat_result) -> bool:
    return stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode)


def _old(path: Path, status: os.stat_result) -> Path:
    for is_kind, words in _REFUSED:
        if is_kind(status.st_mode):
            raise OSError(errno.EINVAL, words, str(path))
    if not os.access(path, os.W_OK):
        raise OSError(errno.EACCES, "you may not write to it. Name another file", str(path))
    return _in_folder(Path(os.path.realpath(path)))


def _new(path: Path) -> Path:
    if path.is_symlink():
        words = f"it is a link to nowhere ({path.readlink()}). Remove the link"
        raise OSError(errno.ENOENT, words, str(path))
    if not path.parent.is_dir():
        words = f"there is no folder {path.absolute().parent}. Make it first"
        raise OSError(errno.ENOENT, words, str(path))
    return _in_folder(path)


def _in_folder(path: Path) -> Path:
    if not os.access(path.parent, os.W_OK | os.X_OK):
        words = f"you may not write to its folder {path.absolute().parent}. Name another one"
        raise OSError(errno.EACCES, words, str(path))
    return path
