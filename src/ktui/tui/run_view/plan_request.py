"""The plan that an operator asks for: that of a file, or one that is made of an intent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ktui.inputfile import expand_home
from ktui.planning.intents.arguments import check_patterns
from ktui.planning.intents.before_after import BeforeAfter, before_after
from ktui.planning.intents.layout import (
    Layout,
    LayoutAnswer,
    rack_warnings,
    unread_warnings,
    without_rack,
)
from ktui.planning.intents.made_plan import CannotMake, MadePlan, Wishes, left_lines
from ktui.planning.intents.registry import (
    BUDGET,
    COMMON,
    FIELDS,
    INTENTS,
    TOPICS,
    Intent,
    WrongField,
    about,
    parts,
)
from ktui.planning.names import closest_names
from ktui.planning.plan import Plan
from ktui.quantities import as_bytes, as_count
from ktui.tui.run_view.launchers import BadCommand

FILE = "file"
SOURCES = (FILE, *INTENTS)
"""Where a plan may come from: a file, or an intent by its verb of `ktui plan`."""


class PlanRequest(msgspec.Struct, frozen=True):
    """What was chosen and typed, valid or not."""

    source: str = FILE
    texts: Mapping[str, str] = {}
    """The text of each field that was typed into. What other sources need does not count."""

    def text(self, field: str) -> str:
        """Return what is typed in a field; its default, if nothing was."""
        return self.texts.get(field, FIELDS[field].default)

    @property
    def intent(self) -> Intent | None:
        """What the plan is made for; None for that of a file."""
        return INTENTS.get(self.source)

    @property
    def needed(self) -> Sequence[str]:
        """The fields without which there is no plan, in the order of the form."""
        return ("path",) if self.intent is None else self.intent.needed

    @property
    def words(self) -> str:
        """What is read, as the screen names it; empty where a field is."""
        if not all(map(self.text, self.needed)):
            return ""
        if self.intent is None:
            return self.text("path")
        spreads = "among" in self.intent.may_have and self.text("among")
        among = f" among {self.text('among')}" if spreads else ""
        return self.intent.reads.format_map({name: self.text(name) for name in FIELDS}) + among

    @property
    def file(self) -> Path:
        """The plan's file. A plan that is made has a name as if it were read from one."""
        intent = self.intent
        if intent is None:
            return expand_home(self.text("path"))
        typed = {name: "-".join(parts(self.text(name))) for name in FIELDS}
        named = "-".join([intent.name, *filter(None, map(typed.get, intent.named_by))])
        return Path(f"{intent.file.format_map(typed) or named}.json")

    def generate(self, layout: Layout) -> MadePlan:
        """Make the plan from the cluster as it is.

        Raises:
            WrongField: what was typed does not fit the cluster, or is no number.
            CannotMake: there is nothing to do, or nothing can be done.
        """
        intent = self.intent
        if intent is None:
            raise CannotMake("That of a file is read.")
        common = {each.name: self._value(each.name, layout) for each in intent.fields}
        own = {name: common.pop(name) for name in [*common] if name not in COMMON}
        topics, exclude = common.pop("only", ()), common.pop("exclude", ())
        wishes = Wishes(
            topics=topics, exclude=exclude, rack_aware=not without_rack(layout), **common
        )
        if intent.blames:
            with about(intent.blames):
                made = intent.make(layout, own, wishes)
        else:
            made = intent.make(layout, own, wishes)
        if not made.plan.partitions:
            raise CannotMake(" ".join(left_lines(made.left)))
        return made

    def _value(self, name: str, layout: Layout) -> Any:
        """Return what is typed in a field, for `Wishes` None or nothing where that is empty."""
        field, text = FIELDS[name], self.text(name)
        if name in BUDGET and not text:
            return None
        value = field.kind.read(field, text)
        if field.kind is not TOPICS or name not in COMMON:
            return value
        try:
            check_patterns(layout, value)
        except CannotMake as problem:
            raise WrongField(name, f"{field.called}: {problem}") from None
        return tuple(value)

    def budget(self, made: MadePlan) -> str:
        """Return how much of each budget a plan uses; empty without any."""
        used = {
            "max_moves": (f"{made.moves:,}", "moves"),
            "max_bytes": (as_bytes(made.bytes), "copied"),
            "max_leader_changes": (f"{made.leader_changes:,}", "leader changes"),
        }
        has = () if self.intent is None else self.intent.may_have
        figures = [
            f"{figure} of {most} {what}"
            for field, (figure, what) in used.items()
            if field in has and (most := self.text(field))
        ]
        return f"within the budget: {', '.join(figures)}" if figures else ""


class GeneratedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan with what every broker has before it and after it."""

    plan: Plan
    change: BeforeAfter
    notes: Sequence[str] = ()
    """What the plan leaves undone, and what could not be taken into account."""
    budget: str = ""
    """How much of the budget the plan uses; empty without one."""

    @property
    def headline(self) -> str:
        """What the plan changes, in all."""
        change = self.change
        copied = (
            f"{as_count(change.replicas, 'replica')} to copy ({as_bytes(change.bytes)})"
            if change.replicas
            else "nothing to copy"
        )
        leaders = as_count(change.leaders, "leader change")
        return f"{as_count(len(self.plan.partitions), 'partition')}: {copied}, {leaders}"


def generate_plan(request: PlanRequest, answer: LayoutAnswer) -> GeneratedPlan:
    """Make a plan from the cluster as it was read.

    Raises:
        WrongField: what was typed does not fit the cluster.
        CannotMake: there is nothing to do, or nothing can be done.
    """
    layout = answer.layout
    made = request.generate(layout)
    return GeneratedPlan(
        plan=made.plan,
        change=before_after(layout, made.plan),
        notes=(
            *left_lines(made.left),
            *unread_warnings(answer.failures),
            *rack_warnings(layout),
        ),
        budget=request.budget(made),
    )


# ----------------------------------------------- in the words of `ktui plan`: drain 3 --max-moves 6


def parse_plan_words(words: Sequence[str]) -> PlanRequest:
    """Return the plan that words ask for. What is missing is left to be typed.

    Raises:
        BadCommand: there is no such intent or option, or there are too many words.
    """
    verb, *rest = words or [""]
    if verb not in INTENTS:
        near = closest_names(verb, INTENTS)
        hint = f"Did you mean {near[0]}?" if near else f"Use {' or '.join(INTENTS)}"
        raise BadCommand(f"there is no plan {verb!r}. {hint}")
    bare, texts = _split(INTENTS[verb], rest)
    return PlanRequest(verb, {**texts, **dict(_arguments(INTENTS[verb], bare))})


def _split(intent: Intent, words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the bare words, and what options say, by field."""
    bare: list[str] = []
    texts: dict[str, str] = {}
    fields = {option: field for field in intent.fields for option in field.options}
    left = iter(words)
    for word in left:
        option, equals, value = word.partition("=")
        if not option.startswith("--"):
            bare.append(word)
            continue
        field = fields.get(option)
        if field is None:
            raise BadCommand(
                f"{intent.name} has no option {option} here. It has {', '.join(fields)}"
            )
        text = "yes" if "" in field.choices else value if equals else next(left, "")
        if not text:
            raise BadCommand(f"{option} needs a value")
        if field.choices and text not in field.choices:
            raise BadCommand(f"{option}: {text!r} is none of {', '.join(field.choices)}")
        texts[field.name] = text
    return bare, texts


def _arguments(intent: Intent, bare: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield what bare words say, by field, in the order of the shell."""
    fields = [FIELDS[name] for name in intent.needs if not FIELDS[name].options]
    many = fields[-1].kind if fields and fields[-1].kind.many else None
    if many is None and len(bare) > len(fields):
        taken = " ".join(bare[: len(fields)])
        raise BadCommand(f"{intent.name} takes nothing behind {taken}")
    for place, (field, word) in enumerate(zip(fields, bare, strict=False)):
        rest = bare[place + 1 :] if field is fields[-1] and many is not None else ()
        yield field.name, field.kind.joined_by.join([word, *rest])
