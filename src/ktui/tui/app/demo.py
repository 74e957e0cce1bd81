"""The app on a simulated cluster on which a story unfolds, with its captions."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType

from ktui.captions import Caption
from ktui.cluster.clock import PausableClock
from ktui.cluster.observer import Observer
from ktui.tui.app.simulated import (
    CLOCK_BINDINGS,
    PICTURE_BINDING,
    QUIT_BINDING,
    SimulatedApp,
)
from ktui.tui.draw import format as figures
from ktui.tui.poll.polling import Polled
from ktui.tui.story.captions import CaptionTrack, StoryMoments, StoryScreen
from ktui.tui.widgets.bindings import APP_BINDINGS, give_ids

_TITLE_S, _REFUSED_S = 6.0, 20.0
"""Seconds that the story's title, and the refused parts of its plan, stay on the screen."""
_KEYS = "i  what happens here\nR  play it again\n.  the next story"

DEMO_BINDINGS = [
    *CLOCK_BINDINGS,
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
    PICTURE_BINDING,
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


class DemoApp(SimulatedApp):
    """Shows a story. Once the app has ended, `plays_next` is what to play then, if anything.

    Args:
        observer: polls the simulated cluster.
        story: the story.
        clock: the cluster's clock, which the keys control.
        pictures: the folder for pictures of the screen.
        how: further arguments of `KtuiApp`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *(binding for binding in APP_BINDINGS if binding.key != "q"),
        *DEMO_BINDINGS,
        QUIT_BINDING,
    ]
    give_ids("app", BINDINGS)

    def __init__(
        self, observer: Observer, *, story: Story, clock: PausableClock, pictures: Path, **how: Any
    ) -> None:
        super().__init__(observer, name=story.name, clock=clock, pictures=pictures, **how)
        self._story = story
        self._moments, self._captions = StoryMoments(), CaptionTrack(story.captions)
        self._refused: tuple[str, ...] = ()
        self._over = False
        self._moving_since_s: float | None = None
        self.plays_next: PlayNext | None = None
        self.watch_screen.when_quiet = (
            f"This cluster is simulated: {self._story.title}.\n{self._story.about}",
            _KEYS,
        )

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

    # ----------------------------------------------------------------- the captions

    @property
    def captions(self) -> Sequence[Caption]:
        return self._story.captions

    @property
    def caption(self) -> Caption | None:
        self._captions.advance(self.at_s, self._moments.seen)
        return self._captions.shown

    # --------------------------------------------------------------------- the keys

    @property
    def keys_left_out_first(self) -> tuple[str, ...]:
        without_run = ("show_limits", "show_throttle", "pause", "cancel")
        return (
            *(without_run if self.attached is None else ()),
            "show_runs", "note", "freeze", "sort", "mark", "view", "play_again", "filter",
            "picture", "start_plan", "cancel", "show_story", "show_events", "show_dashboard",
            "pause", "show_brokers", "show_limits", "show_throttle", "next_story",
        )  # fmt: skip

    async def action_show_story(self) -> None:
        self.clear_notifications()
        await self.push_screen(StoryScreen(self._story.title, self._story.about, self._refused))

    def action_play_again(self) -> None:
        self._end_with(PlayNext.AGAIN)

    def action_next_story(self) -> None:
        self._end_with(PlayNext.NEXT)

    def action_previous_story(self) -> None:
        self._end_with(PlayNext.PREVIOUS)

    def _end_with(self, plays_next: PlayNext) -> None:
        self.plays_next = plays_next
        self.exit()

    def action_quit_view(self) -> None:
        words = "ktui: the simulated cluster has ended with its view."
        self.exit(message=Text(f"{words} `ktui demo --list` names every story."))

    def report_refusals(self, refused: tuple[str, ...]) -> None:
        """Report the parts of the plan that the cluster refused."""
        self._refused = refused
        if refused:
            more = f", and {len(refused) - 1:,} more" if len(refused) > 1 else ""
            words = f"Refused parts of the plan: {refused[0]}{more}; i shows it again."
            self.report_news(words, "warning", _REFUSED_S)
