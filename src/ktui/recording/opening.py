"""Open files of recordings for reading: only regular ones, so that opening never blocks."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from ktui.fileproblem import FileProblem

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_recording_file(path: Path) -> BinaryIO:
    """Open a file for reading bytes.

    Raises:
        FileProblem: the path is not a regular file, so it cannot be a recording.
        OSError: the file cannot be opened.
    """
    file = open(path, "rb", opener=_open_without_blocking)  # noqa: SIM115 - the caller closes it
    try:
        check_regular(path, os.fstat(file.fileno()))
    except BaseException:
        file.close()
        raise
    return file


def _open_without_blocking(path: str, flags: int) -> int:
    """Open a file without blocking: a FIFO without a writer would block."""
    return os.open(path, flags | os.O_NONBLOCK)


def check_regular(path: Path, status: os.stat_result) -> None:
    """Check that a path leads to a regular file.

    Raises:
        FileProblem: the path leads to something else.
    """
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        raise FileProblem(path, None, f"{_KINDS.get(kind, 'something else')}, not a file")
