"""What makes files outlast a power cut."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Make sure that the names of new files outlast a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # not every file system can sync a folder
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, unless they are there: for their owner's eyes only.

    Raises:
        OSError: one of them cannot be made.
    """
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
            each.chmod(0o700)  # a umask may have taken from the owner
            sync_folder(each.parent)


def copy_new(source: int, path: Path) -> None:
    """Copy an open file to where nothing is yet, for its owner's eyes only.

    Args:
        source: the file's descriptor; it is read from where it stands.
        path: of the copy.

    Raises:
        FileExistsError: something is there.
        OSError: it cannot be written; nothing is left of it.
    """
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


def write_whole(path: Path, content: bytes) -> None:
    """Put a file in place as a whole, for its owner's eyes only; before that the old one stays.

    Several processes may do so at once: each has a file of its own to write to, and the last one's
    stays.

    Raises:
        OSError: it cannot be written; nothing is left of it.
    """
    file, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(file, "wb") as new:
            new.write(content)
            new.flush()
            os.fsync(new.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
