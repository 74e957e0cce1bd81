"""The app on a simulated cluster: marked as simulated, with a story that can be played again."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from ktui.cluster.observer import ObservationSource
from ktui.tui.app.app import KtuiApp
from ktui.tui.draw import format as figures
from ktui.tui.poll.polling import Polled
from ktui.tui.widgets.bindings import APP_BINDINGS, give_ids
from ktui.tui.widgets.services import Status

_TITLE_S, _REFUSED_S = 6.0, 20.0
"""Seconds that the story's title, and the refused parts of its plan, stay on the screen."""

_MOST_REFUSALS = 20
_KEYS = "i  what happens here\nR  play it again\nktui demo --list  names the other stories"


class Story(msgspec.Struct, frozen=True):
    """A scenario as it is shown beside its cluster."""

    name: str
    title: str
    about: str
    speed: float
    """The cluster's seconds that pass in one real second."""


class StoryScreen(ModalScreen[None]):
    """Shows the story, and the parts of the plan that the cluster did not accept."""

    CSS = """
    StoryScreen {
        align: center middle;
        & > VerticalScroll {
            width: 92%; max-width: 84; height: auto; max-height: 90%; padding: 1 2;
            border: round $primary; background: $surface;
            border-title-color: $foreground; border-subtitle-color: $dim;
            scrollbar-size-vertical: 1;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,i", "close", "close", tooltip="Close the story"),
    ]
    give_ids("story", BINDINGS)

    def __init__(self, title: str, about: str, refused: tuple[str, ...]) -> None:
        super().__init__()
        self._title, self._about, self._refused = title, about, refused

    def compose(self) -> ComposeResult:
        """Lay out the story as one scrolling text."""
        with VerticalScroll() as scroll:
            scroll.border_title = Content(self._title)
            scroll.border_subtitle = "esc closes"
            yield Static(Content("\n\n".join(filter(None, (self._about, *self._not_accepted())))))

    def _not_accepted(self) -> list[str]:
        if not self._refused:
            return []
        more = len(self._refused) - _MOST_REFUSALS
        lines = [*self._refused[:_MOST_REFUSALS], *([f"and {more:,} more"] if more > 0 else ())]
        return ["\n".join(("Refused parts of the plan:", *lines))]

    def action_close(self) -> None:
        """Close the story."""
        self.dismiss()


class DemoApp(KtuiApp):
    """Shows a story. Once the app has ended, `again` is whether to play it once more."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(binding for binding in APP_BINDINGS if binding.key != "q"),
        Binding("q", "quit_view", "quit", tooltip="Close this view, and end the simulated cluster"),
        Binding("i", "show_story", "story", tooltip="Tell what happens here"),
        Binding("R", "play_again", "again", tooltip="Play the story from the start"),
    ]
    give_ids("app", BINDINGS, {"show_story": "story", "play_again": "again"})

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
    def _follow(self) -> None:
        """Show the title once rows first cover the story's text, and report the story's end."""
        last, now = self.progress.last, self.overview
        if last is None:
            return
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
        if self.screen is self.watch_screen:
            words = "i shows the story, R plays it from the start"
            self.report_news(f"{self._story.title}: {words}", timeout_s=_TITLE_S)

    async def action_show_help(self) -> None:
        """Show every key, with no notification over them."""
        self.clear_notifications()
        await super().action_show_help()

    def cluster_status(self) -> Status:
        """Return the state of the cluster, marked as simulated."""
        badge = f"SIMULATED x{self._story.speed:g}"
        return msgspec.structs.replace(super().cluster_status(), badge=badge)

    async def action_show_story(self) -> None:
        """Show the story, and what the cluster refused of its plan."""
        self.clear_notifications()
        await self.push_screen(StoryScreen(self._story.title, self._story.about, self._refused))

    def action_play_again(self) -> None:
        """End the app, and let its caller play the story again."""
        self.again = True
        self.exit()

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
