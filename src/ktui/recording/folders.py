"""Folders that only their owner can look into, whatever the umask."""

from __future__ import annotations

from pathlib import Path

PRIVATE = 0o700
PRIVATE_FILE = 0o600


def make_private(folder: Path) -> None:
    """Make a folder and those above it that are missing; one that is there stays as it is.

    Raises:
        OSError: it cannot be made.
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=PRIVATE, exist_ok=True)
        each.chmod(PRIVATE)  # a umask may have taken from the owner
    if not missing:
        folder.mkdir(exist_ok=True)  # raises where it is a file
