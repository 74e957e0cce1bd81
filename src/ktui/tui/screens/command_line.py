"""Commands by their names: the line that `:` opens over a screen, and the command palette."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar, Protocol

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.types import IgnoreReturnCallbackType
from textual.widgets import Input, Static

from ktui.tui.run_view.launchers import BadCommand
from ktui.tui.widgets.bindings import bind, give_ids, hidden, keys_text, mapped
from ktui.tui.widgets.fields import HistoryField
from ktui.tui.widgets.services import services

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
