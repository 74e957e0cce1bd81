"""The cancel dialog: what to stop, roll back or pause, and a preview of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.widget import Widget
from textual.widgets import Input, Static

from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest
from ktui.cluster.partition import TopicPartition
from ktui.columns import Column
from ktui.execution.cancel_preview import CancelPreview, PartitionPreview
from ktui.execution.host.catalog import RunState
from ktui.execution.run.scope import CancelEffect, CancelScope
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece, cut_pieces, partition_text, pieces_width
from ktui.tui.draw.paint import RowColumn, content, table_lines
from ktui.tui.run_view import messages
from ktui.tui.run_view.attached import AttachedRun
from ktui.tui.run_view.messages import CancelAction, DialogChoice, DialogScope
from ktui.tui.screens.dialog import MOST_CELLS, Dialog
from ktui.tui.widgets.bindings import bind, give_ids, hidden
from ktui.tui.widgets.fields import Choices, TextField
from ktui.tui.widgets.services import services

MOST_PREVIEWED = 200
"""The most partitions polled and previewed one by one; the requests of the others are counted."""
MOST_WITHOUT_NAME = 20  # the most partitions that are rolled back without typing the run's name

_FIRST = (
    CancelEffect.CANCEL,
    CancelEffect.GO_BACK,
    CancelEffect.TRIM,
    CancelEffect.DEQUEUE,
    CancelEffect.ALREADY,
    CancelEffect.NOTHING,
)
_AFTER, _BRIEFLY = "replicas after", "after"
"""The heading of the replicas, and where it takes more cells than there are."""
_GAP = 2
_LEAST_NAME = 12
_LEAST_TABLE = 4
_SCROLLBAR_CELLS = 2
_ACTIONS = tuple(CancelAction)
_MEANS = {
    CancelAction.STOP: (
        "Kafka drops at once what it is adding and keeps the other replicas, in an order of its"
        " own. Nothing more is sent for them; steps that are done stay done."
    ),
    CancelAction.ROLLBACK: (
        "They get back the replicas, the order and the leader that they had before the run, step"
        " by step under its limits, even those that are done."
    ),
    CancelAction.TRIM: (
        "They are stopped, and what is beyond their original number of replicas is dropped: the"
        " leader stays, then those in sync, then original ones."
    ),
    CancelAction.PAUSE: "Nothing new is submitted for them. Nothing is cancelled: what is in"
    " flight ends.",
    CancelAction.CONTINUE: "Their pauses are lifted: they go on under the limits in force.",
}


def cancel_table(previews: Sequence[PartitionPreview], width: int) -> list[Content]:
    """Draw a heading, and per partition a line, and below it obstacles and risks."""
    wanted = max(_LEAST_NAME, *(cell_len(str(each.tp)) for each in previews))
    lines = table_lines(_columns(_AFTER), previews)
    if wanted + pieces_width(lines[0]) + _GAP > width:
        lines = table_lines(_columns(_BRIEFLY), previews)
    room = max(_LEAST_NAME, min(wanted, width - pieces_width(lines[0]) - _GAP))
    names = ["partition", *(partition_text(each.tp, room) for each in previews)]
    drawn = []
    for number, (name, line) in enumerate(zip(names, lines, strict=True)):
        first = Piece(f"{name:<{room + _GAP}}", "" if number else "header")
        drawn.append(content(cut_pieces([first, *line], width)))
        drawn += _notes(previews[number - 1], width) if number else []
    return drawn


def _columns(after: str) -> tuple[RowColumn, ...]:
    return (
        Column(heading="state", cell=lambda each: [Piece(each.state.words, "dim")]),
        Column(heading="what is sent", cell=_what_is_sent),
        Column(heading=after, cell=_read(lambda each: Piece(" ".join(map(str, each.replicas))))),
        Column(heading="RF", cell=_read(_factor), right=True),
        Column(heading="leader", cell=_read(_leader), right=True),
    )


def _is_awaited(each: PartitionPreview) -> bool:
    return each.effect.needs_read and not each.is_read


def _what_is_sent(each: PartitionPreview) -> list[Piece]:
    if _is_awaited(each):
        return [Piece("being read …", "waiting")]
    return [Piece(_sent(each), "dim" if each.effect.idle else "")]


def _read(cell: Callable[[PartitionPreview], Piece]) -> Callable[[PartitionPreview], list[Piece]]:
    return lambda each: [] if _is_awaited(each) else [cell(each)]


def _factor(each: PartitionPreview) -> Piece:
    more = "!" if each.extra else ""
    role = "falling-behind" if more else ""
    return Piece(f"{len(each.replicas)}{more}", role, bold=bool(more))


def _leader(each: PartitionPreview) -> Piece:
    if not each.is_read:
        return Piece(figures.UNKNOWN, "dim")
    return Piece("none", "stalled") if each.leader is None else Piece(f"{each.leader}")


def _sent(each: PartitionPreview) -> str:
    if each.effect is CancelEffect.NOTHING:
        return "nothing: over"
    return "nothing new" if each.effect is CancelEffect.ALREADY else each.sent


def _notes(each: PartitionPreview, width: int) -> list[Content]:
    notes = []
    if each.not_now is not None:
        notes.append((f"! not now: {each.not_now}", "$falling-behind"))
    if each.danger is not None:
        notes.append((f"! {each.danger}", "bold $stalled"))
    if each.extra:
        words = f"! {len(each.replicas)} replicas, the plan has {each.planned}"
        notes.append((f"{words}: trim drops {each.extra} of them", "$falling-behind"))
    return [
        line.pad_left(2) if number else Content.assemble("  ", line)
        for words, style in notes
        for number, line in enumerate(Content.styled(words, style).wrap(width - 4))
    ]


class NameField(TextField):
    """The field in which the run's name is typed before much of it is rolled back."""


