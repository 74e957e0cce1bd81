"""Forms for the limits and the throttle of a run, and check boxes for what may be allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import DescendantFocus
from textual.message import Message
from textual.suggester import SuggestFromList
from textual.widgets import Checkbox, Input, Static

from ktui.execution.journal.commands import Command, SetLimits, SetThrottle
from ktui.execution.run.options import RunOptions
from ktui.pacing.limits import (
    CHOICES,
    LETTERS,
    NUMBERS,
    Limits,
    LimitsProblem,
    limit_text,
    parse_limits,
)
from ktui.planning.check.findings import Allowances
from ktui.planning.throttle_rates import (
    ThrottleProblem,
    ThrottleRates,
    canary_in_words,
    parse_throttle_rates,
)
from ktui.tui.draw import format as figures
from ktui.tui.widgets.bindings import bind, give_ids, hidden
from ktui.tui.widgets.fields import TextField

OPTIONS = (*NUMBERS, *CHOICES)
LEAP = 5  # a count that becomes so many times what it was may be a slip, such as 25 for 2 and 5
_MEANINGS = {
    **{
        option: f"{number.meaning}{' (gentle)' if number.gentle_only else ''}"
        for option, number in NUMBERS.items()
    },
    "shape": "gentle adds first, then drops once; kip-435 goes in turns; whole: all in one request",
    "mode": "rolling begins a partition as another ends; wave begins P, and waits for all of them",
    "order": "long-first, topic, size-desc, size-asc or plan: which partitions begin first",
    "internal": "first, last or none: when Kafka's own topics, as __consumer_offsets, begin",
}
_NUMBER = "A number from 1, or none for no limit."
_SIZE = "A size such as 64MiB, or none for no limit."


_EXPLAIN = bind(
    "question_mark", "app.show_help", "explain", key_display="?", priority=True, id="field.explain"
)
"""Nothing that is typed into these fields has a question mark in it."""


class LimitInput(TextField):
    """The field for the new value of one limit."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("enter", "submit", "accept", key_display="↵"),
        hidden("up", "app.focus_previous", "up", "Go to the field above"),
        bind("down", "app.focus_next", "field", "Go to the field below", key_display="↑↓"),
    ]
    give_ids("field", BINDINGS, {"app.focus_next": "down"})
    BINDINGS += [_EXPLAIN]


class ChangeForm(Vertical):
    """Fields for a change to a run: its limits, or its throttle."""

    class Changed(Message):
        """What is typed or ticked has changed."""

    class Submitted(Message):
        """The operator has pressed enter to accept what is typed."""

    def put(self, command: Command | None) -> None:
        """Type what a command asks for; None to empty the fields."""
        raise NotImplementedError

    def has(self, command: Command) -> bool:
        """Return whether what is typed is what a command asks for."""
        raise NotImplementedError

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Submitted())


