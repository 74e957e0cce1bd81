"""What makes files outlast a power cut."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Make sure that the names of new files outlast a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # not every file system can sync a folder
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
