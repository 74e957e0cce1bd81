"""The plan that an operator asks for: that of a file, or one that is made of an intent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ktui.cluster.text import clean
from ktui.execution.engine.add_plan import CheckedExtraPlan, join_effects_text
from ktui.execution.run.events import OnConflict
from ktui.execution.run.run import Run
from ktui.inputfile import expand_home
from ktui.ops.start import FactReader
from ktui.planning.check.findings import (
    Allowances,
    Finding,
    FindingKind,
    NeededPermission,
    Option,
    Severity,
)
from ktui.planning.intents.layout import (
    BeforeAfter,
    Layout,
    before_after,
    rack_warnings,
    unread_warnings,
    without_rack,
)
from ktui.planning.intents.made_plan import CannotMake, MadePlan, Wishes, check_patterns, left_lines
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
from ktui.planning.plan import Plan, closest_names
from ktui.planning.read import read_plan
from ktui.preview.facts import ClusterFacts, Terms
from ktui.preview.preview import PlanPreview, PreviewBase
from ktui.quantities import as_bytes, as_count
from ktui.tui.run_view.launchers import BadCommand, EngineLauncher

FILE = "file"
SOURCES = (FILE, *INTENTS)
"""Where a plan may come from: a file, or an intent by its verb of `ktui plan`."""


class PlanRequest(msgspec.Struct, frozen=True):
    """What was chosen and typed, valid or not."""

    source: str = FILE
    texts: Mapping[str, str] = {}
    """The text of each field that was typed into. What other sources need does not count."""

    def text(self, field: str) -> str:
        return self.texts.get(field, FIELDS[field].default)

    @property
    def intent(self) -> Intent | None:
        return INTENTS.get(self.source)

    @property
    def needed(self) -> Sequence[str]:
        return ("path",) if self.intent is None else self.intent.needed

    @property
    def words(self) -> str:
        if not all(map(self.text, self.needed)):
            return ""
        if self.intent is None:
            return self.text("path")
        spreads = "among" in self.intent.may_have and self.text("among")
        among = f" among {self.text('among')}" if spreads else ""
        return self.intent.reads.format_map({name: self.text(name) for name in FIELDS}) + among

    @property
    def file(self) -> Path:
        intent = self.intent
        if intent is None:
            return expand_home(self.text("path"))
        typed = {name: "-".join(parts(self.text(name))) for name in FIELDS}
        named = "-".join([intent.name, *filter(None, map(typed.get, intent.named_by))])
        return Path(f"{intent.file.format_map(typed) or named}.json")

    def generate(self, layout: Layout) -> MadePlan:
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
    budget: str = ""

    @property
    def headline(self) -> str:
        change = self.change
        copied = (
            f"{as_count(change.replicas, 'replica')} to copy ({as_bytes(change.bytes)})"
            if change.replicas
            else "nothing to copy"
        )
        leaders = as_count(change.leaders, "leader change")
        return f"{as_count(len(self.plan.partitions), 'partition')}: {copied}, {leaders}"


def generate_plan(request: PlanRequest, layout: Layout) -> GeneratedPlan:
    """Make a plan from the cluster as it was read; CannotMake where there is none to make."""
    made = request.generate(layout)
    return GeneratedPlan(
        plan=made.plan,
        change=before_after(layout, made.plan),
        notes=(
            *left_lines(made.left),
            *unread_warnings(layout.failures),
            *rack_warnings(layout),
        ),
        budget=request.budget(made),
    )


def parse_plan_words(words: Sequence[str]) -> PlanRequest:
    """Return the plan that words ask for; what is missing is left to be typed."""
    verb, *rest = words or [""]
    if verb not in INTENTS:
        near = closest_names(verb, INTENTS)
        hint = f"Did you mean {near[0]}?" if near else f"Use {' or '.join(INTENTS)}"
        raise BadCommand(f"there is no plan {verb!r}. {hint}")
    bare, texts = _split(INTENTS[verb], rest)
    return PlanRequest(verb, {**texts, **dict(_arguments(INTENTS[verb], bare))})


def _split(intent: Intent, words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
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
            raise BadCommand(f"{option}: {text!r} is not one of {', '.join(field.choices)}")
        texts[field.name] = text
    return bare, texts


def _arguments(intent: Intent, bare: Sequence[str]) -> Iterator[tuple[str, str]]:
    fields = [FIELDS[name] for name in intent.needs if not FIELDS[name].options]
    many = fields[-1].kind if fields and fields[-1].kind.many else None
    if many is None and len(bare) > len(fields):
        taken = " ".join(bare[: len(fields)])
        raise BadCommand(f"{intent.name}: nothing may follow {taken}")
    for place, (field, word) in enumerate(zip(fields, bare, strict=False)):
        rest = bare[place + 1 :] if field is fields[-1] and many is not None else ()
        yield field.name, field.kind.joined_by.join([word, *rest])


MOST_FINDINGS = 50
PROBLEMS = "The plan has the problems above: nothing is sent."
_COLOURS = {Severity.PROBLEM: "bold $error", Severity.WARNING: "$warning", Severity.NOTE: "$dim"}
MEASURING = "Measuring for 2 s how much is written, and whether the throttle lets through more …"

_BY_ITSELF = "by itself, under the run's limits:"

ColouredLine = tuple[str, str]


class Conflict(NamedTuple):
    """A way to treat partitions that the run moves elsewhere."""

    value: OnConflict
    words: str
    means: str


CONFLICTS = (
    Conflict(
        OnConflict.ROLLBACK,
        "roll back",
        "What the run moves elsewhere goes back at once to its original replicas, then is queued"
        " again.",
    ),
    Conflict(
        OnConflict.KEEP,
        "keep",
        "What the run has with another target keeps that; the plan's is dropped for it.",
    ),
    Conflict(
        OnConflict.RETARGET,
        "re-target",
        "What the run has in flight elsewhere is cancelled, and goes on to its new target from"
        " where it is.",
    ),
)
"""The choices; the first is the default of `ktui add`."""


def finding_lines(findings: Sequence[Finding], *, measuring: bool = False) -> list[ColouredLine]:
    """Return a line for each finding; of very many, the first ones are listed."""
    shown = [(MEASURING, "$dim")] if measuring else []
    shown += [(_sentence(each), _COLOURS[each.severity]) for each in findings[:MOST_FINDINGS]]
    if (more := len(findings) - MOST_FINDINGS) > 0:
        shown.append((f"and {more:,} more", "$dim"))
    return shown


class ChosenPlan(msgspec.Struct, frozen=True):
    """A plan, with the cluster as it was read for it."""

    path: Path
    base: PreviewBase
    generated: GeneratedPlan | None = None
    measured: bool = False

    @property
    def plan(self) -> Plan:
        return self.base.plan

    @property
    def change(self) -> BeforeAfter | None:
        return None if self.generated is None else self.generated.change

    async def with_throttle(self, facts: FactReader, canary: str) -> ChosenPlan:
        found = await facts.add_throttle(self.plan, self.base.facts, canary)
        base = await asyncio.to_thread(_base, self.plan, found, self.path)
        return msgspec.structs.replace(self, base=base, measured=True)

    async def preview(self, terms: Terms) -> PlanPreview:
        return self.known(await asyncio.to_thread(self.base.under, terms, roughly=True))

    @property
    def undone(self) -> list[ColouredLine]:
        notes = [] if self.generated is None else self.generated.notes
        return [(note, _COLOURS[Severity.WARNING]) for note in notes]

    @property
    def budget(self) -> list[ColouredLine]:
        words = "" if self.generated is None else self.generated.budget
        return [(words, "")] if words else []

    @property
    def notes(self) -> list[ColouredLine]:
        note = self.plan.note
        return [*self.undone, *([(note, _COLOURS[Severity.NOTE])] if note else [])]

    def known(self, preview: PlanPreview) -> PlanPreview:
        unknown = None if self.measured else FindingKind.INBOUND_UNKNOWN
        return preview.without(lambda finding: finding.kind is unknown)


async def read_chosen_plan(
    request: PlanRequest, engines: EngineLauncher, need: NeededPermission, joins: str = ""
) -> ChosenPlan:
    """Read or generate a plan, for the run that it joins if any, and read the cluster for it."""
    path = request.file
    generated = None
    if request.source == FILE:
        plan = await asyncio.to_thread(read_plan, path)
    else:
        generated = await asyncio.to_thread(generate_plan, request, await engines.read_layout())
        plan = generated.plan
    facts = await engines.facts.read(plan, need, joins=joins)
    base = await asyncio.to_thread(_base, plan, facts, path)
    return ChosenPlan(path, base, generated)


def _base(plan: Plan, facts: ClusterFacts, path: Path) -> PreviewBase:
    return PreviewBase(plan, facts, source=clean(path.name))


def plan_problem(findings: Sequence[Finding]) -> str | None:
    """Return why a plan with these findings is not started; None if it may be."""
    if any(each.severity is Severity.PROBLEM for each in findings):
        return PROBLEMS
    if any(each.kind is FindingKind.NOTHING_TO_DO for each in findings):
        return "All of it is at its target already: there is nothing to do."
    return None


def _sentence(finding: Finding) -> str:
    line = "" if finding.place is None else f"line {finding.place.line}: "
    allow = ""
    if finding.option is not None and finding.severity is Severity.PROBLEM:
        allow = (
            f". To insist: ktui start {finding.option}"
            if finding.option is Option.SLOW
            else " (may be allowed above)"
        )
    return f"{finding.severity}: {line}{finding.sentence}{allow}"


def check_extra_plan(
    chosen: ChosenPlan, run: Run, on_conflict: OnConflict, allowed: Allowances
) -> tuple[CheckedExtraPlan, PlanPreview]:
    """Check a plan against the run that it is to join, and preview what it does there."""
    name, facts = clean(chosen.path.name), chosen.base.facts
    extra = CheckedExtraPlan(chosen.plan, name, run, facts, on_conflict, allowed)
    return extra, chosen.known(extra.preview)


def lines_in_run(extra: CheckedExtraPlan) -> list[ColouredLine]:
    """Return what happens in the run that a plan is added to."""
    in_run = [(line, "" if n else "bold") for n, line in enumerate(extra.in_run())]
    return [*in_run, *([] if extra.idle else [("", ""), (_BY_ITSELF, "$dim")])]


def extra_plan_problem(extra: CheckedExtraPlan) -> str | None:
    """Return why an extra plan is not added; None if it may be."""
    if extra.has_problems:
        return PROBLEMS
    return f"There is nothing to do: {join_effects_text(extra.effects)}." if extra.idle else None
