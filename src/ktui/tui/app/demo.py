"""The app of a demo: a story on a simulated cluster, its tour, and a card at its end."""

from __future__ import annotations

import enum
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from rich.text import Text
from textual import on
from textual.binding import BindingType
from textual.events import Event, Key, MouseDown, MouseScrollDown, MouseScrollUp, Paste

from ktui.captions import Caption, StoryMoment, TourStep
from ktui.cluster.clock import PausableClock
from ktui.cluster.observer import Observer
from ktui.execution.host.state_dir import RunDir
from ktui.tui.app.simulated import BREAK_BINDING, SimulatedApp, with_usual
from ktui.tui.poll import Polled
from ktui.tui.story import CaptionTrack, Ledger, StoryMoments, StoryScreen, Tour
from ktui.tui.widgets.bindings import bind, hidden

_TOUR = "tour"  # the group of its worker
_TITLE_S, _REFUSED_S = 6.0, 20.0
"""Seconds that the story's title, and the refused parts of its plan, stay on the screen."""
_KEYS = "i  what happens here\nB  break it\nR  play it again\n.  the next story"

DEMO_BINDINGS = [
    bind(
        "full_stop", "next_story", "next story",
        "Play the next story that comes with ktui", key_display=".", id="demo.next-story",
    ),
    hidden(
        "comma", "previous_story", "previous story",
        "Play the previous story", id="demo.previous-story",
    ),
    BREAK_BINDING,
    bind(
        "ctrl+g", "tour", "tour",
        "Begin the tour of this story, go on with it, or have the keys yourself",
        key_display="^g", priority=True, id="demo.tour",
    ),
    bind("i", "show_story", "story", "Show what happens here", id="app.story"),
    bind("R", "play_again", "again", "Play the story from the start", id="app.again"),
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
    tour: tuple[TourStep, ...] = ()


class DemoApp(SimulatedApp):
    """Shows a story. Once the app has ended, `plays_next` is what to play then, if anything."""

    BINDINGS: ClassVar[list[BindingType]] = with_usual(DEMO_BINDINGS)

    def __init__(
        self,
        observer: Observer,
        *,
        story: Story,
        clock: PausableClock,
        pictures: Path,
        ledger: Ledger,
        plays_tour: bool = False,
        **how: Any,
    ) -> None:
        super().__init__(observer, name=story.name, clock=clock, pictures=pictures, **how)
        self._story, self._ledger = story, ledger
        self._moments, self._captions = StoryMoments(), CaptionTrack(story.captions)
        self._refused: tuple[str, ...] = ()
        self._tour = Tour(story.tour, clock, self._moments.seen)
        self._plays_tour = plays_tour
        self._card_due = False
        self.plays_next: PlayNext | None = None
        self.watch_screen.when_quiet = (
            f"This cluster is simulated: {self._story.title}.\n{self._story.about}",
            _KEYS,
        )

    @on(Polled)
    def _follow(self) -> None:
        if self.progress.last is None:
            return
        moments = self._moments.seen
        begins = StoryMoment.MOVING not in moments
        rested = begins or StoryMoment.OVER in moments
        self._ledger.look()
        self._moments.note(self.overview, self.run_status)
        if begins and StoryMoment.MOVING in moments and not self.captions:
            words = f"{self._story.title}: i shows the story, R plays it from the start"
            self.report_news(words, timeout_s=_TITLE_S)
        if not rested and StoryMoment.OVER in moments:
            self._card_due = True
            over = f"Nothing moves any more. {self._ledger.facts().moves}."
            title = f"This cluster is simulated: {self._story.title}."
            self.watch_screen.when_quiet = (f"{title}\n{over}", _KEYS)
        if self._card_due and self.screen is self.watch_screen and not self._tour.plays:
            self._card_due = False
            self.run_worker(self.action_show_story(), exit_on_error=False)

    @property
    def captions(self) -> Sequence[Caption]:
        tour = (Caption(say=step.say) for step in self._story.tour)
        return (*self._story.captions, *tour)

    @property
    def caption(self) -> Caption | None:
        if self._tour.caption is not None:
            return self._tour.caption
        self._captions.advance(self.at_s, self._moments.seen)
        return self._captions.shown

    @property
    def keys_left_out_first(self) -> tuple[str, ...]:
        without_run = ("show_limits", "show_throttle", "pause", "cancel")
        return (
            *(without_run if self.attached is None else ()),
            "show_runs", "note", "freeze", "sort", "mark", "view", "play_again", "filter",
            "picture", "start_plan", "cancel", "break_twin", "show_story", "show_events",
            "show_dashboard", "pause", "show_brokers", "show_limits", "show_throttle", "next_story",
        )  # fmt: skip

    async def action_show_story(self) -> None:
        self.clear_notifications()
        over = StoryMoment.OVER in self._moments.seen
        facts = self._ledger.facts() if over else None
        story = self._story
        await self.push_screen(StoryScreen(story.title, story.about, self._refused, facts))

    def on_event(self, event: Event) -> Coroutine[Any, Any, None]:
        by_hand = isinstance(event, (Key, MouseDown, MouseScrollDown, MouseScrollUp, Paste))
        if by_hand and self._tour.plays and not self._tour.is_own(event):
            keys = self.keymap.get("demo.tour", "ctrl+g").split(",")
            if not (isinstance(event, Key) and event.key in keys):
                self._hold_tour()
        return super().on_event(event)

    def _hold_tour(self) -> None:
        self._tour.held = True
        self.workers.cancel_group(self, _TOUR)
        self.draw_lines()

    async def action_tour(self) -> None:
        if self._tour.plays:
            self._hold_tour()
        elif not self._tour.over:
            await self.show_watch_screen()
            if self._time.paused:
                self.action_stop_time()
            playing = self._tour.play(self.post_message, self._begin_step)
            self.run_worker(playing, group=_TOUR, exclusive=True, exit_on_error=False)

    def _begin_step(self, step: TourStep) -> None:
        if step.speed is not None:
            self._time.run_at(step.speed)
            self.use_speed()
        self.draw_lines()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "tour" and self._tour.over:
            return False
        return super().check_action(action, parameters)

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

    def show_run(self, folder: RunDir) -> None:
        """Show the run of the story, at once or when the view opens."""
        if self.is_running:
            self.attach_to(folder)
        else:
            self._first_run = folder.path

    def on_ready(self) -> None:
        self.report_refusals(self._refused)
        if self._plays_tour:
            self.call_later(self.action_tour)

    def report_refusals(self, refused: tuple[str, ...]) -> None:
        self._refused = refused
        if refused and self.is_running:
            more = f", and {len(refused) - 1:,} more" if len(refused) > 1 else ""
            words = f"Refused parts of the plan: {refused[0]}{more}; i shows it again."
            self.report_news(words, "warning", _REFUSED_S)
