"""Symbolic links in a lake: whoever reads or writes it must not be led out of it."""

from __future__ import annotations

import os
from pathlib import Path

from ktui.pipeline.lake.manifest import Manifest, leaves


def check_links(lake: Path, manifest: Manifest) -> None:
    """Check that no symbolic link leads out of a lake in a folder of this machine.

    Looked at are the folders of tables, which are written to, and whatever is in the folders that
    the manifest names, which is read.

    Raises:
        ValueError: one does; names it.
    """
    root = Path(os.path.realpath(lake))
    inside = sorted(each for each in lake.iterdir() if each.is_symlink()) if lake.is_dir() else []
    for link in inside:
        _check_link(link, root, link.name)
    for place, part in manifest.entries():
        folder = lake / part.folder
        _check_link(folder, root, f"{place}.folder")
        for each in folder.rglob("*"):
            if each.is_symlink():
                _check_link(each, root, f"{place}.folder")


def _check_link(path: Path, root: Path, place: str) -> None:
    try:
        leads_to = path.resolve()
    except (OSError, RuntimeError):  # in a circle
        leads_to = Path("/")
    if not leads_to.is_relative_to(root):
        raise leaves(place, str(path))
