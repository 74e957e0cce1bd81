"""A screen that asks step by step, with the crumbs of its steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Key, Resize
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from ktui.planning.check.findings import Severity
from ktui.tui.draw.cells import Piece, pieces_width
from ktui.tui.draw.paint import content
from ktui.tui.run_view.plan_request import ColouredLine
from ktui.tui.screens.plan.panes import PreviewPane, coloured
from ktui.tui.screens.plan.preview_lines import CHECK, EVERYTHING, PlanStep, PreviewSection
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.header import StatusHeader
from ktui.tui.widgets.services import ReportsOwnErrors

_OPEN, _DONE, _WRONG = "▸", " ✓", " !"
_GAP = Piece(" › ", "dim")  # noqa: RUF001 - the sign of a path
_ROLES = {Severity.PROBLEM: "stalled", Severity.WARNING: "falling-behind"}


class Crumbs(Widget):
    """Shows the steps side by side; a click asks for one."""

    DEFAULT_CSS = "Crumbs { height: 1; width: auto; }"

    class Asked(Message):
        """A step was clicked."""

        def __init__(self, place: int) -> None:
            super().__init__()
            self.place = place

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self._names = names
        self._open = 0
        self._wrong: Sequence[Severity | None] = [None] * len(names)

    def show(self, place: int, wrong: Sequence[Severity | None]) -> None:
        if (place, wrong) != (self._open, self._wrong):
            self._open, self._wrong = place, wrong
            self.refresh(layout=True)

    def render(self) -> Content:
        return content(part for crumb in self._crumbs() for part in crumb)

    def get_content_width(self, *_sizes: object) -> int:
        return sum(map(pieces_width, self._crumbs()))

    def _crumbs(self) -> list[list[Piece]]:
        crumbs = []
        for place, name in enumerate(self._names):
            is_open = place == self._open
            role = "" if is_open else "dim"
            sign = Piece(_OPEN if is_open else "", "moving", bold=True)
            crumb = [sign, Piece(f"{place + 1} {name}", role, bold=is_open), self._mark(place)]
            crumbs.append([_GAP, *crumb] if place else crumb)
        return crumbs

    def _mark(self, place: int) -> Piece:
        wrong = self._wrong[place]
        if wrong is not None:
            return Piece(_WRONG, _ROLES.get(wrong, ""), bold=True)
        return Piece(_DONE if place < self._open else "", "in-sync")

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        end = 0
        for place, crumb in enumerate(self._crumbs()):
            start, end = end, end + pieces_width(crumb)
            if offset is not None and start <= offset.x < end:
                self.post_message(self.Asked(place))


ResultT = TypeVar("ResultT")

_SIDE_BY_SIDE = 120
"""The screen width in cells from which the preview stands beside the form; below it otherwise."""
_FORM = 50  # the width of the form in cells, where the preview stands beside it


def enter_bindings(word: str, tooltip: str) -> list[BindingType]:
    """Return the bindings of enter: it goes on, and in the last step it decides."""
    return [
        Binding(
            "enter", "forward", "next", key_display="↵", priority=True, id="plan.next",
            tooltip="Go to the next step; what is typed stays",
        ),
        Binding(
            "enter", "decide", word, key_display="↵", priority=True, id=f"plan.{word}",
            tooltip=tooltip,
        ),
    ]  # fmt: skip


class StepScreen(Screen[ResultT], ReportsOwnErrors):
    """Shows one step at a time. What is typed in the others stays."""

    DEFAULT_CSS = """
    StepScreen {
        background: $background;
        & > #plan-top { height: 1; padding: 0 2; margin-bottom: 1; }
        & #plan-title { width: auto; max-width: 50%; margin-right: 3; color: $header; }
        & #plan-title { text-wrap: nowrap; text-overflow: ellipsis; }
        & > #plan-body { scrollbar-size-vertical: 1; padding: 0 1 0 2; }
        & #plan-file { height: auto; margin-bottom: 1; }
        & .form, & .step { height: auto; width: 1fr; }
        & #plan-answer { height: auto; }
        & #plan-preview { margin-top: 1; }
        & .warned { color: $warning; height: auto; margin-bottom: 1; }
        & .-away { display: none; }
        & #plan-columns { layout: vertical; height: auto; }
        &.-wide #plan-columns { layout: horizontal; }
        &.-wide .form { width: 50; margin-right: 2; }
        &.-wide #plan-preview { margin-top: 0; }
    }
    """
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "escape", "back", "back", key_display="esc",
            tooltip="Go to the step before, or leave the first one; nothing is sent",
        ),
        Binding(
            "tab", "app.focus_next", "next field", priority=True, tooltip="Go to the next field",
        ),
        Binding(
            "shift+tab", "app.focus_previous", "field before", show=False, priority=True,
            tooltip="Go to the field before",
        ),
        Binding("up", "app.focus_previous", "up", show=False, tooltip="Go to the field above"),
        Binding("down", "app.focus_next", "down", show=False, tooltip="Go to the field below"),
        Binding(
            "pagedown", "page(1)", "more", key_display="pgdn", priority=True,
            tooltip="Scroll down; pgup scrolls up",
        ),
        Binding("pageup", "page(-1)", "back up", show=False, priority=True),
    ]  # fmt: skip
    give_ids("plan", BINDINGS)
    STEPS: ClassVar[tuple[PlanStep, ...]]

    def __init__(self) -> None:
        super().__init__()
        self.place = 0
        self._notes = ""

    def compose(self) -> ComposeResult:
        self.set_class(self._fits_side_by_side, "-wide", update=False)
        yield StatusHeader()
        yield from self.above()
        with Horizontal(id="plan-top"):
            yield Static(self.title_words, id="plan-title", markup=False)
            yield Crumbs([step.name for step in self.STEPS])
        with VerticalScroll(id="plan-body", can_focus=False):
            yield Static(id="plan-live", classes="warned -away", markup=False)
            yield Vertical(*self.wide_fields(), id="plan-file")
            with Vertical(id="plan-columns"):
                with Vertical(classes="form"):
                    for step in self.STEPS:
                        fields = self.fields(step.name)
                        shown = Vertical(*fields, id=f"step-{step.name}", classes="step")
                        shown.display = False  # by a class, each field in it is styled anew
                        yield shown
                    yield Static(id="plan-answer", markup=False)
                yield PreviewPane()
        yield FooterKeys()

    # ----------------------------------------------------- what each of the screens defines

    @property
    def title_words(self) -> str:
        raise NotImplementedError

    def above(self) -> Iterator[Widget]:
        yield from ()

    def wide_fields(self) -> Iterator[Widget]:
        yield from ()

    def fields(self, step: str) -> Iterator[Widget]:
        raise NotImplementedError

    @property
    def first_field(self) -> str:
        raise NotImplementedError

    def decide(self) -> None:
        raise NotImplementedError

    def entered(self, step: str) -> None:
        del step
        self.show_answer("", "")

    def obstacle(self, step: str) -> str | None:
        """Return why one cannot go on from a step; empty if its form says so, None if one can."""
        raise NotImplementedError

    def mark(self, step: str) -> Severity | None:
        raise NotImplementedError

    def sections(self, step: str) -> Sequence[PreviewSection]:
        raise NotImplementedError

    # ------------------------------------------------------------------------- the steps

    @property
    def step(self) -> PlanStep:
        return self.STEPS[self.place]

    @property
    def is_last(self) -> bool:
        return self.place == len(self.STEPS) - 1

    def go_to(self, place: int) -> None:
        self.query_one(f"#step-{self.step.name}").display = False
        self.place = place
        self.query_one(f"#step-{self.step.name}").display = True
        self.entered(self.step.name)
        self.show_step()
        self.query_one("#plan-body").scroll_home(animate=False)
        first = self.step.first_field if self.place else self.first_field
        self.set_focus(self.query_one(first))

    def show_step(self) -> None:
        marks = [self.mark(step.name) for step in self.STEPS]
        self.query_one(Crumbs).show(self.place, marks)
        self.query_one("#plan-live").set_class(
            not self._notes or 0 < self.place < len(self.STEPS) - 1, "-away"
        )
        self.query_one("#plan-file").display = self.place == 0
        step = self.step.name
        sections = EVERYTHING if self.has_class("-wide") else self.sections(step)
        if step == CHECK:
            sections = [each for each in sections if each is not PreviewSection.FINDINGS]
        self.query_one(PreviewPane).show_sections(sections, step)
        self.call_after_refresh(self.refresh_bindings)

    def go_on(self) -> None:
        problem = self.obstacle(self.step.name)
        if problem is None:
            self.go_to(self.place + 1)
        elif problem:
            self.show_answer(problem, "$error")

    @on(Crumbs.Asked)
    def _asked_for_step(self, event: Crumbs.Asked) -> None:
        if event.place < self.place:
            self.go_to(event.place)
        while self.place < event.place:
            before = self.place
            self.go_on()
            if self.place == before:
                return

    # -------------------------------------------------------------------------- the keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        if action == "page":
            return self.is_mounted and self.query_one("#plan-body").max_scroll_y > 0
        return {"forward": not self.is_last, "decide": self.is_last}.get(action, True)

    def action_page(self, way: int) -> None:
        body = self.query_one("#plan-body")
        if way > 0:
            body.scroll_page_down(animate=False)
        else:
            body.scroll_page_up(animate=False)

    def action_forward(self) -> None:
        (self.focused or self).call_later(self._enter)  # once what was typed before has come

    action_decide = action_forward

    def _enter(self) -> None:
        if self.is_last:
            self.decide()
        else:
            self.go_on()

    def action_back(self) -> None:
        if self.place:
            self.go_to(self.place - 1)
        else:
            self.dismiss(None)

    def on_key(self, event: Key) -> None:
        """Letters that no field uses are no commands of the app here."""
        if event.character is not None and event.character.isalpha():
            event.stop()

    # ------------------------------------------------------------------ the room and the words

    @property
    def form_width(self) -> int:
        return _FORM if self._fits_side_by_side else max(_FORM, self.app.size.width - 4)

    @property
    def _fits_side_by_side(self) -> bool:
        return self.app.size.width >= _SIDE_BY_SIDE

    @on(Resize)
    def _fit(self) -> None:
        self.set_class(self._fits_side_by_side, "-wide")
        self.show_step()

    def show_notes(self, words: str) -> None:
        self.query_one("#plan-live", Static).update(Content(words))
        self._notes = words
        self.show_step()

    answer = ""

    def show_answer(self, words: str, colour: str) -> None:
        self.answer = words
        line = show_lines(self, "#plan-answer", [(words, colour)] if words else [])
        if words:
            self.call_after_refresh(line.scroll_visible, animate=False)


def show_lines(screen: Screen[Any], selector: str, lines: Sequence[ColouredLine]) -> Static:
    """Show lines in their colours; without any, the widget takes no room."""
    widget = screen.query_one(selector, Static)
    widget.update(Content("\n").join(map(coloured, lines)))
    widget.set_class(not lines, "-away")
    return widget
