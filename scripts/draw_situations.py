"""Draw the situations by which the view is judged, each in terminals of three sizes.

    python scripts/draw_situations.py FOLDER [SITUATION ...]

Writes an SVG for each, and a PNG too where rsvg-convert is installed.
"""  # noqa: INP001 - a script, not a package

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

from support.views.screens import resize
from support.views.situations import SITUATIONS, Situation

SIZES = ((80, 24), (120, 40), (200, 60))
FONT = "DejaVu Sans Mono"
"""A font with all the glyphs that a terminal has; the one that Textual names is seldom there."""
SPACING = "0.159px"
"""What its glyphs lack to the width of a cell."""


async def draw(situation: Situation, folder: Path) -> None:
    """Draw a situation in each size."""
    async with situation.enter() as pilot:
        for size in SIZES:
            await resize(pilot, size)
            path = folder / f"{situation.name}-{size[0]}x{size[1]}.svg"
            path.write_text(_drawn(pilot.app.export_screenshot(simplify=True)), "utf-8")
            _as_png(path)
            print(path)  # noqa: T201 - what the command answers


def _drawn(svg: str) -> str:
    """Name a font that is there, as wide as a cell, and keep the blanks at the ends of words."""
    svg = svg.replace("Fira Code", FONT).replace("<svg ", '<svg xml:space="preserve" ', 1)
    return svg.replace("font-size: 20px;", f"font-size: 20px; letter-spacing: {SPACING};", 1)


def _as_png(path: Path) -> None:
    if converter := shutil.which("rsvg-convert"):
        subprocess.run(  # noqa: S603 - a program of the system, on a file just written
            [converter, "-o", path.with_suffix(".png"), path], check=True
        )


def main(folder: Path, names: list[str]) -> None:
    """Draw the situations that are named, or all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    known = {each.name: each for each in SITUATIONS}
    for unknown in set(names) - known.keys():
        raise SystemExit(f"There is no situation {unknown}; there are: {', '.join(known)}.")
    for name in names or known:
        asyncio.run(draw(known[name], folder))


if __name__ == "__main__":
    _, *given = sys.argv
    if not given:
        raise SystemExit(__doc__)
    main(Path(given[0]), given[1:])
