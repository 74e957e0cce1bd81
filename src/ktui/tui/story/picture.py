"""Pictures of the screen: SVG files, named by their story and its time."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from ktui.durable import write_output

_FOR_ALL = 0o644
"""The mode of a picture: it is made to be shown."""


def picture_name(story: str, at_s: float) -> str:
    """Return the name of a picture, without its ending: `dead-target-2m05s`."""
    safe = "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in story).lstrip(".-")
    minutes, seconds = divmod(int(max(0.0, at_s)), 60)
    return f"{safe[:100] or 'story'}-{minutes}m{seconds:02}s"


def save_picture(folder: Path, name: str, svg: str) -> Path:
    """Write a picture, whole or not at all, and return its path; no picture is replaced.

    Raises:
        OSError: the picture cannot be written.
    """
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    path = next(p for each in names if not os.path.lexists(p := folder / f"{each}.svg"))
    write_output(path, svg.encode(), mode=_FOR_ALL)
    return path
