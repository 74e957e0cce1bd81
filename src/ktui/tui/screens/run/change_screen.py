"""The dialogs that request changes from the engine of the attached run: limits, throttle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Key, Resize
from textual.widget import Widget
from textual.widgets import Static

from ktui.cluster.partition import TopicPartition
from ktui.columns import Column
from ktui.execution import RunProblem, RunRefused
from ktui.execution.host.catalog import RunState
from ktui.execution.host.client import Undo, undo_limits, undo_throttle
from ktui.execution.journal.commands import Command, SetLimits, SetThrottle
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.pacing.limits import COUNTED, LETTERS, OF_ONE_BROKER, Limit, Limits, limit_figure
from ktui.pacing.queue import Usage
from ktui.pacing.situation import Place, demand_of
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
from ktui.tui.screens.dialog import Dialog
from ktui.tui.screens.forms import ChangeForm, LimitsForm, ThrottleForm, leaps
from ktui.tui.widgets.bindings import bind, give_ids, hidden
from ktui.tui.widgets.lines import objective_table
from ktui.tui.widgets.services import ReportsOwnErrors, services


class RunChangeScreen(Dialog[None], ReportsOwnErrors):
    """Shows a part of the attached run, requests a change of it, and shows the answer."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind(
            "ctrl+z", "undo", "undo",
            "Type what was in force before your last change; enter puts that back",
            key_display="ctrl+z",
        ),
        bind("escape,q", "dismiss", "back", "Go back; nothing is changed", key_display="esc"),
    ]  # fmt: skip
    give_ids("change", BINDINGS)
    UNDO: Callable[[Run], Undo]
    """Returns the undo of the last change; RunRefused where there is none."""
    READ_ONLY: ClassVar[str]
    ENDED: ClassVar[str]
    ASKED: ClassVar[str]

    def __init__(self, title: str, *, write: bool) -> None:
        super().__init__(title, dense=True)
        self.write = write
        self.attached: AttachedRun | None = None
        self._asking = False
        self._asked: int | None = None
        self._undo: Undo | None = None
        """The undo whose values were typed; they may have been changed since."""
        self._said = Content("")

    def on_mount(self) -> None:
        self.app.clear_notifications()

    @property
    def status(self) -> RunStatus | None:
        return None if self.attached is None else self.attached.status

    def show_run(self, attached: AttachedRun | None, touched: set[TopicPartition]) -> None:
        del touched
        if attached is None:
            return
        self.attached = attached
        self._read_answer(attached)
        self.draw(attached)
        self.show_said()
        self.refresh_bindings()

    def draw(self, attached: AttachedRun) -> None:
        raise NotImplementedError

    @property
    def form(self) -> ChangeForm:
        return self.query_one(ChangeForm)

    def standing(self, status: RunStatus) -> str:
        """Return the note to show while a change may be requested."""
        raise NotImplementedError

    def changed(self, run: Run) -> bool:
        raise NotImplementedError

    @property
    def undoing(self) -> Undo | None:
        return self._undo if self._undo is not None and self.form.has(self._undo.command) else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        attached = self.attached
        return action != "undo" or (
            self.may_ask and attached is not None and self.changed(attached.run)
        )

    def action_undo(self) -> None:
        if not self.may_ask or self.attached is None:
            self.show_said()
            return
        try:
            self._undo = self.UNDO(self.attached.run)
        except RunRefused as why:
            self.say(Content.styled(str(why), "$warning"))
            return
        self._said = Content("")
        self.form.put(self._undo.command)
        self.show_said()

    def _read_answer(self, attached: AttachedRun) -> None:
        if self._asked is None:
            return
        try:
            answer = attached.answer_to(self._asked).answer
        except RunProblem as problem:
            self._said, self._asked = Content.styled(str(problem), "$error"), None
            return
        if answer is not None:
            colour = "$success" if answer.accepted else "bold $error"
            self._said, self._asked = Content.styled(answer.words, colour), None
            if answer.accepted:
                self._undo = None
                self.form.put(None)

    def say(self, said: Content) -> None:
        self._said = said
        self.show_said()

    def show_said(self) -> None:
        said = self._said if self._said.plain else self._undo_words
        standing = Content.styled(self._standing(), "$dim")
        shown = self.query_one("#said", Static)
        shown.set_class(bool(said.plain), "-news")
        shown.update(Content("\n").join([said, standing]))

    @property
    def _undo_words(self) -> Content:
        undo = self.undoing
        if undo is None:
            return Content("")
        when = figures.as_time(undo.change.at)
        return Content.styled(f"Undoes your change of {when}: {undo.words}", "$next-leader")

    def _standing(self) -> str:
        status = self.status
        if not self.write:
            return services(self).why_read_only or self.READ_ONLY
        if status is None or status.state is RunState.ENDED:
            return self.ENDED
        if not status.owned:
            left = status.throttle.stays
            words = "The run has no engine" + (f"; {left}" if left else "")
            return f"{words}. Resume it first: ktui resume {status.name}"
        busy = self._asking or self._asked is not None
        return self.ASKED if busy else self.standing(status)

    @property
    def may_ask(self) -> bool:
        status = self.status
        busy = self._asking or self._asked is not None
        return self.write and status is not None and status.owned and not busy

    def ask(self, command: Command) -> None:
        self._asking = True
        self.run_worker(self._ask(command), exit_on_error=False)

    async def _ask(self, command: Command) -> None:
        if self.attached is None:
            return
        try:
            await services(self).check_permitted(self.attached.run, command)
            self._asked = await asyncio.to_thread(self.attached.ask, command)
        except RunProblem as problem:
            self._said = Content.styled(str(problem), "$error")
        finally:
            self._asking = False
        self.show_said()

    async def on_key(self, event: Key) -> None:
        action = None if self.write else services(self).keys_in_dialogs.get(event.key)
        if action is not None:
            event.stop()
            await self.app.run_action(f"app.{action}")


