"""Files that people write: read once, with problems that name the file, the place and a fix."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


class FileProblem(Exception):
    """A file that a person wrote cannot be used; the message names the place and the fix."""

    def __init__(self, path: Path, line: int | None, problem: str) -> None:
        self.path = path
        self.line = line
        self.problem = problem
        place = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{place}: {problem}")


def unknown_key(key: str, known: Iterable[str]) -> str:
    """Describe an unknown key: with the closest known key, else with all known keys."""
    import difflib  # noqa: PLC0415 - slow to import, and only a mistake needs it

    known = sorted(known)
    closest = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {closest[0]!r}?" if closest else f"known keys: {', '.join(known)}"
    return f"unknown key {key!r}; {hint}"


MOST_BYTES = 1024**2  # most bytes read of a file with settings, secrets, a story or a theme

_OPEN_ALREADY = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Paths of a shell's `<(...)` and of standard input: pipes that have a writer, so reading ends."""

_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


class Unreadable(Exception):
    """A file cannot be read; the message is a reason to put after the file's name."""


class TooLarge(Unreadable):
    """A file is larger than the limit."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"it is larger than {most_bytes // 1024**2} MiB, the limit")


def read_input(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """Read a whole regular file of at most `most_bytes`, or raise Unreadable."""
    with open_input(path, most_bytes) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise TooLarge(most_bytes)
    return data


def read_pipe(path: Path, most_bytes: int) -> bytes:
    """Read a named pipe until its writer closes it, or a byte more than `most_bytes`."""
    try:
        with path.open("rb") as pipe:
            return pipe.read(most_bytes + 1)
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from None


def expand_home(path: Path | str) -> Path:
    """Expand `~` and `~ada` in a path as a shell does; Unreadable without such a user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise Unreadable(f"there is no home folder {Path(path).parts[0]}") from None


@contextmanager
def open_input(path: Path, most_bytes: int) -> Iterator[BinaryIO]:
    """Open a file for reading bytes; an OSError or ValueError within becomes Unreadable."""
    try:
        # Without O_NONBLOCK, opening a named pipe waits for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            _check(path, os.fstat(descriptor), most_bytes)
            os.set_blocking(descriptor, True)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                yield file
        finally:
            os.close(descriptor)
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from None
    except ValueError:
        raise Unreadable("a file name cannot contain a NUL character") from None


def _check(path: Path, status: os.stat_result, most_bytes: int) -> None:
    mode = status.st_mode
    if stat.S_ISREG(mode):
        if status.st_size > most_bytes:
            raise TooLarge(most_bytes)
    elif stat.S_ISDIR(mode):
        raise Unreadable(os.strerror(errno.EISDIR))
    elif not (stat.S_ISFIFO(mode) and str(path).startswith(_OPEN_ALREADY)):
        kind = next((words for is_kind, words in _KINDS if is_kind(mode)), "something else")
        raise Unreadable(f"it is {kind}; only regular files are read")
