"""The app on a simulated cluster, at its own speed: of a rehearsal or a branch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import Input

from ktui.captions import Caption
from ktui.cluster.asking import PATIENCE
from ktui.cluster.clock import PausableClock
from ktui.cluster.observer import ObservationSource, Observer
from ktui.cluster.text import clean
from ktui.progress.timeline import Progress
from ktui.tui.app.app import KtuiApp
from ktui.tui.poll import PollLoop
from ktui.tui.run_view.launchers import BranchInView, RehearsalInView
from ktui.tui.screens.brokers.screen import BrokersScreen
from ktui.tui.screens.brokers.status import BreakList, BreakScreen, ListedChoice, break_choices
from ktui.tui.screens.runs import ReportScreen
from ktui.tui.story import CaptionLine, picture_name, save_picture
from ktui.tui.widgets.bindings import (
    APP_BINDINGS,
    HelpSection,
    bind,
    give_ids,
    hidden,
    keys_section,
)
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.header import StatusHeader, line_under
from ktui.tui.widgets.lines import BranchLines
from ktui.tui.widgets.services import Status

_TICK_S = 0.25  # real seconds between two looks at whether a caption is due
_POLL_EVERY_S = 1.0  # real seconds between two polls, unless `_LONGEST_POLL_S` is shorter
_LONGEST_POLL_S = 10.0
"""The cluster's seconds between two polls. With fewer polls, short moves would go unseen."""

CLOCK_BINDINGS = [
    bind(
        "0", "stop_time", "stop time",
        "Stop the cluster's time, or let it go on", id="demo.stop-time",
    ),
    bind(
        "minus", "slower", "speed",
        "Let the cluster's time run more slowly", key_display="-+", id="demo.slower",
    ),
    hidden("plus", "faster", "faster", "Let the cluster's time run faster", id="demo.faster"),
]  # fmt: skip
PICTURE_BINDING = bind(
    "ctrl+s", "picture", "picture",
    "Write a picture of the screen, an SVG file",
    key_display="^s", priority=True, id="demo.picture",
)  # fmt: skip
BREAK_BINDING = bind(
    "B", "break_twin", "break it",
    "Let something happen to the simulated cluster, at the broker under the cursor",
    id="app.break",
)  # fmt: skip
QUIT_BINDING = bind("q", "quit_view", "quit", "Close this view, and end the simulated cluster")


def with_usual(own: Iterable[Binding]) -> list[BindingType]:
    """Put the keys of a simulated view before the one that closes it, as its last."""
    usual = (binding for binding in APP_BINDINGS if binding.key != "q")
    bindings: list[BindingType] = [*usual, *CLOCK_BINDINGS, *own, PICTURE_BINDING, QUIT_BINDING]
    give_ids("app", bindings)
    return bindings


def poll_interval_s(speed: float) -> float:
    """Return the cluster's seconds between two polls at a speed of its clock."""
    return min(_POLL_EVERY_S * speed, _LONGEST_POLL_S)


class TimedApp(KtuiApp):
    """Shows what has a clock of its own, whose speed keys change, and a line of its own."""

    def __init__(
        self, source: ObservationSource | PollLoop, *, clock: PausableClock, **how: Any
    ) -> None:
        super().__init__(source, clock=clock, **how)
        self._time = clock

    def on_ready(self) -> None:
        self.set_interval(_TICK_S, self.draw_lines)
        self.draw_lines()

    def push_screen(self, *args: Any, **how: Any) -> Any:
        opened = super().push_screen(*args, **how)
        self.call_after_refresh(self.draw_lines)
        return opened

    def draw_lines(self) -> None:
        """Draw what this view adds to every screen."""
        raise NotImplementedError

    @property
    def speed(self) -> float:
        return self._time.speed

    def action_slower(self) -> None:
        self._time.slower()
        self.use_speed()

    def action_faster(self) -> None:
        self._time.faster()
        self.use_speed()

    def use_speed(self) -> None:
        self.draw_lines()