class LimitsScreen(RunChangeScreen):
    """Shows the limits of the attached run, and requests new ones."""

    DEFAULT_CSS = """
    LimitsScreen {
        & #own, #said { padding: 0 1; }
        & #said.-news { dock: bottom; } /* seen in a low terminal, too, where fields scroll */
        &.-tall > .dialog { margin-top: 3; }
    }
    """
    WIDTH = 78
    BINDINGS: ClassVar[list[BindingType]] = [
        hidden(
            "enter", "apply", "apply",
            "Put the limits that are typed in force at the next step",
        ),
        hidden("pageup", "page(-1)", "scroll up"),
        hidden("pagedown", "page(1)", "scroll down"),
    ]  # fmt: skip
    give_ids("limits", BINDINGS)
    UNDO = staticmethod(undo_limits)
    READ_ONLY = (
        "This view is read-only; limits are changed in one that is opened with"
        " ktui watch --write, or with ktui limits."
    )
    ENDED = "The run has ended: its limits bind nothing any more."
    ASKED = "Requested; it takes effect at the next decision."

    def __init__(self, *, write: bool) -> None:
        super().__init__("limits", write=write)
        self._warned_of: dict[str, str] = {}

    def body(self) -> ComposeResult:
        attached = services(self).attached
        limits = attached.run.limits if attached is not None else None
        if limits is not None:
            yield LimitsForm(limits, disabled=not self.write)
        own = Static(id="own", markup=False)
        own.display = False
        yield own
        yield Static(id="said", markup=False)

    @on(Resize)
    def _widen(self) -> None:
        """Let each limit have its meaning beside it in a wide terminal."""
        wide = self.app.size.width > _WITH_MEANINGS
        self.box.styles.width = _WITH_MEANINGS if wide else self.WIDTH

    def draw(self, attached: AttachedRun) -> None:
        status = attached.status
        form = self.query_one(LimitsForm)
        form.show(status.limits, status.coming, usage_by_limit(attached.run, attached.now))
        own = self.query_one("#own", Static)
        own.update(_of_single_brokers(status.limits, status.name))
        own.display = bool(status.limits.brokers)
        self.entitle(f"limits of run {status.name}")

    def standing(self, status: RunStatus) -> str:
        in_flight_steps = figures.as_count(status.steps_in_flight, "step")
        return (
            f"Binds at the next step: {in_flight_steps} in flight stay as they are."
            " A field that is empty stays as it is."
        )

    def changed(self, run: Run) -> bool:
        return run.limits_change is not None

    @on(LimitsForm.Changed)
    def _typed(self) -> None:
        self._warned_of = {}
        if self.query_one(LimitsForm).typed:  # an accepted request empties it: keep the answer
            self.say(Content(""))

    @on(LimitsForm.Submitted)
    def action_apply(self) -> None:
        form, status = self.query_one(LimitsForm), self.status
        if not self.may_ask or status is None:
            self.show_said()
            return
        limits = form.limits()
        if limits is None:
            return
        undo = self.undoing
        if undo is None and limits == (status.coming or status.limits):
            self.say(Content("These limits are in force already."))
            return
        far = [] if undo is not None else leaps(status.coming or status.limits, limits)
        if far and self._warned_of != form.typed:
            self._warned_of = form.typed
            words = f"{', '.join(far)} lets far more move at once. Press enter again to apply it."
            self.say(Content.styled(words, "$warning"))
            return
        self.ask(SetLimits(dict(form.typed)) if undo is None else undo.command)


_WITH_MEANINGS = 164  # cells of the box in which each limit has its meaning beside it


def _of_single_brokers(limits: Limits, run: str) -> str:
    own = "; ".join(
        f"broker {each.broker}: {', '.join(_own_figures(limits, each.broker))}"
        for each in limits.brokers
    )
    return f"Limits of one broker alone: {own}. ktui limits {run} --broker ID changes them."


def _own_figures(limits: Limits, broker: int) -> Iterator[str]:
    for option in OF_ONE_BROKER:
        own = limits.own_of(option)
        if broker in own:
            yield f"{LETTERS[option]} {limit_figure(option, own[broker])}"


def usage_by_limit(run: Run, now: datetime) -> Mapping[str, str]:
    """Return, by the limit's option, how much of the run counts against each limit now."""
    begun = [(t, t.step.begun) for t in run.tracks_in_flight.values() if t.step is not None]
    used = Usage()
    for track, step in begun:
        weight = track.planned.weight
        used.count(demand_of(track.tp, step.move.step, step.leader, run.racks, weight=weight))
    return {
        "replicas": f"{max((len(step.adding) for _, step in begun), default=0):,}",
        "partitions": f"{run.in_flight:,}",
        "cuts-per-minute": f"{run.cuts.count(now.timestamp()):,}",
        "extra-replicas": "",
        "cut-together": f"{run.counts[State.READY]:,} ready",
        **{field.replace("_", "-"): _busiest(limit, used.taken[field]) for field, limit in COUNTED},
    }


def _busiest(limit: Limit, taken: Mapping[Place, int]) -> str:
    place = max(taken, key=taken.__getitem__, default=None)
    most = taken.get(place, 0)
    return limit.in_use(most, place).replace(" in rack ", " in ")  # the row says that of racks


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
