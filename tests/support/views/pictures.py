"""Pictures of a running app in several sizes and themes, beside those that are kept."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from textual.pilot import Pilot

from support.views.screens import resize


class Look(NamedTuple):
    """A theme, and the size of a terminal."""

    theme: str
    size: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.theme}-{self.size[0]}x{self.size[1]}"


class Album:
    """The pictures of an app that runs once, by what they show and how they are looked at."""

    def __init__(self) -> None:
        self._pictures: dict[tuple[str, Look], str] = {}

    async def take(self, what: str, pilot: Pilot[None], *looks: Look) -> None:
        """Take a picture of what is on the screen in each theme and size."""
        for look in looks:
            pilot.app.theme = look.theme
            await resize(pilot, look.size)
            await pilot.pause()
            self._pictures[what, look] = pilot.app.export_screenshot(simplify=True)

    def __call__(self, what: str, look: Look) -> str:
        return self._pictures[what, look]


def each_of(*looks: Look) -> pytest.MarkDecorator:
    """Return the mark of a test that compares the picture of each look."""
    return pytest.mark.parametrize("look", looks, ids=str)
