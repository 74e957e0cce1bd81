"""The small dialogs: what to copy, a question, a note, the offer to resume, tool commands."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from textual import on
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Label, OptionList, Static, TextArea
from textual.widgets.option_list import Option

from ktui.cluster.text import clean, clean_lines
from ktui.execution.forecast.run_progress import RunProgress
from ktui.execution.host.client import LONGEST_NOTE
from ktui.execution.run.plans import move_commands
from ktui.json_text import encode
from ktui.progress.row import partition_json
from ktui.progress.timeline import Timeline
from ktui.tui.draw import format as figures
from ktui.tui.screens.dialog import MOST_CELLS, Dialog
from ktui.tui.screens.watch.columns import Extents, layout, row_pieces
from ktui.tui.screens.watch.row_model import widest
from ktui.tui.screens.watch.words import RowContext
from ktui.tui.widgets.bindings import bind, give_ids
from ktui.tui.widgets.fields import Route, TextField, clipboard_route, load_tmux_buffer
from ktui.tui.widgets.frame import BoxScreen

_ROW_CELLS = 200  # the width of a row as text: every column is in it


class CopyForm(NamedTuple):
    """One form in which a partition can be copied."""

    key: str
    name: str
    text: str


def copy_forms(timeline: Timeline, context: RowContext) -> list[CopyForm]:
    """Return what can be copied of a partition; a command only where it is to move."""
    forms = [
        CopyForm("n", "name", str(timeline.tp)),
        CopyForm("r", "row", _row_text(timeline, context)),
        CopyForm("j", "JSON", encode(partition_json(timeline))),
    ]
    run = None if context.run is None else context.run.run
    track = context.track(timeline)
    target = timeline.target if track is None else track.target
    if track is not None or timeline.state.reassigning:
        lines = move_commands(timeline.tp, target, run)
        forms.append(CopyForm("k", "Kafka command", "\n".join(lines)))
    return forms


def _row_text(timeline: Timeline, context: RowContext) -> str:
    batches = context.run is not None
    columns = layout(_ROW_CELLS, widest(Extents(), [timeline], context), batches=batches)
    return "".join(piece.text for piece in row_pieces(timeline, columns, context)).rstrip()


async def copy_text(app: App[Any], text: str) -> None:
    """Send a text to the clipboard; show it where the terminal has no way to take it."""
    text = clean_lines(text)
    route = clipboard_route(os.environ)
    if route is Route.NONE:
        await app.push_screen(SelectScreen(text))
        return
    count = figures.as_count(len(text), "character")
    if route is Route.TMUX and await load_tmux_buffer(text):
        app.notify(f"Sent to the terminal by tmux, which has it as a buffer too: {count}.")
        return
    app.copy_to_clipboard(text)
    app.notify(f"Sent to the terminal: {count}.")


class SelectScreen(BoxScreen[None]):
    """Shows a text to select from with the mouse."""

    CSS = "SelectScreen > .box { max-height: 80%; padding: 0 1; border: round $primary; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape,q", "dismiss", "close", "Close the text"),
    ]
    give_ids("text", BINDINGS)

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        area = TextArea(self._text, read_only=True, show_cursor=False, classes="box")
        area.border_title = "this terminal does not let programs copy"
        area.border_subtitle = "hold fn, select with the mouse, cmd+C · esc closes"
        yield area


class CopyScreen(BoxScreen[str | None]):
    """Returns the text to copy; None if the operator left the screen."""

    CSS = """
    CopyScreen {
        & > .box { max-width: 90; }
        & OptionList {
            height: auto; padding: 0; border: none; background: $surface;
            background-tint: transparent; text-wrap: nowrap; text-overflow: ellipsis;
        }
        & #copy-text { width: 1fr; height: auto; max-height: 8; margin-top: 1; color: $dim; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("n", "pick('n')", "name", "Copy the partition's name"),
        bind("r", "pick('r')", "row", "Copy the partition's row as text"),
        bind("j", "pick('j')", "JSON", "Copy what ktui list --json prints for it"),
        bind(
            "k", "pick('k')", "command",
            "Copy the kafka-reassign-partitions.sh command that moves it",
        ),
        bind("escape,q", "dismiss", "close", "Copy nothing"),
    ]  # fmt: skip
    give_ids("copy", BINDINGS)

    def __init__(self, name: str, forms: Sequence[CopyForm]) -> None:
        super().__init__()
        self._name, self._forms = name, forms

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = Content(f"copy {self._name}")
            box.border_subtitle = "a letter or enter copies · esc closes"
            lines = [
                Content.assemble((form.key, "bold $primary"), f"  {form.name}")
                for form in self._forms
            ]
            yield OptionList(*map(Option, lines), compact=True)
            yield Label(id="copy-text", markup=False)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self.query_one("#copy-text", Label).update(self._forms[event.option_index].text)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._forms[event.option_index].text)

    def action_pick(self, key: str) -> None:
        form = next((form for form in self._forms if form.key == key), None)
        if form is None:
            self.query_one("#copy-text", Label).update("Nothing moves it, so no command does.")
        else:
            self.dismiss(form.text)