class SimulatedApp(TimedApp):
    """Shows a simulated cluster, whose time runs at a speed of its own."""

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
        self._observer, self._pictures = observer, pictures
        self._observer.wait_for_brokers(PATIENCE * interval_s)
        self._shown_name, self._began_s = name, clock.monotonic()

    @property
    def at_s(self) -> float:
        return self._time.monotonic() - self._began_s

    @property
    def captions(self) -> Sequence[Caption]:
        return ()

    @property
    def caption(self) -> Caption | None:
        return None

    def draw_lines(self) -> None:
        due = self.caption
        if not self.captions:
            return
        for screen in self.screen_stack:
            if screen.query(StatusHeader):
                for keys in screen.query(FooterKeys):
                    self._line_above(keys).shown = due

    def _line_above(self, keys: FooterKeys) -> CaptionLine:
        lines = keys.screen.query(CaptionLine)
        if lines:
            return lines.first()
        line = CaptionLine(self.captions)
        keys.screen.mount(line, before=keys)
        return line

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

    def use_speed(self) -> None:
        interval_s = poll_interval_s(self._time.speed)
        self._observer.wait_for_brokers(PATIENCE * interval_s)
        self._interval_s = self.watch_screen.interval_s = interval_s
        self.poll_loop.poll_every(interval_s)
        self.draw_screens()

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

    def help_sections(self) -> list[HelpSection]:
        breaks = keys_section("break it", (BreakScreen, BreakList), self.keymap, (BreakScreen,))
        return [*super().help_sections(), breaks]

    async def action_break_twin(self) -> None:
        last = self.progress.last
        if last is None:
            return
        brokers = sorted(last.brokers)
        broker = self._broker_under_cursor
        if broker not in brokers:
            broker = brokers[0]

        def chosen(event: str | None) -> None:
            if event is not None:
                self.let_happen(event)

        await self.push_screen(BreakScreen(brokers, broker, self._choices), chosen)

    @property
    def _broker_under_cursor(self) -> int | None:
        """That of the row; of a partition the one that is down, or that copies, or the first."""
        if isinstance(self.screen, BrokersScreen):
            return self.screen.selected
        kept, added = self._replicas_under_cursor
        down = [b for b in (*added, *kept) if b in self.overview.down]
        return next(iter((*down, *added, *kept)), None)

    @property
    def _replicas_under_cursor(self) -> tuple[Sequence[int], Sequence[int]]:
        tp, last, attached = self.selected, self.progress.last, self.attached
        if tp is None:
            return (), ()
        state = None if last is None else last.partitions.get(tp)
        if state is not None:
            return [b for b in state.replicas if b not in state.adding], state.adding
        track = None if attached is None else attached.run.tracks.get(tp)
        if track is None:
            return (), ()
        return track.original, [b for b in track.target if b not in track.original]

    def _choices(self, broker: int) -> Sequence[ListedChoice]:
        tp, last = self.selected, self.progress.last
        kept, _ = self._replicas_under_cursor
        return break_choices(
            broker,
            up=last is not None and broker in last.online,
            topic=None if tp is None or not kept else tp.topic,
            replicas=len(kept),
        )


REHEARSAL_BINDINGS = [
    BREAK_BINDING,
    bind(
        "i", "show_report", "report",
        "Show what the plan has done to the twin so far, or to its end", id="app.report",
    ),
    bind("R", "play_again", "again", "Play the rehearsal from the start", id="app.again"),
]  # fmt: skip

_OFFER = "`i` shows the report, `R` plays it again."


class RehearsalApp(SimulatedApp):
    """Shows a rehearsal. Once the app has ended, `plays_again` says whether to play it again."""

    BINDINGS: ClassVar[list[BindingType]] = with_usual(REHEARSAL_BINDINGS)

    def __init__(self, observer: Observer, *, rehearsal: RehearsalInView, **how: Any) -> None:
        super().__init__(observer, twin=rehearsal, **how)
        self._rehearsal = rehearsal
        self.plays_again = False
        self.watch_screen.when_quiet = (
            "This cluster is a simulated twin, on which a plan is rehearsed.",
            "i  what the plan has done\nB  break it\nR  play it again",
        )

    @property
    def captions(self) -> Sequence[Caption]:
        return () if self.caption is None else (self.caption,)

    @property
    def caption(self) -> Caption | None:
        outcome = self._rehearsal.outcome
        return Caption(say=f"{outcome}: {_OFFER}") if outcome else None

    @property
    def keys_left_out_first(self) -> tuple[str, ...]:
        return (
            "stop_time", "slower", "show_runs", "note", "freeze", "sort", "mark", "view", "filter",
            "picture", "play_again", "start_plan", "show_events", "cancel", "show_dashboard",
            "pause", "show_limits", "show_throttle", "show_brokers",
        )  # fmt: skip

    def help_sections(self) -> list[HelpSection]:
        report = keys_section("report", [ReportScreen], self.keymap, (ReportScreen,))
        return [*super().help_sections(), report]

    async def action_show_report(self) -> None:
        if isinstance(self.screen, ReportScreen):
            return
        self.clear_notifications()
        await self.push_screen(ReportScreen(self._rehearsal))

    def action_play_again(self) -> None:
        self.plays_again = True
        self.exit()

    def action_quit_view(self) -> None:
        self.exit(message=Text("ktui: the twin has ended with its view. Nothing was sent."))


class BranchApp(RehearsalApp):
    """Shows a branch; every screen has what was and what is here under its header."""

    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(
        self, observer: Observer, *, branch: BranchInView, before: Progress, **how: Any
    ) -> None:
        super().__init__(observer, rehearsal=branch, **how)
        self._branch, self._before = branch, before
        self.watch_screen.when_quiet = (
            "This cluster is a simulated twin of a moment of a recording.",
            "i  what was, and what is here\nB  break it\nR  go back to the moment",
        )

    def on_ready(self) -> None:
        self.poll_loop.add_history(self._before)

    def draw_lines(self) -> None:
        attached = self.attached
        moments = self._branch.beside(None if attached is None else attached.run)
        for screen in self.screen_stack:
            for header in screen.query(StatusHeader):
                line_under(header, BranchLines).moments = moments

    def action_quit_view(self) -> None:
        self.exit(message=Text(""))
