"""The line at the bottom of every screen: its keys, or a notification for a while."""

from __future__ import annotations

from typing import Any

from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.content import Content
from textual.events import Resize
from textual.timer import Timer
from textual.widgets import Footer, Static
from textual.widgets._footer import FooterKey

from ktui.tui.widgets.services import Notification, services

_LEFT_OUT_FIRST = (
    "freeze", "play_again", "sort", "show_story", "show_events", "show_brokers", "filter", "view",
    "mark", "show_runs", "pause", "show_throttle",
)  # fmt: skip
"""The actions whose keys are left out first where the line is too short; `?` lists them all."""
_OF_A_RUN = ("cancel", "mark", "show_throttle", "show_limits", "pause", "start_plan", "show_runs")
"""The actions left out before all others while the view is attached to no run."""
_FOR_S = {"information": 6.0, "warning": 8.0, "error": 12.0}
"""Seconds for which a notification of each severity is shown."""
_SEVERITIES = {
    "information": ("·", "$foreground"),
    "warning": ("!", "$warning"),
    "error": ("!", "bold $error"),
}


class FooterKeys(Footer):
    """Textual's footer as every screen has it: compact, in line with the text above.

    Where the keys do not all fit, some are left out, so that none is cut.
    """

    DEFAULT_CSS = """
    FooterKeys {
        padding-left: 2;
        & > #news { display: none; width: 1fr; height: auto; }
        &.-news { height: auto; max-height: 3; padding: 0 2; }
        &.-news > #news { display: block; }
        &.-news > FooterKey { display: none; }
    }
    """

    def __init__(self) -> None:
        super().__init__(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Show the present notification."""
        self.show_notification(services(self).notification)

    def show_notification(self, notification: Notification | None) -> None:
        """Show a notification in place of the keys; None for the keys."""
        self.set_class(notification is not None, "-news")
        for line in self.query("#news").results(Static):
            line.update(_drawn(notification))

    def compose(self) -> ComposeResult:
        """Lay out the keys that fit, and the notification that stands in their place."""
        yield Static(_drawn(services(self).notification), id="news", markup=False)
        keys = [widget for widget in super().compose() if isinstance(widget, FooterKey)]
        room = (self.size.width or self.app.size.width) - 2
        app = services(self)
        usual = _OF_A_RUN if app.attached is None else ()
        first = usual if app.keys_left_out_first is None else app.keys_left_out_first
        for action in (*first, *_LEFT_OUT_FIRST):
            if sum(map(_width, keys)) - 1 <= room:
                break
            keys = [key for key in keys if key.action.removeprefix("app.") != action]
        yield from keys

    async def on_resize(self, event: Resize) -> None:
        """Choose again which keys fit."""
        del event
        await self.recompose()


def _width(key: FooterKey) -> int:
    return cell_len(f" {key.key_display} {key.description}")


def _drawn(notification: Notification | None) -> Content:
    if notification is None:
        return Content("")
    sign, colour = _SEVERITIES[notification.severity]
    return Content.styled(f"{sign} {notification.words}", colour)


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