async def choose_copy(app: App[Any], timeline: Timeline, context: RowContext) -> None:
    """Ask in which form to copy a partition, and send that to the clipboard."""

    async def chosen(text: str | None) -> None:
        if text is not None:
            await copy_text(app, text)

    await app.push_screen(CopyScreen(str(timeline.tp), copy_forms(timeline, context)), chosen)


class ConfirmScreen(Dialog[bool]):
    """Returns True for y, and False if the operator leaves the screen."""

    DEFAULT_CSS = "ConfirmScreen > .dialog { border: round $warning; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("y", "answer(True)", "yes", "Do it"),
        bind(
            "n,escape,q", "answer(False)", "no", "Leave everything as it is", key_display="n, esc",
        ),
    ]  # fmt: skip
    give_ids("confirm", BINDINGS)

    def __init__(self, title: str, words: str) -> None:
        super().__init__(title)
        self._words = words

    def body(self) -> ComposeResult:
        yield Static(Content(self._words))

    def action_answer(self, yes: bool) -> None:  # noqa: FBT001 - the key's own answer
        self.dismiss(yes)


class NotePrompt(Dialog[str | None]):
    """Returns the note, or None if the operator leaves without one."""

    WIDTH = MOST_CELLS
    ENTER = "write it, with your name"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape", "leave", "back", "Go back without a note"),
    ]
    give_ids("note", BINDINGS)

    def __init__(self, run: str) -> None:
        super().__init__(f"note on run {clean(run)}")

    def body(self) -> ComposeResult:
        yield TextField(placeholder="what the next one has to know", max_length=LONGEST_NOTE)

    @on(Input.Submitted)
    def _answered(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)


class ResumeChoice(enum.Enum):
    """What the operator wants to do with the run."""

    RESUME = enum.auto()
    LOOK = enum.auto()
    NOT_NOW = enum.auto()


class ResumeOfferScreen(Dialog[ResumeChoice]):
    """Offers to resume the run that was started last, of those that wait to be resumed."""

    DEFAULT_CSS = "ResumeOfferScreen > .dialog { border: round $warning; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("R", "choose('RESUME')", "resume now", "Start an engine for it"),
        bind("enter", "choose('LOOK')", "show it", "Show it as it was left", key_display="↵"),
        bind("escape,q", "choose('NOT_NOW')", "not now", "Leave it as it is", key_display="esc"),
    ]  # fmt: skip
    give_ids("offer", BINDINGS)

    def __init__(self, waiting: Sequence[RunProgress], problem: str | None) -> None:
        super().__init__(f"Run {waiting[0].name} waits to be resumed")
        self._waiting, self._problem = waiting, problem

    def body(self) -> ComposeResult:
        yield Static(Content("\n\n".join(self._paragraphs())))

    def _paragraphs(self) -> Iterator[str]:
        run, more = self._waiting[0], len(self._waiting) - 1
        yield _words(run)
        if run.extra_replicas is not None:
            yield f"{run.extra_replicas}."
        if more:
            others = figures.as_count(more, "other run")
            wait = "waits" if more == 1 else "wait"
            yield f"{others} of this cluster {wait}, too: r shows all runs."
        if self._problem:
            yield f"{self._problem}\nktui resume {run.name} resumes it."

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "choose" or parameters != ("RESUME",) or self._problem is None

    def action_choose(self, choice: str) -> None:
        self.dismiss(ResumeChoice[choice])


def _words(run: RunProgress) -> str:
    since = "" if run.started_at is None else f", started at {figures.as_time(run.started_at)}"
    return (
        f"{run.over:,} of its {figures.as_count(run.partitions, 'partition')} have ended{since}."
        " It has no engine; Kafka goes on only with what was in flight."
    )


class ToolCommandsScreen(BoxScreen[None]):
    """Shows the lines of a shell, each command below its comment, and copies them."""

    CSS = """
    ToolCommandsScreen .comment { color: $dim; margin-top: 1; }
    ToolCommandsScreen .comment:first-of-type { margin-top: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("y", "copy", "copy", "Copy the commands"),
        bind("escape,q", "dismiss", "close", "Close the commands"),
    ]
    give_ids("commands", BINDINGS)

    def __init__(self, lines: Iterable[str]) -> None:
        super().__init__()
        self._lines = tuple(lines)

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box") as scroll:
            scroll.border_title = "the same by Kafka's tool"
            scroll.border_subtitle = "y copies · esc closes"
            for line in self._lines:
                is_comment = line.startswith("#")
                yield Static(Content(line), classes="comment" if is_comment else "")

    async def action_copy(self) -> None:
        await copy_text(self.app, "\n".join(self._lines))
