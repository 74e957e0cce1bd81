"""What all parts of the app do: work off the keys' path, say how it went, and ask first."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ktui.tui.screens.run.questions import ConfirmScreen

if TYPE_CHECKING:
    from ktui.tui.app.app import KtuiApp


class Controller:
    """A part of the app that carries out what keys ask for."""

    def __init__(self, app: KtuiApp) -> None:
        self._app = app

    def warn(self, words: str, title: str = "") -> None:
        self._app.notify(words, title=title, severity="warning")

    def fail(self, problem: Exception | str, title: str = "") -> None:
        self._app.notify(str(problem), title=title, severity="error")

    def later(self, work: Coroutine[Any, Any, None], group: str) -> None:
        """Do this in a worker; the app reports a defect in it, and goes on."""
        self._app.run_worker(work, group=group, exit_on_error=False)

    def confirm(self, title: str, words: str, act: Callable[[], None]) -> None:
        """Act once the operator has said yes."""

        def answered(yes: bool | None) -> None:  # noqa: FBT001 - the screen's answer
            if yes:
                act()

        self._app.push_screen(ConfirmScreen(title, words), answered)
