"""The Throttle dialog: the rates of the run, what is copied under them, and a new rate."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.widget import Widget
from textual.widgets import Static

from ktui.columns import Column
from ktui.execution.host.client import undo_throttle
from ktui.execution.journal.commands import SetThrottle
from ktui.execution.run.run import Run
from ktui.progress.summary import Inflow
from ktui.quantities import as_rate
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece, cut_pieces
from ktui.tui.draw.paint import RowColumn, content, table_lines
from ktui.tui.run_view.attached import AttachedRun, RunStatus
from ktui.tui.run_view.throttle import (
    RateNow,
    ends_nothing,
    lists_in_words,
    rates_now,
    throttle_effects,
)
from ktui.tui.screens.forms import ThrottleForm
from ktui.tui.screens.run.change_screen import RunChangeScreen
from ktui.tui.widgets.bindings import give_ids, hidden
from ktui.tui.widgets.lines import objective_table
from ktui.tui.widgets.services import services

_LEAST = 6
_OTHER_LINES = 6  # lines of the dialog beside the brokers, what the rate means, and the answer
_LEAST_LINES = 4


def throttle_table(rows: Sequence[RateNow], width: int) -> list[Content]:
    """Lay out the rows in `width` cells, the heading first; the last column is cut to fit."""
    if not rows:
        return [Content.styled("No broker gets replicas any more.", "$dim")]
    return [content(cut_pieces(line, width)) for line in table_lines(_COLUMNS, rows)]


def _of(value: Callable[[Inflow], str]) -> Callable[[RateNow], Piece]:
    def cell(row: RateNow) -> Piece:
        text = figures.UNKNOWN if row.inflow is None else value(row.inflow)
        return Piece(text, "dim" if text == figures.UNKNOWN else "")

    return cell


def _set_now(row: RateNow) -> Piece:
    if row.set_to == "-":
        return Piece(row.set_to, "dim")
    return Piece(row.set_to if row.needed else f"{row.set_to} unused")


def _inbound(row: RateNow) -> Piece:
    written = None if row.inflow is None else row.inflow.inbound_bytes_s
    if written is not None and row.wanted is not None and written >= row.wanted:
        return Piece(f"! {figures.as_rate(written)}", "stalled", bold=True)
    return Piece(figures.as_rate(written), "dim" if written is None else "")


def _fastest(inflow: Inflow) -> str:
    if inflow.fastest is None:
        return figures.UNKNOWN
    if not inflow.fastest_bytes_s:
        return "-"  # none is the fastest of several to which nothing is written
    return f"{figures.as_rate(inflow.fastest_bytes_s)} {inflow.fastest}"


def _column(heading: str, cell: Callable[[RateNow], Piece]) -> RowColumn:
    return Column(heading=heading, cell=lambda row: [cell(row)], width=_LEAST)


_COLUMNS = (
    _column("broker", lambda row: Piece(f"{row.broker}{' out' if row.sends else ''}", bold=True)),
    _column("throttle", lambda row: Piece("none" if row.wanted is None else as_rate(row.wanted))),
    _column("set now", _set_now),
    _column("before", lambda row: Piece(row.found, "dim")),
    _column("copied in", _of(lambda inflow: figures.as_copying(inflow.bytes_s))),
    _column("written", _inbound),
    _column("fastest inbound", _of(_fastest)),
)


class ThrottleScreen(RunChangeScreen):
    """Shows the throttle of the attached run, and requests a new one."""

    DEFAULT_CSS = """
    ThrottleScreen {
        & #throttle-scroll { height: auto; margin-bottom: 1; scrollbar-size-vertical: 1; }
        &.-taller #throttle-now, &.-tallest #throttle-now { margin-bottom: 1; }
    }
    """
    WIDTH = 94
    AUTO_FOCUS = "RateInput"
    BINDINGS: ClassVar[list[BindingType]] = [
        hidden(
            "enter", "apply", "apply",
            "Put the rate that is typed in force at once, also for what is in flight",
        ),
        hidden("pageup", "page(-1)", "brokers above", "Show brokers above"),
        hidden("pagedown", "page(1)", "brokers below", "Show brokers below"),
    ]  # fmt: skip
    give_ids("throttle", BINDINGS)
    UNDO = staticmethod(undo_throttle)
    READ_ONLY = (
        "This view is read-only; the throttle is changed in one that is opened with"
        " ktui watch --write, or with ktui throttle."
    )
    ENDED = "The run has ended."
    ASKED = "Requested; the brokers are set at the run's next poll."

    def __init__(self, *, write: bool) -> None:
        super().__init__("throttle", write=write)
        self._means = Content("")

    def body(self) -> ComposeResult:
        yield Static(id="throttle-now", markup=False)
        with VerticalScroll(id="throttle-scroll", can_focus=False):
            yield Static(id="throttle-rates", markup=False)
        yield ThrottleForm("new throttle", disabled=not self.write)
        yield Static(id="throttle-means", markup=False)
        yield Static(id="said", markup=False)

    def draw(self, attached: AttachedRun) -> None:
        run, words = attached.run, attached.status.throttle.words
        self.entitle(f"throttle of run {attached.name}")
        self.query_one("#throttle-now", Static).update(f"in force: {words}")
        width, objective = self.line_cells - 2, run.throttled.rates.objective
        lines = throttle_table(rates_now(run, attached.inflows), width)
        lines.append(Content.styled(lists_in_words(run), "$dim"))
        if objective is not None and not run.ended:
            held = objective_table(objective, run.throttled.held_at, width)
            lines = [*held, Content(""), *lines]
        self.query_one("#throttle-rates", Static).update(Content("\n").join(lines))
        self._show_effect()

    @on(Resize)
    def _fit(self) -> None:
        if self.attached is not None:
            self.draw(self.attached)

    def standing(self, status: RunStatus) -> str:
        if waits := status.throttle.waits:
            leave_behind = f"Should it never come back: ktui throttle {status.name} --leave-behind"
            return f"{waits[:1].upper()}{waits[1:]}. {leave_behind}"
        in_flight_steps = figures.as_count(status.steps_in_flight, "step")
        return f"Enter puts it in force at once, also for the {in_flight_steps} in flight."

    def changed(self, run: Run) -> bool:
        return run.throttle_change is not None

    @on(ThrottleForm.Changed)
    def _typed(self) -> None:
        if self.query_one(ThrottleForm).text:  # an accepted request empties it: keep the answer
            self._said = Content("")
        self._show_effect()

    def _show_effect(self) -> None:
        rates = self.query_one(ThrottleForm).rates()
        effects = []
        if rates is not None and self.attached is not None:
            effects = throttle_effects(self.attached.run.throttled, rates, self.attached.inflows)
            if unknown := rates.unknown_brokers(self._brokers):
                effects = [(f"{unknown[:1].upper()}{unknown[1:]}.", "stalled")]
        lines = [
            Content.styled(words if role == "dim" else f"! {words}", f"${role}")
            for words, role in effects
        ]
        self._means = Content("\n").join(lines)
        self.query_one("#throttle-means", Static).update(self._means)
        self.show_said()

    def show_said(self) -> None:
        super().show_said()
        said = str(self.query_one("#said", Static).content)
        room = self.room_beside(self._means.plain, said, lines=_OTHER_LINES)
        self.scrolled.styles.max_height = max(_LEAST_LINES, room)

    @property
    def _brokers(self) -> Collection[int]:
        last = services(self).progress.last
        return () if last is None else last.brokers

    @property
    def scrolled(self) -> Widget:
        return self.query_one(VerticalScroll)

    @on(ThrottleForm.Submitted)
    def action_apply(self) -> None:
        rates = self.query_one(ThrottleForm).rates()
        if not self.may_ask or rates is None or self.attached is None:
            self.show_said()
        elif self.attached.run.throttled.is_kept(rates):
            self.say(Content("This is in force already."))
        elif rates.unknown_brokers(self._brokers) or ends_nothing(rates, self.attached.inflows):
            self.show_said()  # the screen says so already
        else:
            undo = self.undoing
            self.ask(SetThrottle(rates) if undo is None else undo.command)
