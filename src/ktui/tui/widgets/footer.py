"""The line at the bottom of every screen: its keys, or a notification for a while."""

from __future__ import annotations

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.content import Content
from textual.events import Resize
from textual.widgets import Footer, Static
from textual.widgets._footer import FooterKey

from ktui.tui.widgets.services import Notification, services

_LEFT_OUT_FIRST = (
    "freeze", "play_again", "sort", "tell_story", "show_events", "show_brokers", "filter", "view",
    "mark", "show_runs", "pause", "show_throttle",
)  # fmt: skip
"""The actions whose keys are left out first where the line is too short; `?` lists them all."""
_OF_A_RUN = ("cancel", "mark", "show_throttle", "show_limits", "pause", "start_plan", "show_runs")
"""The actions left out before all others while the view is attached to no run."""
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
