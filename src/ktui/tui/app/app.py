"""The app: one loop that polls, and the screens that are given what it sees."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import ClassVar

import msgspec
from rich.text import Text
from textual import on
from textual.binding import BindingType
from textual.screen import Screen
from textual.theme import BUILTIN_THEMES

from ktui.cluster.clock import Clock, SystemClock
from ktui.cluster.observer import Interest, Observations
from ktui.cluster.partition import TopicPartition
from ktui.execution.host.state_dir import StateDir
from ktui.progress.timeline import Progress
from ktui.tui.app import terminal_title
from ktui.tui.app.cancel_controller import CancelApp
from ktui.tui.app.command_palette import Commands
from ktui.tui.app.help_groups import help_groups
from ktui.tui.draw.themes import DEFAULT, LoadedThemes, role_defaults, wrong_with
from ktui.tui.poll.outages import Outages
from ktui.tui.poll.overview import Overview
from ktui.tui.poll.polling import Looking, Polled, PollFailed, Polling
from ktui.tui.poll.stale_throttles import Leftovers
from ktui.tui.run_view.launchers import Engines
from ktui.tui.screens.brokers.screen import BrokersScreen
from ktui.tui.screens.detail.screen import DetailScreen
from ktui.tui.screens.events import EventsScreen
from ktui.tui.screens.help import HelpScreen
from ktui.tui.screens.insights import InsightsScreen
from ktui.tui.screens.plan.plan import PlanScreen
from ktui.tui.screens.run.cancel import CancelScreen
from ktui.tui.screens.run.limits import LimitsScreen
from ktui.tui.screens.run.throttle import ThrottleScreen
from ktui.tui.screens.runs import RunsScreen
from ktui.tui.screens.services import Shows, ShowsRun
from ktui.tui.screens.watch.screen import WatchScreen
from ktui.tui.widgets.bindings import APP_BINDINGS, HelpGroup
from ktui.tui.widgets.header import Status, StatusHeader


class KtuiApp(CancelApp):
    """Watches a cluster until it is quit.

    Args:
        source: where observations come from, or a loop that has them; the app closes neither.
        cluster_name: the context's name, or the cluster's id, for people.
        read_only: whether the badge says so.
        tls_unverified: whether anyone may pose as the cluster, which the header says.
        poll_interval_s: seconds between the starts of two polls.
        theme: the theme to start with; None for the default.
        themes: all there are, and what was wrong with the others.
        topics: the topics to show first; empty to show what is reassigning.
        clock: time.
        run: the folder of the run to show; None for the cluster's live one, if there is one.
        state_dir: where runs are remembered; None for nowhere.
        engines: starts and resumes runs; None where that cannot be done from here.
    """

    TITLE = "ktui"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS: ClassVar = {Commands}
    BINDINGS: ClassVar[list[BindingType]] = list(APP_BINDINGS)

    def __init__(  # noqa: PLR0913 - what the command line knows, each by its name
        self,
        source: Observations | Looking,
        *,
        cluster_name: str,
        read_only: bool,
        tls_unverified: bool = False,
        poll_interval_s: float,
        theme: str | None,
        themes: LoadedThemes,
        topics: frozenset[str] = frozenset(),
        clock: Clock | None = None,
        run: Path | None = None,
        state_dir: StateDir | None = None,
        engines: Engines | None = None,
    ) -> None:
        self._themes = themes
        self._clock = clock or SystemClock()
        super().__init__(
            clock=self._clock,
            write=not read_only,
            state_dir=state_dir,
            run=run,
            engines=engines,
        )
        self._wanted_theme = theme
        self._use_themes()
        self.progress, self.overview = Progress(), Overview()
        self.watch_screen = WatchScreen(
            cluster_name=cluster_name,
            interval_s=poll_interval_s,
            topics=topics,
            clock=self._clock,
        )
        self._read_only, self._interval_s = read_only, poll_interval_s
        self._tls_unverified = tls_unverified
        self._outages, self._leftovers = Outages(), Leftovers()
        self._polled = Progress()
        self._looking = (
            source
            if isinstance(source, Looking)
            else Polling(
                source,
                self._clock,
                poll_interval_s,
                interest=self._interest,
                tell=self.post_message,
                informed=self.informed,
            )
        )

    def _use_themes(self) -> None:
        for each in self._themes.themes.values():
            self.register_theme(each)
        wanted = self._wanted_theme or DEFAULT
        self.theme = wanted if wanted in self._themes.themes else DEFAULT
        for name in BUILTIN_THEMES.keys() - self._themes.themes.keys() - {self.theme}:
            self.unregister_theme(name)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Give every role a colour, also in a theme that knows none."""
        return role_defaults(self.current_theme)

    def get_default_screen(self) -> Screen[None]:
        """Start with the Watch screen."""
        return self.watch_screen

    def on_mount(self) -> None:
        """Begin to poll, and say what is wrong with themes."""
        self._write(terminal_title.KEEP_TITLE)
        self.begin_with_run()
        self.run_worker(self._looking.run(), group="polling", exclusive=True, exit_on_error=False)
        for words in wrong_with(self._themes, self._wanted_theme):
            self.tell(words, severity="warning")

    def _interest(self) -> Interest:
        wanted = self.watch_screen.interest
        census = any(isinstance(screen, BrokersScreen) for screen in self.screen_stack)
        opened = {s.tp for s in self.screen_stack if isinstance(s, DetailScreen)}
        partitions = wanted.partitions | (opened if self.attached is not None else set())
        for screen in self.screen_stack:
            partitions |= frozenset(screen.concerned if isinstance(screen, CancelScreen) else ())
        return msgspec.structs.replace(wanted, census=census, partitions=partitions)

    @on(Polled)
    def _show(self, message: Polled) -> None:
        if message.progress.last is not None:
            self._outages.answered(message.progress.last.at, message.progress.last.monotonic_s)
        self.take_in(message.progress, message.overview)

    def take_in(self, progress: Progress, overview: Overview) -> None:
        """Take in what is seen now, and have every screen draw it."""
        self._polled, self.overview = progress, overview
        self.refresh_run(self._polled)
        if progress.last is not None:
            self._leftovers.note(progress.last, self.throttles_of_run)
        self._show_all()
        self._set_terminal_title(terminal_title.title(overview, self.run_status))

    @on(PollFailed)
    def _show_lost(self, message: PollFailed) -> None:
        last = self._polled.last
        since_s = None if last is None else last.monotonic_s
        now = self._clock.now(), self._clock.monotonic()
        self.refresh_run(self._polled)
        self._outages.lost(message.outage, now[0], since_s, now[1])
        self._show_all()
        self._set_terminal_title("cluster lost")

    def _show_all(self) -> None:
        """Hand every screen what was seen last, and whether that is current."""
        events = self.desk.among(self._outages.among(self._polled.events))
        self.progress = msgspec.structs.replace(self._polled, events=events)
        for screen in self.screen_stack:
            if isinstance(screen, Shows):
                screen.show(self.progress, self._outages.current)
            for header in screen.query(StatusHeader):
                header.update_status()

    @property
    def cluster_id(self) -> str | None:
        """The cluster that is seen; None until it was."""
        return None if self._polled.last is None else self._polled.last.cluster_id

    @on(WatchScreen.InterestChanged)
    def look_now(self) -> None:
        """Look at once, for what is to be looked at has changed."""
        self._looking.look_now()

    def show_again(self) -> None:
        """Hand every screen what is known, as it is when a run has come."""
        self._show_all()
        self.look_now()

    def begin_with(self, past: Progress) -> None:
        """Take what was seen before as what this view begins with."""
        self._looking.begin_with(past)

    def settings_changed(self, topics: Collection[str], brokers: Collection[int]) -> None:
        """Have settings that the run has changed read again in the next poll."""
        self._looking.settings_changed(topics, brokers)

    def cluster_status(self) -> Status:
        """Tell how the cluster is now."""
        return Status(
            cluster_name=self.watch_screen.cluster_name,
            read_only=self._read_only,
            tls_unverified=self._tls_unverified,
            interval_s=self._interval_s,
            now=self._clock.now(),
            now_s=self._clock.monotonic(),
            seen=self._polled.last,
            overview=self.overview,
            left_behind=self._leftovers.count,
            cancel_gate=self.cancel_gate,
            outage=self._outages.current,
        )

    @on(WatchScreen.DetailWanted)
    async def _show_detail(self, message: WatchScreen.DetailWanted) -> None:
        await self._open(DetailScreen(message.tp))

    async def action_show_brokers(self) -> None:
        """Show the brokers."""
        await self._open(BrokersScreen())
        self.look_now()

    async def action_show_events(self) -> None:
        """Show what has happened."""
        await self._open(EventsScreen())

    async def action_show_help(self) -> None:
        """Show every key."""
        await self.push_screen(HelpScreen(self.help_groups()))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave out the key of the screen that is open already."""
        del parameters
        own = _OPENS.get(action)
        return own is None or not isinstance(self.screen, own)

    async def _open(self, screen: Screen[None]) -> None:
        """Open a screen with what is known; one of its kind that is on top already stays."""
        if type(self.screen) is type(screen):
            return
        await self.push_screen(screen)
        if isinstance(screen, ShowsRun):
            screen.show_run(self.attached, set())
        if isinstance(screen, Shows):
            screen.show(self.progress, self._outages.current)

    def help_groups(self) -> list[HelpGroup]:
        """Give every key of every screen."""
        return help_groups(self.BINDINGS)

    def neighbour(self, tp: TopicPartition, step: int) -> TopicPartition | None:
        """Give the partition so many rows below in the list; None beyond its ends."""
        return self.watch_screen.partition_list.arrangement.neighbour(tp, step)

    def filter_by_broker(self, broker: int) -> None:
        """Show only the partitions that have to do with a broker."""
        self.watch_screen.filter_by(f"broker:{broker}")

    def action_quit_view(self) -> None:
        """Close the view, saying what goes on without it."""
        words = terminal_title.closed(self.overview, self.run_status, write=self.write)
        self.exit(message=Text(words))

    def _set_terminal_title(self, words: str) -> None:
        self._write(f"\x1b]0;ktui {self.watch_screen.cluster_name}: {words}\x07")

    def _write(self, sequence: str) -> None:
        if self._driver is not None:
            self._driver.write(sequence)

    def on_unmount(self) -> None:
        """Give the terminal its own title back, and let go of the run's journal."""
        self.desk.detach()
        self._write(terminal_title.RESTORE_TITLE)


_OPENS = {
    "show_brokers": BrokersScreen,
    "show_events": EventsScreen,
    "show_insights": InsightsScreen,
    "show_limits": LimitsScreen,
    "show_runs": RunsScreen,
    "show_throttle": ThrottleScreen,
    "start_plan": PlanScreen,
}
