"""A plan chosen on the screen, the cluster's state for it, and the lines to show about it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from ktui.cluster.text import clean
from ktui.execution.engine.add_plan import CheckedExtraPlan, join_effects_text
from ktui.execution.run.events import OnConflict
from ktui.execution.run.run import Run
from ktui.ops.preview import FactReader
from ktui.planning.check.findings import (
    Allowances,
    Finding,
    FindingKind,
    Option,
    Severity,
)
from ktui.planning.check.permissions import NeededPermission
from ktui.planning.intents.before_after import BeforeAfter
from ktui.planning.plan import Plan
from ktui.planning.read.read import read_plan
from ktui.preview.facts import ClusterFacts, Terms
from ktui.preview.preview import PlanPreview, PreviewBase
from ktui.tui.run_view.launchers import EngineLauncher
from ktui.tui.run_view.plan_request import FILE, GeneratedPlan, PlanRequest, generate_plan

MOST_FINDINGS = 50
PROBLEMS = "The plan has the problems above: nothing is sent."
_COLOURS = {Severity.PROBLEM: "bold $error", Severity.WARNING: "$warning", Severity.NOTE: "$dim"}
MEASURING = "Measuring for 2 s how much is written, and whether the throttle lets through more …"

_BY_ITSELF = "by itself, under the run's limits:"

ColouredLine = tuple[str, str]
"""A line, and its colour."""


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
    """The plan's file; that of a generated plan has only a name."""
    base: PreviewBase
    generated: GeneratedPlan | None = None
    """What the plan was made from; None for that of a file."""
    measured: bool = False
    """Whether the inbound traffic has been measured, as far as it can be."""

    @property
    def plan(self) -> Plan:
        return self.base.plan

    @property
    def change(self) -> BeforeAfter | None:
        """What every broker has before and after; only of a plan that was made."""
        return None if self.generated is None else self.generated.change

    async def with_throttle(self, facts: FactReader, canary: str) -> ChosenPlan:
        """Read what a throttle is checked against, which takes some seconds.

        Raises:
            ClusterError: the cluster cannot be asked.
        """
        found = await facts.add_throttle(self.plan, self.base.facts, canary)
        base = await asyncio.to_thread(_base, self.plan, found, self.path)
        return msgspec.structs.replace(self, base=base, measured=True)

    async def preview(self, terms: Terms) -> PlanPreview:
        """Preview the plan under some terms."""
        return self.known(await asyncio.to_thread(self.base.under, terms, roughly=True))

    @property
    def undone(self) -> list[ColouredLine]:
        """What a plan that ktui made leaves undone, or could not take into account."""
        notes = [] if self.generated is None else self.generated.notes
        return [(note, _COLOURS[Severity.WARNING]) for note in notes]

    @property
    def budget(self) -> list[ColouredLine]:
        """How much of its budget a plan that ktui made uses."""
        words = "" if self.generated is None else self.generated.budget
        return [(words, "")] if words else []

    @property
    def notes(self) -> list[ColouredLine]:
        """What the plan leaves undone, and which part of the file is the plan."""
        note = self.plan.note
        return [*self.undone, *([(note, _COLOURS[Severity.NOTE])] if note else [])]

    def known(self, preview: PlanPreview) -> PlanPreview:
        """Leave out what is not known only because it has not been measured yet."""
        unknown = None if self.measured else FindingKind.INBOUND_UNKNOWN
        return preview.without(lambda finding: finding.kind is unknown)


async def read_chosen_plan(
    request: PlanRequest, engines: EngineLauncher, need: NeededPermission, joins: str = ""
) -> ChosenPlan:
    """Read or generate a plan, and read the cluster's state for it.

    Args:
        request: the plan as it is typed.
        engines: read the cluster.
        need: the permissions that are needed.
        joins: the run that the plan is added to; empty for a run of its own.

    Raises:
        BadPlan: with every mistake and its place.
        Unreadable: the plan's file cannot be read.
        CannotMake: there is no such plan.
        ClusterError: the cluster cannot be asked.
        RunProblem: the state directory cannot be read.
    """
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
