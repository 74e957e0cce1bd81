"""The limits of a run to be typed over: what is in force, what is in flight, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import DescendantFocus
from textual.message import Message
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static

from ktui.pacing.limits import CHOICES, COUNTS, LETTERS, Limits, LimitsProblem, parse_limits
from ktui.tui.draw import format as figures
from ktui.tui.widgets.text_field import TextField

OPTIONS = (*COUNTS, *CHOICES)
_MEANINGS = {
    "replicas": "replicas of one partition added at once",
    "partitions": "partitions under way at once",
    "leader-movements": "leader movements in flight",
    "replica-movements": "replicas being added in the cluster",
    "per-broker": "replicas being added on one broker",
    "extra-replicas": "replicas beyond its final number; gentle only",
    "cut-together": "partitions cut in one request; gentle only",
    **{option: " or ".join(word.value for word in words) for option, words in CHOICES.items()},
}
_NUMBER = "A number from 1, or none for no limit."


class LimitInput(TextField):
    """One limit, new."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "accept", key_display="↵"),
        Binding("up", "app.focus_previous", "up", show=False, tooltip="Go to the field above"),
        Binding("down", "app.focus_next", "down", show=False, tooltip="Go to the field below"),
    ]


class LimitsForm(Vertical):
    """Says which limits are typed, and what is wrong with one that cannot be.

    Args:
        base: what holds where nothing is typed; None while that is not known.
        heading: what the column of that is called.
        in_use: whether there is a column of what is in flight.
    """

    DEFAULT_CSS = """
    LimitsForm {
        height: auto;
        & Horizontal { height: 1; }
        & .label { width: 21; padding: 0 1; }
        & .now { width: 14; }
        & .new { width: 13; padding: 0 1; }
        & LimitInput {
            width: 12; margin-right: 1; height: 1; border: none; padding: 0 1; background: $cursor;
        }
        & LimitInput:focus { background-tint: $primary 25%; border: none; }
        & .use { width: 16; padding: 0 1; }
        & .note { width: 1fr; color: $dim; text-wrap: nowrap; text-overflow: ellipsis; }
        & .heading { color: $header; }
        & .-wrong .label { color: $error; text-style: bold; }
        & #limits-hint { color: $dim; padding: 0 1; height: auto; min-height: 2; }
        & #limits-hint.-wrong { color: $error; text-style: bold; }
        &.-no-use .use, &.-narrow .note { display: none; }
    }
    """
    _NOTES_FROM = 108

    class Changed(Message):
        """Something else is typed."""

    class Submitted(Message):
        """The operator wants what is typed."""

    def __init__(
        self,
        base: Limits | None,
        *,
        heading: str = "in force",
        in_use: bool = True,
        disabled: bool = False,
    ) -> None:
        super().__init__(disabled=disabled, classes="" if in_use else "-no-use")
        self._base, self._heading = base, heading
        self._wrong: dict[str, str] = {}
        """What is wrong, by option."""

    def compose(self) -> ComposeResult:
        """Lay out a row a limit, and the line that explains one."""
        with Horizontal(classes="heading"):
            for words, name in (
                ("limit", "label"), (self._heading, "now"), ("new", "new"), ("in flight", "use"),
            ):  # fmt: skip
                yield Static(words, classes=name)
        for option in OPTIONS:
            with Horizontal(id=f"of-{option}"):
                yield Static(classes="label")
                yield Static(classes="now", markup=False)
                choices = [word.value for word in CHOICES.get(option, ())]
                yield LimitInput(
                    id=f"new-{option}", suggester=SuggestFromList(choices) if choices else None
                )
                yield Static(classes="use", markup=False)
                yield Static(_MEANINGS[option], classes="note", markup=False)
        yield Static(id="limits-hint", markup=False)

    def on_mount(self) -> None:
        """Say what is in force."""
        self.show(self._base, None, {})
        self._note({})

    def on_resize(self) -> None:
        """Leave the meanings to the line below where there is no room for them."""
        self.set_class(self.size.width < self._NOTES_FROM, "-narrow")

    def show(self, base: Limits | None, coming: Limits | None, in_use: Mapping[str, str]) -> None:
        """Take in the limits in force, those asked for and not yet in force, and what is used."""
        self._base = base
        for option in OPTIONS:
            row = self.query_one(f"#of-{option}")
            now = _value(base, option)
            new = now if coming is None else _value(coming, option)
            then = (f" > {new}", "$next-leader") if new != now else ("", "")
            row.query_one(".now", Static).update(Content.assemble(now, then))
            row.query_one(".use", Static).update(Content(in_use.get(option, "")))

    @property
    def typed(self) -> dict[str, int | str | None]:
        """What is typed, by option; a field that is empty stays as it is."""
        return dict(self._typed())

    def _typed(self) -> Iterator[tuple[str, str]]:
        for option in OPTIONS:
            text = self.query_one(f"#new-{option}", LimitInput).value.strip()
            if text:
                yield option, text

    def limits(self) -> Limits | None:
        """Give the limits as they are typed; None, and the form says why, where they cannot be."""
        wrong = dict(filter(None, (_wrong({each: text}) for each, text in self._typed())))
        good = {option: text for option, text in self._typed() if option not in wrong}
        if (clash := _wrong(good, self._base)) is not None:
            wrong[clash[0]] = clash[1]
        self._note(wrong)
        return None if wrong else parse_limits(good, self._base)

    @property
    def problem(self) -> str:
        """What is wrong: the field in use with its reason, else the first, and which others."""
        if not self._wrong:
            return ""
        told = self._focused if self._focused in self._wrong else next(iter(self._wrong))
        others = ", ".join(_name(option) for option in self._wrong if option != told)
        return f"{_name(told)}: {self._wrong[told]}{f'. Wrong, too: {others}' if others else ''}"

    def clear(self) -> None:
        """Empty every field."""
        for field in self.query(LimitInput):
            field.value = ""

    def _note(self, wrong: dict[str, str]) -> None:
        self._wrong = wrong
        for option in OPTIONS:
            row = self.query_one(f"#of-{option}")
            row.set_class(option in wrong, "-wrong")
            row.query_one(".label", Static).update(_label(option, wrong=option in wrong))
        hint = self.query_one("#limits-hint", Static)
        hint.set_class(bool(wrong), "-wrong")
        hint.update(Content(f"! {self.problem}" if wrong else self._hint()))
        if wrong:
            self.call_after_refresh(hint.scroll_visible, animate=False)

    @property
    def _focused(self) -> str:
        """The option whose field is in use; empty for none."""
        focused = self.app.focused if self.is_attached else None
        return (focused.id or "").removeprefix("new-") if focused is not None else ""

    def _hint(self) -> str:
        option = self._focused
        if option not in _MEANINGS:
            return ""
        if option in CHOICES:
            return f"{_name(option)}: {_MEANINGS[option]}"
        return f"{_name(option)}: {_MEANINGS[option]}. {_NUMBER}"

    @on(DescendantFocus)
    def _explain(self) -> None:
        self._note(self._wrong)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.limits()
        self.post_message(self.Changed())

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Submitted())


def _wrong(options: Mapping[str, str], base: Limits | None = None) -> tuple[str, str] | None:
    """Give the first option that cannot be used, and why; None where all can."""
    try:
        parse_limits(options, base)
    except LimitsProblem as problem:
        words = f"{problem.problem}. {problem.fix}".replace("--", "")
        return problem.option.removeprefix("--"), words
    return None


def _name(option: str) -> str:
    return " ".join(filter(None, (LETTERS.get(option), option.replace("-", " "))))


def _label(option: str, *, wrong: bool) -> Content:
    letter = LETTERS.get(option, " ")
    sign = "!" if wrong else " "
    return Content.assemble((letter, "bold"), sign, option.replace("-", " "))


def _value(limits: Limits | None, option: str) -> str:
    if limits is None:
        return figures.UNKNOWN
    value = getattr(limits, option.replace("-", "_"))
    return "none" if value is None else str(value)
