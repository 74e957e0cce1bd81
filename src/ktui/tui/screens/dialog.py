"""The box that every dialog is, the line that `:` opens over a screen, and the palette."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, Protocol, TypeVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Resize
from textual.screen import ModalScreen
from textual.style import Style
from textual.types import IgnoreReturnCallbackType
from textual.widget import Widget
from textual.widgets import Input, Static

from ktui.tui.run_view.launchers import BadCommand
from ktui.tui.widgets.bindings import bind, give_ids, hidden, keys_text, mapped
from ktui.tui.widgets.fields import HistoryField
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.services import services

ResultT = TypeVar("ResultT")

MOST_CELLS = 100
_FRAME_CELLS = 6  # what a line of the box loses to its border and padding


class DialogNews(FooterKeys):
    """A notification inside a dialog, whose box may cover the footer of the view."""

    DEFAULT_CSS = """
    DialogNews { dock: none; display: none; margin-top: 1; padding: 0; background: $surface; }
    DialogNews.-news { display: block; }
    """
    HAS_KEYS = False


class Dialog(ModalScreen[ResultT]):
    """A box with its title on the border and its keys on the border's foot.

    The first lines of the screen stay free: they show the cluster, its trouble and the run. Where
    the box is higher than the rest, it scrolls. A `dense` one needs all lines of a low terminal.
    Textual calls the `on_mount` of a subclass, and then that of this class.
    """

    DEFAULT_CSS = """
    Dialog {
        align: center top; overflow: hidden; background: $background 40%;
        & > .dialog {
            max-width: 100%; height: auto; margin-top: 2; padding: 1;
            overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1;
            border: round $primary; background: $surface;
            border-title-color: $foreground; border-title-style: bold;
            border-subtitle-color: $dim; border-subtitle-align: left;
        }
        & .dialog-title { display: none; text-style: bold; margin-bottom: 1; }
        & .-title-inside .dialog-title { display: block; }
        & .dialog Static { height: auto; }
        & TextField:focus { background-tint: $primary 25%; }
        &.-tall > .dialog { margin-top: 4; }
        &.-taller > .dialog { margin-top: 6; }
        &.-tallest > .dialog { margin-top: 10; }
        &.-roomy > .dialog { padding: 1 2; }
        &.-dense > .dialog { padding: 0 1; }
        &.-dense.-roomy > .dialog { padding: 0 2; }
        &.-dense.-roomy.-taller > .dialog, &.-dense.-roomy.-tallest > .dialog { padding: 1 2; }
    }
    """
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (90, "-roomy")]  # noqa: RUF012 - so in Textual
    VERTICAL_BREAKPOINTS = [(0, "-low"), (22, "-tall"), (32, "-taller"), (50, "-tallest")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        hidden("f1", "app.show_help", "help"),
        hidden("ctrl+p", "app.command_palette", "commands"),
    ]
    give_ids("dialog", BINDINGS)

    ENTER: ClassVar[str] = ""
    """What enter does in the field of the dialog, for the foot; empty for the field's own words."""

    WIDTH: ClassVar[int] = 74

    def __init__(self, title: str, *, dense: bool = False) -> None:
        super().__init__(classes="-dense" if dense else None)
        self._title_words = title

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content(self._title_words), classes="dialog-title")
            yield from self.body()
            yield DialogNews()

    def body(self) -> ComposeResult:
        raise NotImplementedError

    def on_mount(self) -> None:
        self.box.styles.width = self.WIDTH
        self.entitle(self._title_words)
        self.bindings_updated_signal.subscribe(self, lambda _screen: self._show_keys())
        self._show_keys()

    @property
    def box(self) -> Vertical:
        return self.query_one(".dialog", Vertical)

    def entitle(self, words: str) -> None:
        self._title_words = words
        self._fit_title()

    @on(Resize)
    def _fit_title(self) -> None:
        box, wanted = self.box, cell_len(self._title_words) + _FRAME_CELLS
        inside = wanted > min(MOST_CELLS, self.app.size.width)
        box.set_class(inside, "-title-inside")
        box.border_title = "" if inside else Content(self._title_words)
        if not inside:
            box.styles.min_width = wanted
        self.query_one(".dialog-title", Static).update(Content(self._title_words))

    def _show_keys(self) -> None:
        keys: dict[str, Content] = {}
        for active in self.active_bindings.values():
            binding = active.binding
            if binding.key == "enter" and self.ENTER:
                binding = replace(binding, description=self.ENTER, key_display="↵", show=True)
            if binding.show and active.enabled:
                keys.setdefault(binding.action, self._key(binding))
        for box in self.query(".dialog"):  # none while the dialog closes
            box.border_subtitle = Content(" · ").join(keys.values())

    def _key(self, binding: Binding) -> Content:
        display = (self.app.get_key_display(binding), "bold $primary")
        press = Style.from_meta({"@click": f"app.simulate_key({binding.key!r})"})
        return Content.assemble(display, f" {binding.description}").stylize(press)

    @on(Resize)
    def _resized(self) -> None:
        """Its class sets the margin of the new size later."""
        self.call_after_refresh(self._fit_height)

    def _fit_height(self) -> None:
        self.box.styles.max_height = self.size.height - self.box.styles.margin.top

    @property
    def line_cells(self) -> int:
        return min(self.WIDTH, self.size.width) - self.box.gutter.width

    def room_beside(self, *texts: str, lines: int) -> int:
        box = self.box
        room = self.size.height - box.styles.margin.top - box.gutter.height - lines
        return room - sum(len(Content(text).wrap(self.line_cells)) for text in texts)

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_page(self, step: int) -> None:
        part = self.box if self.box.max_scroll_y else self.scrolled
        part.scroll_to(y=part.scroll_y + step * (part.size.height - 1), animate=False)

    @property
    def scrolled(self) -> Widget:
        return self.box


