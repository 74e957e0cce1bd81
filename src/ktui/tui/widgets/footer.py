"""The line at the bottom of every screen: its keys, beside a notification for a while."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.app import App
from textual.content import Content
from textual.events import Leave, MouseDown, MouseMove
from textual.geometry import Offset
from textual.timer import Timer
from textual.widget import Widget

from ktui.tui.widgets.bindings import LiveKey, fit_keys, gap_after, live_keys
from ktui.tui.widgets.services import Notification, services

_LEFT_OUT_FIRST = (
    "freeze", "play_again", "sort", "show_story", "show_events", "show_brokers", "show_dashboard",
    "note", "zoom", "filter", "view", "mark", "show_runs", "start_plan", "pause", "show_throttle",
    "step", "cursor",
)  # fmt: skip
"""The actions whose keys are left out first where the line is too short; `?` lists them all."""
_OF_RUNS = ("start_plan", "show_runs")
"""The actions left out before all others while the view is attached to no run."""
_KEPT = ("show_help", "quit_view", "back", "dismiss")
"""The actions left out only where nothing else is left, except for what helps."""
_PADDING = 4  # cells that no key stands in, on both sides together
_MOST_LINES = 3  # of a notification
_GAP, _LEAST_KEYS = 3, 36
"""Cells between a notification and keys in the same line, and what these need at least."""
_FOR_S = {"information": 6.0, "warning": 8.0, "error": 12.0}
"""Seconds for which a notification of each severity is shown."""
_SEVERITIES = {
    "information": ("·", "$foreground"),
    "warning": ("!", "$warning"),
    "error": ("!", "bold $error"),
}


class FooterKeys(Widget):
    """The keys that do something now, and a notification before them, or above where it is long.

    The keys that help with what is wrong stand first. Where the keys do not all fit, some are left
    out, so that none is cut: those that help last. They are one widget: Textual's own footer has
    one for each key, which takes most of the time to open a screen.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "footer--key",
        "footer--description",
        "footer--hover",
    }
    DEFAULT_CSS = """
    FooterKeys {
        dock: bottom; height: 1; padding-left: 2; color: $footer-foreground;
        background: $footer-background; text-wrap: nowrap;
        & > .footer--key {
            color: $footer-key-foreground; background: $footer-key-background; text-style: bold;
        }
        & > .footer--description {
            color: $footer-description-foreground; background: $footer-description-background;
        }
        & > .footer--hover { background: $block-hover-background; }
        &.-news { height: auto; text-wrap: wrap; }
    }
    """
    HAS_KEYS: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._notification: Notification | None = None
        self._shown: list[LiveKey] = []
        self._keys_at = Offset()
        self._under_mouse: str | None = None

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _screen: self.refresh())
        self.show_notification(services(self).notification)

    def update_keys(self) -> None:
        if self.screen.is_current and self._fitting_keys() != self._shown:
            self.refresh()

    @property
    def allow_select(self) -> bool:
        """Keys are clicked, so there is only the text of a notification to be selected."""
        return self._notification is not None

    def show_notification(self, notification: Notification | None) -> None:
        if notification != self._notification:
            self._notification = notification
            self.set_class(notification is not None, "-news")
            self.refresh(layout=True)

    def render(self) -> Content:
        if self._notification is None:
            self._keys_at = Offset()
            return self._drawn_keys()
        news = _drawn(self._notification, self._room)
        if not self.HAS_KEYS:
            return news
        if self._beside:
            keys = self._drawn_keys()
            self._keys_at = Offset(self._room - keys.cell_length, 0)
            return Content.assemble(news, " " * (self._keys_at.x - news.cell_length), keys)
        self._keys_at = Offset(0, news.get_height({}, self._room))
        return Content.assemble(news, "\n", self._drawn_keys())

    def _drawn_keys(self) -> Content:
        self._shown = self._fitting_keys()
        parts = [self._draw(key) for key in self._shown]
        for place in range(len(parts) - 1, 0, -1):
            parts.insert(place, Content(gap_after(*self._shown[place - 1 : place + 1])))
        return Content("").join(parts)

    @property
    def _room(self) -> int:
        return self.app.size.width - _PADDING

    @property
    def _beside(self) -> int:
        """The cells of the keys beside a notification; 0 where it has a line of its own."""
        if self._notification is None or not self.HAS_KEYS:
            return 0
        left = self._room - _drawn(self._notification, self._room).cell_length - _GAP
        return left if left >= _LEAST_KEYS else 0

    def _draw(self, key: LiveKey) -> Content:
        hover = ["footer--hover"] if key.action == self._under_mouse else []
        words = Content.assemble(
            (key.display, self.get_visual_style("footer--key", *hover)),
            (f" {key.words}", self.get_visual_style("footer--description", *hover)),
        )
        if key.role:
            words = words.stylize(f"bold ${key.role}")
        return words.stylize("" if key.active.enabled else "dim")

    def _fitting_keys(self) -> list[LiveKey]:
        app = services(self)
        first = app.keys_left_out_first
        if first is None:
            first = _OF_RUNS if app.attached is None else ()
        room = self._beside or self._room
        return fit_keys(live_keys(self.screen), room, (*first, *_LEFT_OUT_FIRST), kept=_KEPT)

    def on_mouse_down(self, event: MouseDown) -> None:
        key = self._key_at(event.get_content_offset(self))
        if key is None:
            return
        if key.active.enabled:
            self.app.simulate_key(key.active.binding.key)
        else:
            self.app.bell()

    def on_mouse_move(self, event: MouseMove) -> None:
        self._hover(self._key_at(event.get_content_offset(self)))

    def on_leave(self, event: Leave) -> None:
        del event
        self._hover(None)

    def _key_at(self, offset: Offset | None) -> LiveKey | None:
        if offset is None or offset.y != self._keys_at.y:
            return None
        x = self._keys_at.x
        for key, following in zip(self._shown, (*self._shown[1:], None), strict=True):
            if x <= offset.x < x + key.width:
                return key
            x += key.width + (0 if following is None else len(gap_after(key, following)))
        return None

    def _hover(self, key: LiveKey | None) -> None:
        action = None if key is None else key.action
        if action != self._under_mouse:
            self._under_mouse = action
            self.tooltip = None if key is None else key.active.tooltip or None
            self.styles.pointer = "default" if key is None else "pointer"
            self.refresh()


