"""The app on a simulated cluster: says that it is one, tells the story, and can play it again."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType

from ktui.cluster.observer import ObservationSource
from ktui.tui.app.app import KtuiApp
from ktui.tui.draw import format as figures
from ktui.tui.poll.polling import Polled
from ktui.tui.screens.story import StoryScreen
from ktui.tui.widgets.bindings import APP_BINDINGS
from ktui.tui.widgets.services import Status

_TITLE_S, _REFUSED_S = 6.0, 20.0
"""How long the story's title, and what was refused, stay on the screen by themselves."""

_KEYS = "i  what happens here\nR  play it again\nktui demo --list  names the other stories"


class Story(msgspec.Struct, frozen=True):
    """What is shown of a scenario beside its cluster."""

    name: str
    title: str
    about: str
    speed: float
    """How many of the cluster's seconds pass in one of ours."""


class DemoApp(KtuiApp):
    """Shows a story. `again` says, once the app has ended, whether it is to be played anew."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(binding for binding in APP_BINDINGS if binding.key != "q"),
        Binding("q", "quit_view", "quit", tooltip="Close this view, and end the simulated cluster"),
        Binding("i", "tell_story", "story", tooltip="Tell what happens here"),
        Binding("R", "play_again", "again", tooltip="Play the story from the start"),
    ]

    def __init__(self, source: ObservationSource, *, story: Story, **how: Any) -> None:
        super().__init__(source, cluster_name=story.name, read_only=False, **how)
        self._story = story
        self._refused: tuple[str, ...] = ()
        self._over = False
        self._moving_since_s: float | None = None
        self.again = False
        self.watch_screen.when_quiet = (
            f"This cluster is simulated: {story.title}.\n{story.about}",
            _KEYS,
        )

    @on(Polled)
    def _follow(self, message: Polled) -> None:
        """Tell the title when the list first covers the story, and that it is over when it is."""
        last, now = message.progress.last, message.overview
        if last is None:
            return
        if now.open and self._moving_since_s is None:
            self._moving_since_s = last.monotonic_s
            self._tell_title()
        if now.open or self._moving_since_s is None:
            self._over = False
        elif not self._over:
            self._over = True
            self._tell_end(now.totals.done, last.monotonic_s - self._moving_since_s)

    def _tell_end(self, done: int, took_s: float) -> None:
        """Have the empty screen say that the story is over."""
        moves = f"{done:,} done " if done else ""
        title = f"This cluster is simulated: {self._story.title}."
        over = f"Nothing moves any more: {moves}in {figures.as_duration(took_s)} of the cluster."
        self.watch_screen.when_quiet = (f"{title}\n{over}", _KEYS)

    def _tell_title(self) -> None:
        if self.screen is self.watch_screen:
            words = "i tells the story, R plays it from the start"
            self.notify(words, title=self._story.title, timeout=_TITLE_S, markup=False)

    async def action_show_help(self) -> None:
        """Show every key, and nothing over them."""
        self.clear_notifications()
        await super().action_show_help()

    def cluster_status(self) -> Status:
        """Tell how the cluster is now, and that it is simulated."""
        badge = f"SIMULATED x{self._story.speed:g}"
        return msgspec.structs.replace(super().cluster_status(), badge=badge)

    async def action_tell_story(self) -> None:
        """Tell what happens here, and what was refused of it."""
        self.clear_notifications()
        await self.push_screen(StoryScreen(self._story.title, self._story.about, self._refused))

    def action_play_again(self) -> None:
        """End, and let whoever runs the app play the story anew."""
        self.again = True
        self.exit()

    def action_quit_view(self) -> None:
        """Close the view, and with it the cluster."""
        words = "ktui: the simulated cluster has ended with its view."
        self.exit(message=Text(f"{words} `ktui demo --list` names every story."))

    def report_refusals(self, refused: tuple[str, ...]) -> None:
        """Say what the cluster did not accept of the plan."""
        self._refused = refused
        if refused:
            more = f", and {len(refused) - 1:,} more" if len(refused) > 1 else ""
            self.notify(
                f"{refused[0]}{more}; i tells it again.",
                title="Not accepted of the plan",
                severity="warning",
                timeout=_REFUSED_S,
                markup=False,
            )