Action = Callable[[], Awaitable[None]]  # what a command does, once its line is closed


class CommandLanguage(Protocol):
    """The commands that may be typed now."""

    def parse(self, line: str) -> Action:
        """Return what a line does; BadCommand says why it cannot be, and what to type."""
        ...

    def complete(self, line: str) -> Sequence[str]: ...

    def usage(self, line: str) -> str: ...


class CommandField(HistoryField):
    """The field of the line; tab completes the last word."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hidden("tab", "complete", "complete", "Complete the last word"),
    ]
    give_ids("command", BINDINGS)

    def __init__(self, language: CommandLanguage, history: list[str]) -> None:
        super().__init__(history)
        self._language = language

    def action_complete(self) -> None:
        words = self._language.complete(self.value)
        if not words:
            return
        head = self.value[: len(self.value) - len(last_word(self.value))]
        end = " " if len(words) == 1 and not words[0].endswith("=") else ""
        self.value = f"{head}{_common_start(words)}{end}"
        self.cursor_position = len(self.value)


class CommandScreen(ModalScreen[Action | None]):
    """Returns what the line does; None if the operator left it."""

    CSS = """
    CommandScreen {
        background: transparent;
        & > Vertical { dock: bottom; height: auto; background: $surface; }
        & .hint { height: auto; max-height: 2; padding: 0 2; color: $dim; }
        & Horizontal { height: 1; background: $cursor; }
        & .colon { width: auto; padding: 0 0 0 1; color: $primary; text-style: bold; }
        & Input { width: 1fr; padding: 0; }
        & .problem { height: auto; max-height: 4; padding: 0 2; color: $warning; display: none; }
        & .problem.-shown { display: block; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape", "dismiss", "close", "Leave the command line"),
    ]
    give_ids("command", BINDINGS)

    def __init__(self, language: CommandLanguage, history: list[str]) -> None:
        super().__init__()
        self._language, self._history = language, history

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(classes="hint", markup=False)
            with Horizontal():
                yield Static(":", classes="colon")
                yield CommandField(self._language, self._history)
            yield Static(classes="problem", markup=False)

    def on_mount(self) -> None:
        self._show_hint("")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._show_hint(event.value)
        self._show_problem("")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if not event.value.strip():
            self.dismiss(None)
            return
        try:
            action = self._language.parse(event.value)
        except BadCommand as problem:
            self._show_problem(str(problem))
            return
        self.query_one(CommandField).keep()
        self.dismiss(action)

    def _show_hint(self, line: str) -> None:
        words = " ".join(self._language.complete(line))
        self.query_one(".hint", Static).update(Content(self._language.usage(line) or words))

    def _show_problem(self, words: str) -> None:
        problem = self.query_one(".problem", Static)
        problem.set_class(bool(words), "-shown")
        problem.update(Content(f"! {words}"))


def last_word(line: str) -> str:
    """Return the word that is being typed; empty after a space."""
    return line.rpartition(" ")[2]


def _common_start(words: Sequence[str]) -> str:
    first, last = min(words), max(words)
    same = next((at for at, letter in enumerate(first) if letter != last[at]), len(first))
    return first[:same]


_Entry = tuple[str, str, IgnoreReturnCallbackType]


class Commands(Provider):
    """Offers the actions of the app and of the screen beneath, then the themes."""

    async def discover(self) -> Hits:
        for name, words, run in self._entries():
            yield DiscoveryHit(name, run, help=words)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name, words, run in self._entries():
            score = max(matcher.match(name), matcher.match(words) * 0.5)
            if score > 0:
                yield Hit(score, matcher.highlight(name), run, help=words)

    def _entries(self) -> Iterator[_Entry]:
        app = self.app
        for owner in (self.screen, app):
            for name, words, action in _actions(owner.BINDINGS, services(app).keymap):
                yield name, words, partial(owner.run_action, action)
        for theme in sorted(app.available_themes):
            yield (
                f"theme: {theme}",
                "Draw everything in this theme",
                partial(setattr, app, "theme", theme),
            )


def _actions(bindings: Sequence[object], keymap: Mapping[str, str]) -> list[tuple[str, str, str]]:
    return [
        (
            binding.description,
            f"{binding.tooltip}  ({keys_text(mapped(binding, keymap))})",
            binding.action,
        )
        for binding in bindings
        if isinstance(binding, Binding) and binding.tooltip and binding.action != "command_palette"
    ]