def _drawn(notification: Notification, room: int) -> Content:
    sign, colour = _SEVERITIES[notification.severity]
    drawn = Content.styled(f"{sign} {notification.words}", colour)
    while drawn.get_height({}, room) > _MOST_LINES:  # the events have all of it
        drawn = Content.styled(f"{drawn.plain.rstrip(' …')[:-5]} …", colour)
    return drawn


class Notifications:
    """Shows one notification at a time, each for a while, or until a key is pressed.

    An answer to a key replaces news, and news waits behind it. Otherwise one at least as severe
    replaces the one shown, and a less severe one waits; only the last of those that wait is kept.
    """

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self.shown: Notification | None = None
        self._shows_news = False
        self._pending: tuple[Notification, float] | None = None
        self._until: Timer | None = None

    def add(
        self, words: str, severity: str, timeout_s: float | None = None, *, news: bool = False
    ) -> Notification:
        """Show a text for its severity's time, or keep it waiting behind what matters more."""
        notification = Notification(" ".join(words.split()), severity)
        lasts_s = timeout_s or _FOR_S[severity]
        if self.shown is not None and self._waits(severity, news=news):
            self._pending = (notification, lasts_s)
        else:
            self._shows_news = news
            self._show(notification, lasts_s)
        return notification

    def _waits(self, severity: str, *, news: bool) -> bool:
        if self.shown is None or news is not self._shows_news:
            return news
        return _FOR_S[severity] < _FOR_S[self.shown.severity]

    def clear(self) -> None:
        self._pending = None
        self._show(None)

    def _next(self) -> None:
        pending, self._pending = self._pending, None
        self._show(*pending or (None,))

    def drop(self) -> None:
        if self.shown is not None:
            self.clear()

    def _show(self, notification: Notification | None, lasts_s: float = 0.0) -> None:
        if self._until is not None:
            self._until.stop()
        shows = notification is not None
        self._until = self._app.set_timer(lasts_s, self._next) if shows else None
        self.shown = notification
        for screen in self._app.screen_stack:
            for keys in screen.query(FooterKeys):
                keys.show_notification(notification)
