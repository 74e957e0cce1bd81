"""Footer notifications; they never cover a row."""

from __future__ import annotations

from typing import Any

from textual.app import App
from textual.timer import Timer

from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.services import Notification

_FOR_S = {"information": 6.0, "warning": 8.0, "error": 12.0}


class Notifications:
    """Shows one notification at a time, each for a while.

    One at least as severe replaces the one shown. A less severe one waits until that is over, and
    only the last of those that wait is kept.
    """

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self.shown: Notification | None = None
        self._pending: tuple[Notification, float] | None = None
        self._until: Timer | None = None

    def add(self, words: str, severity: str, timeout_s: float | None = None) -> None:
        """Show a text, or keep it waiting behind a more severe one."""
        notification = Notification(" ".join(words.split()), severity)
        lasts_s = timeout_s or _FOR_S[severity]
        if self.shown is not None and _FOR_S[severity] < _FOR_S[self.shown.severity]:
            self._pending = (notification, lasts_s)
        else:
            self._show(notification, lasts_s)

    def clear(self) -> None:
        """Drop the notification shown, and the one waiting."""
        self._pending = None
        self._show(None)

    def _next(self) -> None:
        pending, self._pending = self._pending, None
        self._show(*pending or (None,))

    def _show(self, notification: Notification | None, lasts_s: float = 0.0) -> None:
        if self._until is not None:
            self._until.stop()
        shows = notification is not None
        self._until = self._app.set_timer(lasts_s, self._next) if shows else None
        self.shown = notification
        for screen in self._app.screen_stack:
            for keys in screen.query(FooterKeys):
                keys.show_notification(notification)
