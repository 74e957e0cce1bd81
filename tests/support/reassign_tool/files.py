"""The folder in which both programs run."""

from __future__ import annotations

from pathlib import Path

from support.reassign_tool.cases import FILES


def write_files(folder: Path) -> Path:
    """Write the files that the argument lists name into a new folder, and return it."""
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder
