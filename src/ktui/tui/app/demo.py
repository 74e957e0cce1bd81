"""The app on a simulated cluster: marked as simulated, with stories, captions and their clock."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.widgets import Input

from ktui.captions import Caption
from ktui.cluster.observer import Observer
from ktui.cluster.pausable_clock import PausableClock
from ktui.cluster.text import clean
from ktui.tui.app.app import KtuiApp
from ktui.tui.draw import format as figures
from ktui.tui.poll.polling import Polled, Polling
from ktui.tui.story.caption_line import CaptionLine
from ktui.tui.story.captions import CaptionTrack, StoryMoments
from ktui.tui.story.picture import picture_name, save_picture
from ktui.tui.story.screen import StoryScreen
from ktui.tui.widgets.bindings import APP_BINDINGS, give_ids
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.header import StatusHeader
from ktui.tui.widgets.services import Status

_TITLE_S, _REFUSED_S = 6.0, 20.0
"""Seconds that the story's title, and the refused parts of its plan, stay on the screen."""
_TICK_S = 0.25
"""Real seconds between two looks at whether a caption is due."""
_POLL_EVERY_S = 1.0
"""Real seconds between two polls, unless `_LONGEST_POLL_S` is shorter."""
_LONGEST_POLL_S = 10.0
"""The cluster's seconds between two polls. With fewer polls, short moves would go unseen."""
_PATIENCE = 0.75
"""Share of the poll interval after which a poll goes on without a broker's answer."""

_KEYS = "i  what happens here\nR  play it again\n.  the next story"

DEMO_BINDINGS = [
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
    Binding(
        "full_stop", "next_story", "next story", key_display=".", id="demo.next-story",
        tooltip="Play the next story that comes with ktui",
    ),
    Binding(
        "comma", "previous_story", "previous story", show=False, id="demo.previous-story",
        tooltip="Play the story before",
    ),
    Binding("i", "show_story", "story", id="app.story", tooltip="Tell what happens here"),
    Binding(
        "R", "play_again", "again", id="app.again", tooltip="Play the story from the start"
    ),
    Binding(
        "ctrl+s", "picture", "picture", key_display="^s", priority=True, id="demo.picture",
        tooltip="Write a picture of the screen, an SVG file",
    ),
]  # fmt: skip


class PlayNext(enum.Enum):
    """The story to play once this view has closed."""

    PREVIOUS = -1
    AGAIN = 0
    NEXT = 1


class Story(msgspec.Struct, frozen=True):
    """A scenario as it is shown beside its cluster."""

    name: str
    title: str
    about: str
    captions: tuple[Caption, ...] = ()


def poll_interval_s(speed: float) -> float:
    """Return the cluster's seconds between two polls at a speed of its clock."""
    return min(_POLL_EVERY_S * speed, _LONGEST_POLL_S)


class DemoApp(KtuiApp):
    """Shows a story. Once the app has ended, `plays_next` is what to play then, if anything.

    Args:
        source: polls the simulated cluster.
        story: the story.
        clock: the cluster's clock, which the keys control.
        pictures: the folder for pictures of the screen.
        how: further arguments of `KtuiApp`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *(binding for binding in APP_BINDINGS if binding.key != "q"),
        *DEMO_BINDINGS,
        Binding("q", "quit_view", "quit", tooltip="Close this view, and end the simulated cluster"),
    ]
    give_ids("app", BINDINGS)

    def __init__(
        self, source: Observer, *, story: Story, clock: PausableClock, pictures: Path, **how: Any
    ) -> None:
        interval_s = poll_interval_s(clock.speed)
        super().__init__(
            source,
            cluster_name=story.name,
            read_only=False,
            clock=clock,
            poll_interval_s=interval_s,
            **how,
        )
        self._observer, self._time, self._pictures = source, clock, pictures
        self._observer.wait_for_brokers(_PATIENCE * interval_s)
        self._story, self._began_s = story, clock.monotonic()
        self._moments, self._captions = StoryMoments(), CaptionTrack(story.captions)
        self._refused: tuple[str, ...] = ()
        self._over = False
        self._moving_since_s: float | None = None
        self.plays_next: PlayNext | None = None
        self.watch_screen.when_quiet = (
            f"This cluster is simulated: {self._story.title}.\n{self._story.about}",
            _KEYS,
        )

    def on_ready(self) -> None:
        """Start to show captions."""
        self.set_interval(_TICK_S, self.show_caption)
        self.show_caption()

    @on(Polled)
    def _follow(self) -> None:
        """Show the title once rows first cover the story's text, and report the story's end."""
        last, now = self.progress.last, self.overview
        if last is None:
            return
        self._moments.note(now, self.run_status)
        if now.open and self._moving_since_s is None:
            self._moving_since_s = last.monotonic_s
            self._show_title()
        if now.open or self._moving_since_s is None:
            self._over = False
        elif not self._over:
            self._over = True
            self._show_end(now.totals.done, last.monotonic_s - self._moving_since_s)

    def _show_end(self, done: int, took_s: float) -> None:
        moves = f"{done:,} done " if done else ""
        title = f"This cluster is simulated: {self._story.title}."
        over = f"Nothing moves any more: {moves}in {figures.as_duration(took_s)} of the cluster."
        self.watch_screen.when_quiet = (f"{title}\n{over}", _KEYS)

    def _show_title(self) -> None:
        if self.screen is self.watch_screen and not self._story.captions:
            words = "i shows the story, R plays it from the start"
            self.report_news(f"{self._story.title}: {words}", timeout_s=_TITLE_S)

    @property
    def _at_s(self) -> float:
        """Seconds of the cluster since the story began."""
        return self._time.monotonic() - self._began_s

    # ----------------------------------------------------------------- the captions

    def show_caption(self) -> None:
        """Show the caption that is due, on every screen that has a header."""
        self._captions.advance(self._at_s, self._moments.seen)
        if not self._story.captions:
            return
        for screen in self.screen_stack:
            if screen.query(StatusHeader):
                for keys in screen.query(FooterKeys):
                    self._line_above(keys).show(self._captions.shown)

    def _line_above(self, keys: FooterKeys) -> CaptionLine:
        """Return the line above a screen's keys, mounted first where it is missing."""
        lines = keys.screen.query(CaptionLine)
        if lines:
            return lines.first()
        line = CaptionLine(self._story.captions)
        keys.screen.mount(line, before=keys)
        return line

    def push_screen(self, *args: Any, **how: Any) -> Any:
        """Open a screen with the caption on it at once."""
        opened = super().push_screen(*args, **how)
        self.call_after_refresh(self.show_caption)
        return opened

    # -------------------------------------------------------------------- the clock

    def cluster_status(self) -> Status:
        """Return the state of the cluster, marked as simulated, with the speed of its time."""
        stopped = " TIME STOPPED" if self._time.paused else ""
        badge = f"SIMULATED x{self._time.speed:g}{stopped}"
        return msgspec.structs.replace(super().cluster_status(), badge=badge)

    def action_stop_time(self) -> None:
        """Stop the cluster's time, or let it go on; all that waits for it waits as well."""
        if self._time.paused:
            self._time.run()
        else:
            self._time.pause()
        self.draw_screens()

    def action_slower(self) -> None:
        """Let time run more slowly."""
        self._time.slower()
        self._use_speed()

    def action_faster(self) -> None:
        """Let time run faster."""
        self._time.faster()
        self._use_speed()

    def _use_speed(self) -> None:
        """Poll as often as is right at this speed: a poll a second of real time, or more."""
        interval_s = poll_interval_s(self._time.speed)
        self._observer.wait_for_brokers(_PATIENCE * interval_s)
        self._interval_s = self.watch_screen.interval_s = interval_s
        if isinstance(self._poll_loop, Polling):
            self._poll_loop.poll_every(interval_s)
        self.draw_screens()

    # --------------------------------------------------------------------- the keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave - and + to a field that is typed into, in the footer too."""
        if action in ("slower", "faster") and isinstance(self.focused, Input):
            return False
        return super().check_action(action, parameters)

    @property
    def keys_left_out_first(self) -> tuple[str, ...]:
        """The actions that a demo needs least."""
        without_run = ("show_limits", "show_throttle", "pause", "cancel")
        return (
            *(without_run if self.attached is None else ()),
            "show_runs", "note", "freeze", "sort", "mark", "view", "play_again", "filter",
            "picture", "start_plan", "cancel", "show_story", "show_events", "show_dashboard",
            "pause", "show_brokers", "show_limits", "show_throttle", "next_story",
        )  # fmt: skip

    async def action_show_help(self) -> None:
        """Show every key, with no notification over them."""
        self.clear_notifications()
        await super().action_show_help()

    async def action_show_story(self) -> None:
        """Show the story, and what the cluster refused of its plan."""
        self.clear_notifications()
        await self.push_screen(StoryScreen(self._story.title, self._story.about, self._refused))

    def action_play_again(self) -> None:
        """End the app, and let its caller play the story again."""
        self._end_with(PlayNext.AGAIN)

    def action_next_story(self) -> None:
        """End the app, and let its caller play the next story."""
        self._end_with(PlayNext.NEXT)

    def action_previous_story(self) -> None:
        """End the app, and let its caller play the story before."""
        self._end_with(PlayNext.PREVIOUS)

    def _end_with(self, plays_next: PlayNext) -> None:
        self.plays_next = plays_next
        self.exit()

    def action_picture(self) -> None:
        """Write a picture of the screen, and show its name."""
        name = picture_name(self._story.name, self._at_s)
        try:
            path = save_picture(self._pictures, name, self.export_screenshot(title=name))
        except OSError as error:
            why = error.strerror or error
            words = f"No picture was written into {clean(str(self._pictures))}: {why}."
            self.notify(words, severity="error")
        else:
            self.notify(f"Wrote the picture {clean(str(path))}")

    def action_quit_view(self) -> None:
        """Close the view, and the cluster with it."""
        words = "ktui: the simulated cluster has ended with its view."
        self.exit(message=Text(f"{words} `ktui demo --list` names every story."))

    def report_refusals(self, refused: tuple[str, ...]) -> None:
        """Report the parts of the plan that the cluster refused."""
        self._refused = refused
        if refused:
            more = f", and {len(refused) - 1:,} more" if len(refused) > 1 else ""
            words = f"Refused parts of the plan: {refused[0]}{more}; i shows it again."
            self.report_news(words, "warning", _REFUSED_S)
