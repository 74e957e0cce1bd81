"""Files and folders that survive a power cut."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the names of new files in it survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # not every file system can sync a folder
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, accessible to the owner only (mode 0700).

    Folders that exist keep their mode.

    Raises:
        OSError: a folder cannot be created.
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
            each.chmod(0o700)  # the umask may have removed the owner's own permissions
            sync_folder(each.parent)


def copy_new(source: int, path: Path) -> None:
    """Copy an open file to a new path, accessible to the owner only (mode 0600).

    Args:
        source: the file's descriptor; reading starts at its current position.
        path: the path of the copy.

    Raises:
        FileExistsError: something exists at that path.
        OSError: the copy cannot be written; no part of it remains.
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


def write_whole(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace a file atomically; by default it is accessible to the owner only (mode 0600).

    The old file stays until the new one is complete. Several processes may do this at once: each
    writes its own temporary file, and the last rename wins.

    Raises:
        OSError: the file cannot be written; no part of the new one remains.
    """
    file, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(file, "wb") as new:
            os.fchmod(new.fileno(), mode)
            new.write(content)
            new.flush()
            os.fsync(new.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