class CancelScreen(Dialog[DialogChoice | None]):
    """Returns what was chosen and confirmed; None if the operator left the screen."""

    DEFAULT_CSS = """
    CancelScreen {
        & > .dialog { border: round $warning; }
        & Choices { padding: 0; }
        & #cancel-means { color: $dim; }
        & VerticalScroll {
            height: auto; border-top: solid $rule; border-bottom: solid $rule;
            scrollbar-size-vertical: 1;
        }
        & NameField { display: none; }
        &.-typing NameField { display: block; }
    }
    """
    AUTO_FOCUS = ""
    ENTER = "confirm"
    WIDTH = MOST_CELLS
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("y", "confirm", "do it", "Ask the run's process for what is chosen"),
        bind("up,k", "scope(-1)", "scope", "Choose the scope", key_display="↑↓"),
        hidden("down,j", "scope(1)", "scope", "Choose the scope"),
        bind("left,h", "what(-1)", "what", "Choose what is done", key_display="←→"),
        hidden("right,l", "what(1)", "what", "Choose what is done"),
        hidden("pageup", "page(-1)", "page up", "Scroll the preview"),
        bind("pagedown", "page(1)", "scroll", "Scroll the preview", key_display="pgdn"),
        hidden("O", "app.open_gate", "open the gate"),
        bind("escape,n,q", "back", "leave", "Go back; nothing is done", key_display="esc"),
    ]
    give_ids(
        "cancel",
        BINDINGS,
        {
            "scope(-1)": "scope-up",
            "scope(1)": "scope-down",
            "what(-1)": "what-left",
            "what(1)": "what-right",
        },
    )

    def __init__(
        self,
        attached: AttachedRun,
        scopes: Sequence[DialogScope],
        action: CancelAction,
        problem: str | None,
    ) -> None:
        super().__init__(f"cancel in run {attached.name}", dense=True)
        self._attached, self._scopes, self._problem = attached, scopes, problem
        self._chosen = DialogChoice(action, scopes[0])
        self._preview: CancelPreview | None = None
        self._typing = False
        self._wrong = False

    def body(self) -> ComposeResult:
        yield Choices("scope", [scope.words for scope in self._scopes], id="scopes")
        yield Choices("do", [each.value for each in _ACTIONS], across=True, id="actions")
        yield Static(id="cancel-means", markup=False)
        with VerticalScroll(can_focus=False):
            yield Static(id="cancel-table", markup=False)
        yield Static(id="cancel-said", markup=False)
        yield NameField(placeholder=self._attached.name, disabled=True)

    def on_mount(self) -> None:
        self.app.clear_notifications()
        self._choose(self._chosen)

    @property
    def interest(self) -> Interest:
        concerned = () if self._preview is None else self._preview.concerned
        return Interest(partitions=frozenset(concerned), log_dirs=True)

    @property
    def _seen(self) -> Observation | None:
        return services(self).progress.last

    def show_run(self, attached: AttachedRun | None, touched: set[TopicPartition]) -> None:
        if attached is None or attached.name != self._attached.name:
            if self.app.screen is self:  # else a question stands over it, which goes first
                self.dismiss(None)
            return
        run_changed = attached.run is not self._attached.run
        self._attached = attached
        if run_changed:
            self._choose(self._chosen)
        elif self._preview is not None:
            self._preview.scope.update(touched)

    def show_progress(self) -> None:
        if self._preview is not None and self._seen is not None:
            self._preview.update(self._seen)
        self._draw()

    def _choose(self, chosen: DialogChoice) -> None:
        self._chosen = chosen
        self._preview = None
        self._ask_name(typing=False)
        kind, scope = chosen.action.kind, chosen.scope
        if kind is not None:
            cancel = CancelScope(self._attached.run, kind, scope.topics, scope.partitions)
            ranked = sorted(cancel.effects, key=lambda tp: _FIRST.index(cancel.effects[tp]))
            self._preview = CancelPreview(cancel, ranked[:MOST_PREVIEWED])
            self._preview.movers = self._attached.rows.movers
            if self._seen is not None:
                self._preview.update(self._seen)
            services(self).poll_now()
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self._draw()

    @on(Resize)
    def _draw(self) -> None:
        chosen = self._chosen
        self.query_one("#scopes", Choices).place = self._scopes.index(chosen.scope)
        self.query_one("#actions", Choices).place = _ACTIONS.index(chosen.action)
        means, said = _MEANS[chosen.action], Content("\n").join(self._summary_lines())
        self.query_one("#cancel-means", Static).update(Content(means))
        self.query_one("#cancel-table", Static).update(Content("\n").join(self._lines()))
        self.query_one("#cancel-said", Static).update(said)
        lines = len(self._scopes) + 1 + self._typing
        room = self.room_beside(means, said.plain, lines=lines)
        self.scrolled.styles.max_height = max(_LEAST_TABLE, room)

    def _lines(self) -> list[Content]:
        preview = self._preview
        if preview is None:
            return []
        trouble_first = sorted(preview.partitions, key=lambda each: not each.in_trouble)
        lines = cancel_table(trouble_first, self.line_cells - _SCROLLBAR_CELLS)
        if preview.rest:
            lines.append(Content.styled(f"and {preview.rest:,} more", "$dim"))
        return lines

    def _summary_lines(self) -> list[Content]:
        lines = []
        if self._preview is not None:
            words = f"{self._preview.summary}{self._copying_time()}"
            lines.append(Content.styled(words, "bold $foreground"))
        if self._preview is not None and services(self).outage is not None:
            lines.append(Content.styled(messages.NOT_CURRENT, "$warning"))
        if (problem := self._forbids()) is not None:
            return [*lines, Content.styled(problem, "$warning")]
        chosen, status = self._chosen, self._attached.status
        if chosen.shuts_gate(status):
            lines.append(Content.styled(messages.SHUTS_GATE, "$warning"))
        if not status.owned:
            lines.append(Content(messages.resumed_for_cancel(status, whole=chosen.scope.whole)))
        return [*lines, self._asks()]

    def _asks(self) -> Content:
        what, name = self._chosen.what, self._attached.name
        if self._wrong:
            return Content.styled(
                f"! Type {name} to confirm, or press esc to leave.", "bold $error"
            )
        if self._typing:
            return Content(f"Type the run's name to {what}.")
        return Content.assemble(
            ("Press ", "$dim"), ("y", "bold $primary"), (f" to {what}.", "$dim")
        )

    def _copying_time(self) -> str:
        to_copy = 0 if self._preview is None else self._preview.scope.to_copy
        rate = self._attached.status.bytes_s
        if not to_copy or not rate:
            return ""
        return f" (about {figures.as_duration(to_copy / rate)} at {figures.as_copying(rate)})"

    def _forbids(self) -> str | None:
        if self._problem is not None:
            return self._problem
        if self._preview is None:
            return messages.why_unchangeable(self._attached.status)
        ended = self._attached.status.state is RunState.ENDED
        if self._preview.scope.over:
            action = self._chosen.action
            also = ended and action is not CancelAction.ROLLBACK
            hint = " Choose roll back to undo what the run has moved." if also else ""
            return f"There is nothing to {action.value}: all of it has ended already.{hint}"
        if self._preview.scope.idle and self._attached.status.owned:
            return "This was requested already, and is under way."
        return None

    @on(Choices.Chosen)
    def _clicked(self, event: Choices.Chosen) -> None:
        if event.choices.id == "scopes":
            self._choose_scope(event.place)
        else:
            self._choose_action(event.place)

    def _choose_scope(self, place: int) -> None:
        scope = self._scopes[place % len(self._scopes)]
        self._choose(DialogChoice(self._chosen.action, scope))

    def _choose_action(self, place: int) -> None:
        action = _ACTIONS[place % len(_ACTIONS)]
        self._choose(DialogChoice(action, self._chosen.scope))

    def action_scope(self, step: int) -> None:
        self._choose_scope(self._scopes.index(self._chosen.scope) + step)

    def action_what(self, step: int) -> None:
        self._choose_action(_ACTIONS.index(self._chosen.action) + step)

    @property
    def scrolled(self) -> Widget:
        return self.query_one(VerticalScroll)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        return not (self._typing and action in ("confirm", "scope", "what", "open_gate"))

    def action_confirm(self) -> None:
        if self._forbids() is not None:
            self.app.bell()
        elif self._undoes_much:
            self._ask_name(typing=True)
            self._draw()
        else:
            self.dismiss(self._chosen)

    def _ask_name(self, *, typing: bool) -> None:
        self._typing, self._wrong = typing, False
        self.set_class(typing, "-typing")
        field = self.query_one(NameField)
        field.value, field.disabled = "", not typing
        self.set_focus(field if typing else None)
        self.refresh_bindings()

    @on(Input.Changed)
    def _typed(self) -> None:
        if self._wrong:
            self._wrong = False
            self._draw()

    @on(Input.Submitted)
    def _name_given(self, event: Input.Submitted) -> None:
        self._wrong = event.value.strip() != self._attached.name
        if self._wrong or self._forbids() is not None:
            self._draw()
        else:
            self.dismiss(self._chosen)

    @property
    def _undoes_much(self) -> bool:
        if self._chosen.action is not CancelAction.ROLLBACK or self._preview is None:
            return False
        return self._chosen.scope.whole or self._preview.scope.undone > MOST_WITHOUT_NAME

    def action_back(self) -> None:
        if self._typing:
            self._choose(self._chosen)
        else:
            self.dismiss(None)
