"""The app on a simulated cluster: marked as simulated, with a clock that its keys control."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from textual.binding import Binding
from textual.widgets import Input

from ktui.captions import Caption
from ktui.cluster.asking import PATIENCE
from ktui.cluster.clock import PausableClock
from ktui.cluster.observer import ObservationSource, Observer
from ktui.cluster.text import clean
from ktui.tui.app.app import KtuiApp
from ktui.tui.poll.polling import Polling
from ktui.tui.story.captions import CaptionLine, picture_name, save_picture
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.header import StatusHeader
from ktui.tui.widgets.services import Status

_TICK_S = 0.25
"""Real seconds between two looks at whether a caption is due."""
_POLL_EVERY_S = 1.0
"""Real seconds between two polls, unless `_LONGEST_POLL_S` is shorter."""
_LONGEST_POLL_S = 10.0
"""The cluster's seconds between two polls. With fewer polls, short moves would go unseen."""

CLOCK_BINDINGS = [
    Binding(
        "0", "stop_time", "stop time", id="demo.stop-time",
        tooltip="Stop the cluster's time, or let it go on",
    ),
    Binding(
        "minus", "slower", "speed", key_display="-+", id="demo.slower",
        tooltip="Let the cluster's time run more slowly",
    ),
    Binding(
        "plus", "faster", "faster", show=False, id="demo.faster",
        tooltip="Let the cluster's time run faster",
    ),
]  # fmt: skip
PICTURE_BINDING = Binding(
    "ctrl+s", "picture", "picture", key_display="^s", priority=True, id="demo.picture",
    tooltip="Write a picture of the screen, an SVG file",
)  # fmt: skip
QUIT_BINDING = Binding(
    "q", "quit_view", "quit", tooltip="Close this view, and end the simulated cluster"
)


def poll_interval_s(speed: float) -> float:
    """Return the cluster's seconds between two polls at a speed of its clock."""
    return min(_POLL_EVERY_S * speed, _LONGEST_POLL_S)


class SimulatedApp(KtuiApp):
    """Shows a simulated cluster, whose time runs at a speed of its own.

    Args:
        observer: polls the simulated cluster.
        source: polls through the observer, where something else is to be done with each poll.
        name: the name of the cluster on the screen, and of its pictures.
        clock: the cluster's clock, which the keys control.
        pictures: the folder for pictures of the screen.
        how: further arguments of `KtuiApp`.
    """

    def __init__(
        self,
        observer: Observer,
        *,
        source: ObservationSource | None = None,
        name: str,
        clock: PausableClock,
        pictures: Path,
        **how: Any,
    ) -> None:
        interval_s = poll_interval_s(clock.speed)
        super().__init__(
            source or observer,
            cluster_name=name,
            read_only=False,
            clock=clock,
            poll_interval_s=interval_s,
            **how,
        )
        self._observer, self._time, self._pictures = observer, clock, pictures
        self._observer.wait_for_brokers(PATIENCE * interval_s)
        self._shown_name, self._began_s = name, clock.monotonic()

    def on_ready(self) -> None:
        self.set_interval(_TICK_S, self.show_caption)
        self.show_caption()

    @property
    def speed(self) -> float:
        """Seconds of the cluster in one real second."""
        return self._time.speed

    @property
    def at_s(self) -> float:
        """Seconds of the cluster since the view was opened."""
        return self._time.monotonic() - self._began_s

    # ----------------------------------------------------------------- the captions

    @property
    def captions(self) -> Sequence[Caption]:
        """All captions that may stand above the keys; while there are none, there is no line."""
        return ()

    @property
    def caption(self) -> Caption | None:
        """The caption that is due; None for none."""
        return None

    def show_caption(self) -> None:
        """Show the caption that is due, on every screen that has a header."""
        due = self.caption
        if not self.captions:
            return
        for screen in self.screen_stack:
            if screen.query(StatusHeader):
                for keys in screen.query(FooterKeys):
                    self._line_above(keys).show(due)

    def _line_above(self, keys: FooterKeys) -> CaptionLine:
        """Return the line above a screen's keys, mounted first where it is missing."""
        lines = keys.screen.query(CaptionLine)
        if lines:
            return lines.first()
        line = CaptionLine(self.captions)
        keys.screen.mount(line, before=keys)
        return line

    def push_screen(self, *args: Any, **how: Any) -> Any:
        opened = super().push_screen(*args, **how)
        self.call_after_refresh(self.show_caption)
        return opened

    # -------------------------------------------------------------------- the clock

    def cluster_status(self) -> Status:
        stopped = " TIME STOPPED" if self._time.paused else ""
        badge = f"SIMULATED x{self._time.speed:g}{stopped}"
        return msgspec.structs.replace(super().cluster_status(), badge=badge)

    def action_stop_time(self) -> None:
        if self._time.paused:
            self._time.run()
        else:
            self._time.pause()
        self.draw_screens()

    def action_slower(self) -> None:
        self._time.slower()
        self._use_speed()

    def action_faster(self) -> None:
        self._time.faster()
        self._use_speed()

    def _use_speed(self) -> None:
        """Poll as often as is right at this speed: a poll a second of real time, or more."""
        interval_s = poll_interval_s(self._time.speed)
        self._observer.wait_for_brokers(PATIENCE * interval_s)
        self._interval_s = self.watch_screen.interval_s = interval_s
        if isinstance(self._poll_loop, Polling):
            self._poll_loop.poll_every(interval_s)
        self.draw_screens()

    # --------------------------------------------------------------------- the keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("slower", "faster") and isinstance(self.focused, Input):
            return False
        return super().check_action(action, parameters)

    async def action_show_help(self) -> None:
        self.clear_notifications()
        await super().action_show_help()

    def action_picture(self) -> None:
        name = picture_name(self._shown_name, self.at_s)
        try:
            path = save_picture(self._pictures, name, self.export_screenshot(title=name))
        except OSError as error:
            why = error.strerror or error
            words = f"No picture was written into {clean(str(self._pictures))}: {why}."
            self.notify(words, severity="error")
        else:
            self.notify(f"Wrote the picture {clean(str(path))}")