class LimitsForm(ChangeForm):
    """A form that returns the limits typed over those in force, and explains an invalid one."""

    DEFAULT_CSS = """
    LimitsForm {
        height: auto;
        & Horizontal { height: 1; }
        & .label { width: 21; padding: 0 1; }
        & .now { width: 23; }
        & .new { width: 13; padding: 0 1; }
        & LimitInput { width: 12; margin-right: 1; }
        & .use { width: 15; padding: 0 1; }
        & .now, & .use { text-wrap: nowrap; text-overflow: ellipsis; }
        & .note { width: 1fr; color: $dim; text-wrap: nowrap; text-overflow: ellipsis; }
        & .heading { color: $header; }
        & .-wrong .label { color: $error; text-style: bold; }
        & #limits-hint { color: $dim; padding: 0 1; height: auto; min-height: 2; }
        & #limits-hint.-wrong { color: $error; text-style: bold; }
        &.-no-use .use, &.-narrow .note { display: none; }
    }
    """
    _NOTES_FROM = 118

    def __init__(
        self,
        base: Limits | None,
        *,
        heading: str = "in force",
        in_use: bool = True,
        disabled: bool = False,
    ) -> None:
        super().__init__(disabled=disabled, classes="" if in_use else "-no-use")
        self.add_class("-narrow", update=False)  # until its width is known
        self._base, self._heading = base, heading
        self._coming: Limits | None = None
        self._wrong: dict[str, str] = {}

    def compose(self) -> ComposeResult:
        with Horizontal(classes="heading"):
            for words, name in (
                ("limit", "label"), (self._heading, "now"), ("new", "new"), ("in flight", "use"),
            ):  # fmt: skip
                yield Static(words, classes=name)
        for option in OPTIONS:
            with Horizontal(id=f"of-{option}"):
                yield Static(_label(option, wrong=False), classes="label")
                yield Static(classes="now", markup=False)
                choices = [word.value for word in CHOICES.get(option, ())]
                yield LimitInput(
                    id=f"new-{option}",
                    placeholder="keep",
                    suggester=SuggestFromList(choices) if choices else None,
                )
                yield Static(classes="use", markup=False)
                yield Static(_MEANINGS[option], classes="note", markup=False)
        yield Static(id="limits-hint", markup=False)

    def on_mount(self) -> None:
        self.show(self._base, None, {})
        self._note({})

    def on_resize(self) -> None:
        self.set_class(self.size.width < self._NOTES_FROM, "-narrow")

    def show(self, base: Limits | None, coming: Limits | None, in_use: Mapping[str, str]) -> None:
        self._base, self._coming = base, coming
        self._show_values()
        for option in OPTIONS:
            use = self.query_one(f"#of-{option}").query_one(".use", Static)
            use.update(Content(in_use.get(option, "")), layout=False)

    def _show_values(self) -> None:
        typed = self.typed
        for option in OPTIONS:
            now = _value(self._base, option)
            asked = now if self._coming is None else _value(self._coming, option)
            new = _value_typed(option, typed.get(option, "")) or asked
            then = ("", "")
            if new != asked:
                then = (f"{asked} -> {new}", "bold $next-leader")
                now = ""
            elif new != now:
                then = (f" > {new}", "$next-leader")
            cell = self.query_one(f"#of-{option}").query_one(".now", Static)
            cell.update(Content.assemble(now, then), layout=False)

    @property
    def typed(self) -> dict[str, str]:
        return dict(self._typed())

    def _typed(self) -> Iterator[tuple[str, str]]:
        for option in OPTIONS:
            text = self.query_one(f"#new-{option}", LimitInput).value.strip()
            if text:
                yield option, text

    def limits(self) -> Limits | None:
        wrong = dict(filter(None, (_wrong({each: text}) for each, text in self._typed())))
        good = {option: text for option, text in self._typed() if option not in wrong}
        if (clash := _wrong(good, self._base)) is not None:
            wrong[clash[0]] = clash[1]
        self._note(wrong)
        return None if wrong else parse_limits(good, self._base)

    @property
    def problem(self) -> str:
        if not self._wrong:
            return ""
        shown = self._focused if self._focused in self._wrong else next(iter(self._wrong))
        others = ", ".join(_name(option) for option in self._wrong if option != shown)
        return f"{_name(shown)}: {self._wrong[shown]}{f'. Wrong, too: {others}' if others else ''}"

    def put(self, command: Command | None) -> None:
        typed = as_typed(command.options) if isinstance(command, SetLimits) else {}
        for option in OPTIONS:
            self.query_one(f"#new-{option}", LimitInput).value = typed.get(option, "")

    def has(self, command: Command) -> bool:
        return isinstance(command, SetLimits) and self.typed == as_typed(command.options)

    def _note(self, wrong: dict[str, str]) -> None:
        changed, self._wrong = wrong.keys() ^ self._wrong.keys(), wrong
        for option in changed:
            row = self.query_one(f"#of-{option}")
            row.set_class(option in wrong, "-wrong")
            label = _label(option, wrong=option in wrong)
            row.query_one(".label", Static).update(label, layout=False)
        hint = self.query_one("#limits-hint", Static)
        hint.set_class(bool(wrong), "-wrong")
        words = Content(f"! {self.problem}" if wrong else self._hint())
        if words != hint.content:
            hint.update(words)
        if wrong:
            self.call_after_refresh(hint.scroll_visible, animate=False)

    @property
    def _focused(self) -> str:
        focused = self.app.focused if self.is_attached else None
        return (focused.id or "").removeprefix("new-") if focused is not None else ""

    def _hint(self) -> str:
        option = self._focused
        if option not in _MEANINGS:
            return ""
        if option in CHOICES:
            return f"{_name(option)}: {_MEANINGS[option]}"
        values = _SIZE if NUMBERS[option].in_bytes else _NUMBER
        return f"{_name(option)}: {_MEANINGS[option]}. {values}"

    @on(DescendantFocus)
    def _explain_focused(self) -> None:
        self._note(self._wrong)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.limits()
        self._show_values()
        self.post_message(self.Changed())


def leaps(old: Limits, new: Limits) -> list[str]:
    """Return the counts that let far more move at once than before, each as `R 2 -> 25`."""
    return [
        f"{LETTERS[option]} {_value(old, option)} -> {_value(new, option)}"
        for option in ("replicas", "partitions", "replica-movements", "per-broker")
        if _leaps(*(getattr(each, option.replace("-", "_")) for each in (old, new)))
    ]


def _leaps(old: int | None, new: int | None) -> bool:
    return old is not None and (new is None or new >= LEAP * old)


def as_typed(limits: Mapping[str, int | str | None]) -> dict[str, str]:
    """Return the text of limits as an operator types it."""
    return {option: limit_text(option, value) for option, value in limits.items()}


def _wrong(options: Mapping[str, str], base: Limits | None = None) -> tuple[str, str] | None:
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
    return limit_text(option, getattr(limits, option.replace("-", "_")))


def _value_typed(option: str, text: str) -> str:
    if not text or _wrong({option: text}) is not None:
        return ""
    return _value(parse_limits({option: text}), option)


