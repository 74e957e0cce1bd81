"""Completes the path of a file while it is typed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from textual.suggester import Suggester


class PathSuggester(Suggester):
    """Suggests the first folder or file whose path begins with the text typed.

    Args:
        suffixes: how the names of the files end.
    """

    def __init__(self, suffixes: tuple[str, ...]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._suffixes = suffixes

    async def get_suggestion(self, value: str) -> str | None:
        return await asyncio.to_thread(_completed, value, self._suffixes) if value else None


def _completed(value: str, suffixes: tuple[str, ...]) -> str | None:
    folder, _, start = value.rpartition("/")
    try:
        entries = sorted(Path(f"{folder}/" if "/" in value else ".").expanduser().iterdir())
    except (OSError, RuntimeError):  # no such folder; no such user's home
        return None
    for path in entries:
        if path.name.startswith(start) and (start or not path.name.startswith(".")):
            if path.is_dir():
                return f"{value[: len(value) - len(start)]}{path.name}/"
            if path.suffix in suffixes:
                return f"{value[: len(value) - len(start)]}{path.name}"
    return None
