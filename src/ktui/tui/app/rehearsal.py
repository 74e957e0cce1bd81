"""The app on a rehearsal: a plan on a simulated twin of its cluster, which one may break."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual.binding import BindingType

from ktui.captions import Caption
from ktui.cluster.observer import Observer
from ktui.progress.timeline import Progress
from ktui.tui.app.simulated import CLOCK_BINDINGS, PICTURE_BINDING, QUIT_BINDING, SimulatedApp
from ktui.tui.run_view.launchers import BranchInView, RehearsalInView
from ktui.tui.screens.brokers.screen import BrokersScreen
from ktui.tui.screens.brokers.status import BreakList, BreakScreen, ListedChoice, break_choices
from ktui.tui.screens.rehearsal import ReportScreen
from ktui.tui.widgets.bindings import APP_BINDINGS, HelpGroup, bind, give_ids, help_group
from ktui.tui.widgets.header import StatusHeader, line_under
from ktui.tui.widgets.lines import BranchLines

REHEARSAL_BINDINGS = [
    *CLOCK_BINDINGS,
    bind(
        "B", "break_twin", "break it",
        "Let something happen to the twin, at the broker under the cursor", id="app.break",
    ),
    bind(
        "i", "show_report", "report",
        "Show what the plan has done to the twin so far, or to its end", id="app.report",
    ),
    bind("R", "play_again", "again", "Play the rehearsal from the start", id="app.again"),
    PICTURE_BINDING,
]  # fmt: skip

_OFFER = "`i` shows the report, `R` plays it again."


class RehearsalApp(SimulatedApp):
    """Shows a rehearsal. Once the app has ended, `plays_again` says whether to play it again."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(binding for binding in APP_BINDINGS if binding.key != "q"),
        *REHEARSAL_BINDINGS,
        QUIT_BINDING,
    ]
    give_ids("app", BINDINGS)

    def __init__(self, observer: Observer, *, rehearsal: RehearsalInView, **how: Any) -> None:
        super().__init__(observer, twin=rehearsal, **how)
        self._rehearsal = rehearsal
        self.plays_again = False
        self.watch_screen.when_quiet = (
            "This cluster is a simulated twin, on which a plan is rehearsed.",
            "i  what the plan has done\nB  break it\nR  play it again",
        )

    # ------------------------------------------------------------------ its end

    @property
    def captions(self) -> Sequence[Caption]:
        return () if self.caption is None else (self.caption,)

    @property
    def caption(self) -> Caption | None:
        outcome = self._rehearsal.outcome
        return Caption(say=f"{outcome}: {_OFFER}") if outcome else None

    # ------------------------------------------------------------------ the keys

    @property
    def keys_left_out_first(self) -> tuple[str, ...]:
        return (
            "stop_time", "slower", "show_runs", "note", "freeze", "sort", "mark", "view", "filter",
            "picture", "play_again", "start_plan", "show_events", "cancel", "show_dashboard",
            "pause", "show_limits", "show_throttle", "show_brokers",
        )  # fmt: skip

    def help_groups(self) -> list[HelpGroup]:
        breaks = (*BreakScreen.BINDINGS, *BreakList.BINDINGS)
        return [
            *super().help_groups(),
            help_group("break it", breaks, self.keymap, screens=(BreakScreen,)),
            help_group("report", ReportScreen.BINDINGS, self.keymap, screens=(ReportScreen,)),
        ]

    async def action_show_report(self) -> None:
        if isinstance(self.screen, ReportScreen):
            return
        self.clear_notifications()
        await self.push_screen(ReportScreen(self._rehearsal))

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
        """The broker of the row; of a partition the one that copies, else its first replica."""
        if isinstance(self.screen, BrokersScreen):
            return self.screen.selected
        kept, added = self._replicas_under_cursor
        return next(iter((*added, *kept)), None)

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

    def action_play_again(self) -> None:
        self.plays_again = True
        self.exit()

    def action_quit_view(self) -> None:
        self.exit(message=Text("ktui: the twin has ended with its view. Nothing was sent."))


_TICK_S = 0.5  # real seconds between two redraws of the lines


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
        super().on_ready()
        self.poll_loop.add_history(self._before)
        self.set_interval(_TICK_S, self._draw_lines)

    @property
    def captions(self) -> Sequence[Caption]:
        return ()

    def _draw_lines(self) -> None:
        attached = self.attached
        was, here = self._branch.beside(None if attached is None else attached.run)
        for screen in self.screen_stack:
            for header in screen.query(StatusHeader):
                line_under(header, BranchLines).show(was, here)

    def push_screen(self, *args: Any, **how: Any) -> Any:
        opened = super().push_screen(*args, **how)
        self.call_after_refresh(self._draw_lines)
        return opened

    def action_quit_view(self) -> None:
        self.exit(message=Text(""))