class AllowanceBox(Checkbox):
    """A check box that is drawn of characters: seen in any colours, and without."""

    DEFAULT_CSS = "AllowanceBox { padding: 0; border: none; &:focus { border: none; } }"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("space", "toggle_button", "tick", "Tick the box, or clear it"),
    ]
    give_ids("box", BINDINGS)

    @property
    def _button(self) -> Content:
        role = "bold $primary" if self.value or self.has_focus else "bold $foreground"
        return Content.styled("[x]" if self.value else "[ ]", role)

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """On this screen no letter is a command, so the footer shows none."""
        del key
        return character is not None and character.isalpha()


class PlanAllowances(Vertical):
    """One check box per allowance of a plan."""

    DEFAULT_CSS = "PlanAllowances { height: auto; }"

    def compose(self) -> ComposeResult:
        yield AllowanceBox("allow replication factor changes", id="allow-factor")
        yield AllowanceBox("allow fewer replicas than min.insync.replicas", id="allow-below")

    @property
    def allowed(self) -> Allowances:
        return Allowances(
            replication_factor_change=self.query_one("#allow-factor", Checkbox).value,
            below_min_isr=self.query_one("#allow-below", Checkbox).value,
        )


_CANARY = f"With an objective, slo=p99<150ms, it {canary_in_words('RUN')}."
HINT = "50MB a second into each broker, 50MB,3=20MB with broker 3's own, or none."


class RateInput(TextField):
    """The field for the new rates."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("enter", "submit", "accept", key_display="↵"),
    ]
    give_ids("field", BINDINGS)
    BINDINGS += [_EXPLAIN]


class ThrottleForm(ChangeForm):
    """Accepts rates in the syntax of `ktui throttle`, and shows errors while they are typed."""

    DEFAULT_CSS = """
    ThrottleForm {
        height: auto;
        & Horizontal { height: 1; }
        & .label { width: 16; }
        & RateInput { width: 30; }
        & #throttle-warnings { height: auto; }
        & #throttle-hint, & #canary-means { color: $dim; height: auto; }
        & #throttle-hint.-wrong { color: $error; text-style: bold; }
    }
    """

    def __init__(self, label: str, *, for_new_run: bool = False, disabled: bool = False) -> None:
        super().__init__(disabled=disabled)
        self._label, self._for_new_run = label, for_new_run

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Static(self._label, classes="label")
            yield RateInput(id="throttle-rate")
        yield Static(HINT, id="throttle-hint", markup=False)
        if self._for_new_run:
            yield AllowanceBox("throttle what leaders send, too", id="throttle-leaders")
            yield AllowanceBox("measure the objective by a canary", id="throttle-canary")
            yield Static(_CANARY, id="canary-means", markup=False)
        yield Static(id="throttle-warnings", markup=False)

    @property
    def text(self) -> str:
        return self.query_one(RateInput).value.strip()

    @text.setter
    def text(self, words: str) -> None:
        field = self.query_one(RateInput)
        field.value = words
        field.cursor_position = len(words)

    def put(self, command: Command | None) -> None:
        self.text = command.rates.typed if isinstance(command, SetThrottle) else ""

    def has(self, command: Command) -> bool:
        return isinstance(command, SetThrottle) and self.rates() == command.rates

    @property
    def leaders(self) -> bool:
        return self._ticked("#throttle-leaders")

    @property
    def canary(self) -> bool:
        return self._ticked("#throttle-canary")

    @canary.setter
    def canary(self, wanted: bool) -> None:
        self.query_one("#throttle-canary", AllowanceBox).value = wanted

    def _ticked(self, box: str) -> bool:
        return any(each.value for each in self.query(box).results(AllowanceBox))

    def rates(self) -> ThrottleRates | None:
        return None if not self.text or self.problem else parse_throttle_rates(self.text)

    @property
    def problem(self) -> str:
        try:
            rates = parse_throttle_rates(self.text or "none")
        except ThrottleProblem as problem:
            return f"throttle: {problem}"
        if self.leaders and not rates:
            return "throttle: no rate is given to throttle leaders to"
        if not self._for_new_run:
            return ""
        unmeasured = RunOptions(canary=self.canary).figure_problem(rates.objective)
        return f"throttle: {unmeasured}" if unmeasured else ""

    def warn(self, warnings: Sequence[str]) -> None:
        words = Content("\n").join(Content.styled(f"! {each}", "$warning") for each in warnings)
        self.query_one("#throttle-warnings", Static).update(words)

    @on(Input.Changed)
    @on(Checkbox.Changed)
    def _changed(self, event: Input.Changed | Checkbox.Changed) -> None:
        event.stop()
        hint = self.query_one("#throttle-hint", Static)
        hint.set_class(bool(self.problem), "-wrong")
        words = f"! {self.problem}" if self.problem else HINT
        if words != hint.content:
            hint.update(words)
        self.post_message(self.Changed())
