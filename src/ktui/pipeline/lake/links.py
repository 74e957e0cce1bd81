"""What is in a lake: no symbolic link leads out of it, and what is read is a regular file."""

from __future__ import annotations

import os
from pathlib import Path

from ktui.pipeline.lake.manifest import Manifest, leaves_lake_error


def check_files(lake: Path, manifest: Manifest) -> None:
    """Check that no symbolic link leads out of a lake in a folder of this machine.

    What is neither a file nor a folder is refused, too: reading a named pipe would never end.

    The check covers the folders of tables, which are written to. It also covers everything in the
    folders that the manifest names, which is read.

    Raises:
        ValueError: a link leads out of the lake, or something is not a regular file; names it.
    """
    root = Path(os.path.realpath(lake))
    inside = sorted(each for each in lake.iterdir() if each.is_symlink()) if lake.is_dir() else []
    for link in inside:
        _check_link(link, root, link.name)
    for place, part in manifest.entries():
        for folder in (lake / name for name in part.folders):
            _check_link(folder, root, f"{place}.files")
            for each in folder.rglob("*"):
                if each.is_symlink():
                    _check_link(each, root, f"{place}.files")
                if each.exists() and not each.is_file() and not each.is_dir():
                    raise ValueError(f"{each} is not a regular file")


def _check_link(path: Path, root: Path, place: str) -> None:
    try:
        leads_to = path.resolve()
    except (OSError, RuntimeError):  # a loop of links
        leads_to = Path("/")
    if not leads_to.is_relative_to(root):
        raise leaves_lake_error(place, str(path))
