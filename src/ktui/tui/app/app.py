"""The app: one polling loop, and the screens that show what it polled."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from rich.console import RenderableType
from rich.text import Text
from textual import on
from textual.app import App
from textual.binding import Binding, BindingType
from textual.events import Event as TerminalEvent
from textual.events import Key
from textual.filter import LineFilter, Monochrome, NoColor
from textual.screen import Screen
from textual.theme import BUILTIN_THEMES
from textual.timer import Timer, TimerCallback
from textual.worker import Worker, WorkerState

from ktui.cluster.clock import Clock, SystemClock
from ktui.cluster.observer import Interest, ObservationSource
from ktui.cluster.partition import TopicPartition
from ktui.execution.broker.cordon import BrokerAccess
from ktui.execution.host.catalog import RunState
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.commands import Command, SetThrottle
from ktui.execution.run.run import Run
from ktui.progress.news import EventSeverity
from ktui.progress.summary import BrokerLoad
from ktui.progress.timeline import Event, Phase, Progress
from ktui.recording.recorder import Recorder
from ktui.tui.app.broker_controller import BrokerController
from ktui.tui.app.run_catalog import CancelController, RunCatalog
from ktui.tui.app.run_controller import RunController
from ktui.tui.app.terminal import (
    KEEP_TITLE,
    RESTORE_TITLE,
    Alerts,
    ShownCells,
    ThemeReload,
    TypedAhead,
    terminal_title,
    words_at_close,
)
from ktui.tui.app.view_commands import Abilities, ViewCommands
from ktui.tui.draw.paint import GreyFilter
from ktui.tui.draw.themes import DEFAULT, FEW_COLOURS, LoadedThemes, role_defaults, theme_problems
from ktui.tui.poll import (
    ClusterOutage,
    DownBrokers,
    Overview,
    Polled,
    Polling,
    PollLoop,
    StaleThrottles,
    unite,
)
from ktui.tui.run_view import messages
from ktui.tui.run_view.attached import AttachedRun
from ktui.tui.run_view.launchers import BadCommand, EngineLauncher, RehearsalInView, RunVerbs
from ktui.tui.screens.brokers.screen import BrokersScreen
from ktui.tui.screens.dashboard.map import PartitionMap
from ktui.tui.screens.dashboard.screen import DashboardScreen
from ktui.tui.screens.detail.screen import DetailScreen
from ktui.tui.screens.dialog import Action, Commands, CommandScreen
from ktui.tui.screens.events import EventsScreen
from ktui.tui.screens.help import HelpScreen, help_sections
from ktui.tui.screens.panels import Panels, ViewKeeper
from ktui.tui.screens.questions import ToolCommandsScreen
from ktui.tui.screens.run.change_screen import LimitsScreen, ThrottleScreen
from ktui.tui.screens.runs import InsightsScreen, RunsScreen
from ktui.tui.screens.watch.list import PartitionList
from ktui.tui.screens.watch.screen import WatchScreen
from ktui.tui.widgets.bindings import APP_BINDINGS, HelpSection, key_text
from ktui.tui.widgets.footer import FooterKeys, Notifications
from ktui.tui.widgets.header import StatusHeader
from ktui.tui.widgets.services import (
    NeedsPolls,
    Notification,
    Services,
    ShowsPartition,
    ShowsProgress,
    ShowsRun,
    Status,
)

log = logging.getLogger(__name__)

_OPENS = {
    "show_dashboard": DashboardScreen,
    "show_brokers": BrokersScreen,
    "show_events": EventsScreen,
    "show_insights": InsightsScreen,
    "show_limits": LimitsScreen,
    "show_runs": RunsScreen,
    "show_throttle": ThrottleScreen,
    "show_tool_commands": ToolCommandsScreen,
}
_EVENT_SEVERITIES = {
    "information": EventSeverity.NEWS,
    "warning": EventSeverity.WARNING,
    "error": EventSeverity.TROUBLE,
}
"""The severity of a message as an event."""


class KtuiApp(App[None], Services):
    """Watches a cluster until the operator quits.

    The app closes neither `source` nor a loop that comes in its place. Without `engines`, `brokers`
    or `verbs`, the view can do nothing of that kind. `run` is the folder of the run to show first;
    by default the view finds the cluster's live one. `topics` are those to show first; none for all
    that is being reassigned. `place_of_runs` is shown in place of the state directory.
    """

    TITLE = "ktui"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS: ClassVar = {Commands}
    BINDINGS: ClassVar[list[BindingType]] = list(APP_BINDINGS)
    run_controller: RunController
    broker_controller: BrokerController

    def __init__(  # noqa: PLR0913 - the options of the command line, each by its name
        self,
        source: ObservationSource | PollLoop,
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
        engines: EngineLauncher | None = None,
        brokers: BrokerAccess | None = None,
        why_read_only: str | None = None,
        finds_runs: bool = True,
        place_of_runs: str | None = None,
        recorder: Recorder | None = None,
        alerts: bool = False,
        on_engine_death: Callable[[Run], None] | None = None,
        verbs: RunVerbs | None = None,
        filter_text: str = "",
        keymap: Mapping[str, str] = MappingProxyType({}),
        twin: RehearsalInView | None = None,
    ) -> None:
        super().__init__()
        self._themes = themes
        self.set_keymap(keymap)
        self._own_keys = keymap
        self._clock = clock or SystemClock()
        self._footer_messages = Notifications(self)
        self._typed_ahead, self._shown_cells = TypedAhead(self), ShownCells()
        self._why_read_only = why_read_only
        self.forbidden = (why_read_only or messages.READ_ONLY) if read_only else None
        """Why nothing can be changed from this view; None where the operator may."""
        self._alerts = Alerts(self.bell, self._write, on=alerts, on_death=on_engine_death)
        self.run_controller = RunController(self, self._clock, self._alerts)
        self.run_catalog = RunCatalog(
            self, state_dir=state_dir, engines=engines, place=place_of_runs
        )
        self.cancel_controller = CancelController(self, self._clock)
        self.broker_controller = BrokerController(self, brokers)
        self._bind_actions()
        self._commands = ViewCommands(self, verbs, twin)
        self._twin = twin
        self._grey = GreyFilter(lambda: self.current_theme)
        self._first_run, self._finds_runs = run, finds_runs
        self._theme_name = theme
        self._use_themes()
        self._panels, self._view_keeper = Panels(), ViewKeeper(state_dir)
        self.watch_screen = WatchScreen(
            cluster_name=cluster_name,
            interval_s=poll_interval_s,
            topics=topics,
            clock=self._clock,
            pane=self._panels,
            filter_text=filter_text,
        )
        self.abilities = Abilities(self)
        self._interval_s = poll_interval_s
        self._tls_unverified = tls_unverified
        self._recorder = recorder
        self._recording_problem: str | None = None
        self._stale_throttles, self._down = StaleThrottles(), DownBrokers()
        self.poll_loop = (
            source
            if isinstance(source, PollLoop)
            else Polling(
                source,
                self._clock,
                poll_interval_s,
                interest=self._interest,
                post=self.post_message,
                complete=self.run_controller.with_requests,
            )
        )

    def _bind_actions(self) -> None:
        """Let keys act on the part of the app that they are about."""
        run, runs, cancels = self.run_controller, self.run_catalog, self.cancel_controller
        self.action_show_limits, self.action_show_throttle = run.show_limits, run.show_throttle
        self.action_pause, self.action_undo = run.pause, run.undo
        self.action_show_tool_commands, self.action_start_plan = (
            run.show_tool_commands, runs.choose_plan
        )  # fmt: skip
        self.action_show_runs, self.action_show_insights = runs.show_runs, runs.show_insights
        self.action_cancel, self.action_cancel_foreign = cancels.cancel, cancels.cancel_foreign
        self.action_open_gate, self.action_next_run = cancels.open_gate, run.show_next_run

    def _use_themes(self) -> None:
        for each in self._themes.themes.values():
            self.register_theme(each)
        chosen = self._theme_name or DEFAULT
        self.theme = chosen if chosen in self._themes.themes else DEFAULT
        for name in BUILTIN_THEMES.keys() - self._themes.themes.keys() - {self.theme}:
            self.unregister_theme(name)

    def _use_few_colours(self) -> None:
        few = self.console.color_system == "standard" and not self.no_color
        if few and self._theme_name is None and not self.is_headless:
            self.theme = FEW_COLOURS

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return role_defaults(self.current_theme)

    def get_line_filters(self) -> Sequence[LineFilter]:
        filters = super().get_line_filters()
        if not self.no_color:
            return filters
        return [self._grey if isinstance(f, (Monochrome, NoColor)) else f for f in filters]

    def get_default_screen(self) -> Screen[None]:
        return self.watch_screen

    def on_mount(self) -> None:
        self._write(KEEP_TITLE)
        self.app_resume_signal.subscribe(self, self._write_all_again)
        self._use_few_colours()
        ThemeReload(self, self._themes).start()
        for words in theme_problems(self._themes, self._theme_name):
            self.report_news(words, "warning")

    def on_ready(self) -> None:
        if self._first_run is not None:
            self.run_catalog.attach_first(self._first_run)
        self.run_worker(self.poll_loop.run(), group="polling", exclusive=True, exit_on_error=False)

    @on(Worker.StateChanged)
    def _note_worker(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR:
            self.report_own_error(event.worker)

    def report_own_error(self, worker: Worker[Any]) -> None:
        error = worker.error
        log.error("a defect in %s", worker.group, exc_info=error)
        self.report_news(f"ktui's own error: {type(error).__name__}: {error}", "error")

    def _interest(self) -> Interest:
        return unite(s.interest for s in self.screen_stack if isinstance(s, NeedsPolls))

    @on(Polled)
    def _show_poll(self) -> None:
        if not self.is_running:  # it closes: its screens lose their widgets one by one
            return
        self._report_recording()
        if self.outage is None:
            self.show_polled()
        else:
            self.refresh_run()
            self.draw_screens()
            self._set_terminal_title("cluster lost")

    def _report_recording(self) -> None:
        problem = None if self._recorder is None else self._recorder.problem
        if problem is not None and problem != self._recording_problem:
            self._recording_problem = problem
            self.report_news(problem, "error")

    def show_polled(self) -> None:
        self.refresh_run()
        if self.progress.last is not None:
            self._stale_throttles.note(self.progress.last, self.run_controller.throttles)
            self._down.note(self.overview.down, self.progress.last.monotonic_s)
            self._keep_view(self.progress.last.cluster_id)
        if self.attached is None or self.attached.run.ended:
            self._alerts.note_stalls(self.overview.totals.stalled)
        self.draw_screens()
        self._set_terminal_title(
            terminal_title(self.overview, self.run_status, self.run_controller.others)
        )

    def _keep_view(self, cluster_id: str) -> None:
        self._view_keeper.restore(cluster_id, self.watch_screen, self._panels)
        write = self._view_keeper.changed(self.watch_screen, self._panels)
        if write is not None:
            self.run_worker(write, group="keeping the view", thread=True)

    def forget_polls(self) -> None:
        """Forget what earlier polls reported: the next ones do not continue them."""
        self._stale_throttles, self._down = StaleThrottles(), DownBrokers()
        self.watch_screen.forget_polls()

    def refresh_run(self) -> None:
        self.run_controller.refresh()
        if self._finds_runs:
            self.run_catalog.find_runs()

    def draw_screens(self) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, ShowsProgress):
                screen.show_progress()
            for header in screen.query(StatusHeader):
                header.update_status()
        for keys in self.screen.query(FooterKeys):
            keys.update_keys()

    @property
    def progress(self) -> Progress:
        return self.poll_loop.progress

    @property
    def overview(self) -> Overview:
        return self.poll_loop.overview

    @property
    def broker_loads(self) -> Mapping[int, BrokerLoad]:
        return self.overview.loads

    @property
    def outage(self) -> ClusterOutage | None:
        return self.poll_loop.outages.current

    @property
    def keymap(self) -> Mapping[str, str]:
        return self._own_keys

    def get_key_display(self, binding: Binding) -> str:
        chosen = binding.id in self._own_keys and binding.key_display is None
        return key_text(binding.key) if chosen else super().get_key_display(binding)

    @property
    def events(self) -> Sequence[Event]:
        return self.run_controller.merge_events(self.poll_loop.outages.merge(self.progress.events))

    @property
    def notification(self) -> Notification | None:
        return self._footer_messages.shown

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: str = "information",
        timeout: float | None = None,
        **_how: Any,
    ) -> None:
        words = ": ".join(filter(None, (title, message)))
        self.note_message(self._footer_messages.add(words, severity, timeout))

    def report_news(
        self, words: str, severity: str = "information", timeout_s: float | None = None
    ) -> None:
        """Show what no key has asked for; it waits behind the answer to a key."""
        self.note_message(self._footer_messages.add(words, severity, timeout_s, news=True))

    def note_message(self, shown: Notification) -> None:
        """Keep a message among the events: none is lost when a key drops it."""
        severity = _EVENT_SEVERITIES[shown.severity]
        self.poll_loop.outages.note(Event(self._clock.now(), shown.words, severity=severity))

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        super()._display(screen, self._shown_cells.only_changed(renderable))

    def _write_all_again(self, _: object) -> None:
        """Fill a terminal that has shown something else, as after ctrl+z and `fg`."""
        self._shown_cells.forget()
        self.screen.refresh(layout=True)

    async def on_event(self, event: TerminalEvent) -> None:
        if self._typed_ahead.holds(event):
            return
        if isinstance(event, Key):
            self._footer_messages.drop()
        await super().on_event(event)

    def set_timer(
        self,
        delay: float,
        callback: TimerCallback | None = None,
        *,
        name: str | None = None,
        pause: bool = False,
    ) -> Timer:
        """Textual gives up a late timer; without that of a resize the view keeps its old size."""
        timer = super().set_timer(delay, callback, name=name, pause=pause)
        timer._skip = False  # noqa: SLF001 - Textual has no argument for it
        return timer

    def clear_notifications(self) -> None:
        self._footer_messages.clear()

    @property
    def attached(self) -> AttachedRun | None:
        return self.run_controller.attached

    @property
    def cancel_gate(self) -> str:
        return self.cancel_controller.gate

    async def check_permitted(self, run: Run, command: Command) -> None:
        engines = self.run_catalog.engines
        if isinstance(command, SetThrottle) and command.rates and engines is not None:
            await engines.check_throttle(run, command.rates)

    @property
    def why_read_only(self) -> str | None:
        return self._why_read_only

    @property
    def selected(self) -> TopicPartition | None:
        showing = (s for s in reversed(self.screen_stack) if isinstance(s, ShowsPartition))
        return next((screen.partition for screen in showing), None)

    @property
    def marked(self) -> Collection[TopicPartition]:
        return self.watch_screen.partition_list.marked

    def attach_to(self, folder: RunDir) -> None:
        self.run_catalog.attach_to(folder)

    def resume_run(self, folder: RunDir) -> None:
        self.run_catalog.resume(folder)

    def roll_back_run(self, folder: RunDir) -> None:
        self.cancel_controller.roll_back_all(folder)

    @property
    def cluster_id(self) -> str | None:
        return None if self.progress.last is None else self.progress.last.cluster_id

    @on(WatchScreen.InterestChanged)
    def poll_now(self) -> None:
        self.poll_loop.poll_now()

    def refresh_screens(self) -> None:
        self.draw_screens()
        self.poll_now()

    def trail_to(self, screen: Screen[Any]) -> list[str]:
        run, stack = self.run_controller.attached, self.screen_stack
        listed = self.watch_screen.view.value if run is None else f"run {run.name}"
        until = stack.index(screen) + 1 if screen in stack else 0
        above = [each.title for each in stack[1:until] if each.title is not None]
        return [listed, *above] if above else []

    def cluster_status(self) -> Status:
        run = self.run_controller
        return Status(
            cluster_name=self.watch_screen.cluster_name,
            read_only=self.forbidden is not None,
            tls_unverified=self._tls_unverified,
            interval_s=self._interval_s,
            now=self._clock.now(),
            now_s=self._clock.monotonic(),
            last=self.progress.last,
            overview=self.overview,
            run=run.status,
            others=run.others,
            foreign=len(run.foreign),
            foreign_of_runs=run.foreign_of_runs,
            foreign_stalled=tuple(t.tp for t in run.foreign if t.phase is Phase.STALLED),
            movers=run.movers,
            down_since_s=self._down.since_s,
            left_behind=self._stale_throttles.count,
            cancel_gate=self.cancel_gate,
            outage=self.outage,
            recorded=None if self._recorder is None else self._recorder.problem is None,
        )

    @on(PartitionList.Opened)
    @on(PartitionMap.Opened)
    async def _show_detail(self, message: PartitionList.Opened | PartitionMap.Opened) -> None:
        await self._open(DetailScreen(message.tp))

    async def action_show_brokers(self) -> None:
        await self._open(BrokersScreen())
        self.poll_now()

    async def action_show_dashboard(self) -> None:
        await self._open(DashboardScreen())
        self.poll_now()

    async def action_show_events(self) -> None:
        await self._open(EventsScreen())

    async def action_show_help(self) -> None:
        await self.push_screen(HelpScreen(self.help_sections(), self.screen))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        if action == "resume_run":
            status = self.run_controller.status
            return status is not None and status.state is RunState.RESUMABLE
        if action == "start_plan":  # none above another, nor above its rehearsal
            return not self.run_controller.makes_plan
        own = _OPENS.get(action)
        return own is None or not isinstance(self.screen, own)

    async def _open(self, screen: Screen[None]) -> None:
        if type(self.screen) is type(screen):
            return
        await self.push_screen(screen)
        if isinstance(screen, ShowsRun):
            screen.show_run(self.attached, set())
        if isinstance(screen, ShowsProgress):
            screen.show_progress()

    async def action_command_line(self) -> None:
        async def typed(action: Action | None) -> None:
            if action is not None:
                await action()

        self.clear_notifications()
        await self.push_screen(CommandScreen(self._commands, self._commands.history), typed)

    async def show_watch_screen(self) -> None:
        while self.screen is not self.watch_screen:
            await self.pop_screen()

    def let_happen(self, event: str) -> None:
        if self._twin is None:
            return
        try:
            answer = self._twin.let_happen(event)
        except BadCommand as problem:
            self.notify(str(problem), title=event, severity="warning")
        else:
            self.notify(answer)
            self.poll_now()

    def action_resume_run(self) -> None:
        if self.attached is not None:
            self.run_catalog.resume(self.attached.folder)

    def help_sections(self) -> list[HelpSection]:
        return help_sections(type(self), self.keymap)

    def neighbour(self, tp: TopicPartition, step: int) -> TopicPartition | None:
        return self.watch_screen.partition_list.arrangement.neighbour(tp, step)

    def filter_by_broker(self, broker: int) -> None:
        self.watch_screen.filter_by(f"broker:{broker}")

    def action_quit_view(self) -> None:
        write = self._view_keeper.changed(self.watch_screen, self._panels)
        if write is not None:
            write()
        words = words_at_close(self.overview, self.run_status, write=self.forbidden is None)
        self.exit(message=Text(words))

    def _set_terminal_title(self, words: str) -> None:
        self._write(f"\x1b]0;ktui {self.watch_screen.cluster_name}: {words}\x07")

    def _write(self, sequence: str) -> None:
        if self._driver is not None:
            self._driver.write(sequence)

    def on_unmount(self) -> None:
        self.run_controller.close()
        self._write(RESTORE_TITLE)
