"""The user's themes read again whenever one of their files is saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textual.app import App

from ktui.tui.draw.themes import LoadedThemes, load_themes, theme_paths

EVERY_S = 1.0
_Stamp = tuple[int, int]
"""The time of a file's last change, and its size."""


class ThemeReload:
    """Watches the folder of the user's themes.

    Args:
        app: has the themes, and shows notifications.
        loaded: the themes that the app began with.
    """

    def __init__(self, app: App[Any], loaded: LoadedThemes) -> None:
        self._app, self._folder = app, loaded.folder
        self._problems = {*map(str, loaded.problems)}
        """The problems that are known already."""
        self._seen: dict[Path, _Stamp] = {}
        self._seen = self._stamps()

    def start(self) -> None:
        """Look once a second, where there may be themes of the user's."""
        if self._folder is not None:
            self._app.set_interval(EVERY_S, self._look)

    def _stamps(self) -> dict[Path, _Stamp]:
        stamps: dict[Path, _Stamp] = {}
        try:
            for path in () if self._folder is None else theme_paths(self._folder):
                found = path.stat()
                stamps[path] = (found.st_mtime_ns, found.st_size)
        except OSError:
            return self._seen  # an editor replaces the file just now
        return stamps

    def _look(self) -> None:
        stamps = self._stamps()
        if stamps == self._seen:
            return
        saved = {path for path, _ in stamps.items() - self._seen.items()}
        self._seen = stamps
        loaded = load_themes(self._folder)
        problems = [
            problem
            for problem in loaded.problems
            if problem.path in saved or str(problem) not in self._problems
        ]
        self._problems = {*map(str, loaded.problems)}
        for problem in problems:
            self._app.notify(f"The theme stays as it was: {problem}", severity="warning")
        if not problems:
            self._use(loaded)

    def _use(self, loaded: LoadedThemes) -> None:
        for theme in loaded.themes.values():
            self._app.register_theme(theme)
        self._app.mutate_reactive(App.theme)
