"""A plan chosen on the screen, the cluster's state for it, and the lines to show about it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from ktui.cluster.text import clean
from ktui.execution.engine.add_plan import CheckedExtraPlan, join_effects_text
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.host.catalog import unfinished_with_partitions
from ktui.execution.host.other_runs import find_movers
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.events import OnConflict
from ktui.execution.run.run import Run
from ktui.pacing.limits import Limits
from ktui.planning.check.check import check_plan
from ktui.planning.check.findings import (
    Allowances,
    ClusterSnapshot,
    Finding,
    FindingKind,
    Option,
    Severity,
)
from ktui.planning.intents.before_after import BeforeAfter
from ktui.planning.plan import Plan
from ktui.planning.read.read import read_plan
from ktui.planning.throttle_rates import ThrottleRates
from ktui.preview.preflight import Preflight, PreflightBase
from ktui.quantities import as_count
from ktui.speed.capacity import Capacity
from ktui.tui.run_view.generated_plan import GeneratedPlan, generate_plan
from ktui.tui.run_view.launchers import EngineLauncher
from ktui.tui.run_view.plan_request import PlanRequest, PlanSource

MOST_FINDINGS = 50
PROBLEMS = "The plan has the problems above: nothing is sent."
_COLOURS = {Severity.PROBLEM: "bold $error", Severity.WARNING: "$warning", Severity.NOTE: "$dim"}
_UNFINISHED = (
    "warning: run {} waits for resume, with {} left that this plan has, too; R in the list of"
    " runs goes on with it. Resumed after this one, it leaves those out that it finds changed then"
)
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


class PlanPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan does under the limits typed, and what speaks against it."""

    findings: Sequence[Finding]
    notes: Sequence[ColouredLine] = ()
    """Warnings that are about other runs, or about what the plan leaves undone."""
    measuring: bool = False
    """Whether the traffic that a throttle is compared with is still being measured."""
    in_run: Sequence[ColouredLine] = ()
    """What happens in the run that the plan is added to."""
    figures: Preflight | None
    """None if there is nothing to do."""
    change: BeforeAfter | None = None
    """What every broker has before and after, of a plan that was made and is a run of its own."""

    def lines(self) -> list[ColouredLine]:
        """Return the lines of everything found."""
        return [*self.notes, *finding_lines(self.findings, measuring=self.measuring)]


def finding_lines(findings: Sequence[Finding], *, measuring: bool = False) -> list[ColouredLine]:
    """Return a line for each finding; of very many, the first ones are listed."""
    shown = [(MEASURING, "$dim")] if measuring else []
    shown += [(_sentence(each), _COLOURS[each.severity]) for each in findings[:MOST_FINDINGS]]
    if (more := len(findings) - MOST_FINDINGS) > 0:
        shown.append((f"and {more:,} more", "$dim"))
    return shown


class ChosenPlan(msgspec.Struct, frozen=True):
    """A plan, checked against the cluster and against the runs that exist."""

    path: Path
    """The plan's file; that of a generated plan has only a name."""
    plan: Plan
    snapshot: ClusterSnapshot
    base: PreflightBase
    unfinished: Sequence[tuple[str, int]]
    """Runs without an engine, and how many of the plan's partitions each has left."""
    generated: GeneratedPlan | None = None
    """What the plan was made from; None for that of a file."""
    measured: bool = False
    """Whether the inbound traffic has been measured, as far as it can be."""

    async def with_inbound(self, engines: EngineLauncher) -> ChosenPlan:
        """Measure the traffic that a throttle is checked against, which takes some seconds.

        Raises:
            ClusterError: the cluster cannot be asked.
        """
        snapshot = await engines.add_inbound(self.plan, self.snapshot)
        base = await asyncio.to_thread(PreflightBase, self.plan, snapshot, self.base.known)
        return msgspec.structs.replace(self, snapshot=snapshot, base=base, measured=True)

    async def preview(
        self, limits: Limits, throttle: ThrottleRates, allowed: Allowances, *, leaders: bool
    ) -> PlanPreview:
        """Check the plan under limits, and compute its effect."""

        def computed() -> PlanPreview:
            figures = self.base.under(limits, throttle=throttle, throttle_leaders=leaders)
            found = (*check_plan(self.plan, self.snapshot, allowed), *figures.warnings)
            return PlanPreview(
                findings=self.known(found),
                notes=[*self.undone, *self.notes()],
                measuring=bool(throttle) and not self.measured,
                figures=figures,
                change=None if self.generated is None else self.generated.change,
            )

        return await asyncio.to_thread(computed)

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

    def notes(self) -> list[ColouredLine]:
        """Return the warnings that are about other runs, and which part of the file is the plan."""
        runs = (_unfinished(*run) for run in self.unfinished)
        warnings = [(run, _COLOURS[Severity.WARNING]) for run in runs]
        return [*warnings, *([(self.plan.note, _COLOURS[Severity.NOTE])] if self.plan.note else [])]

    def known(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Leave out what is not known only because it has not been measured yet."""
        unknown = None if self.measured else FindingKind.INBOUND_UNKNOWN
        return tuple(each for each in findings if each.kind is not unknown)


async def read_chosen_plan(
    request: PlanRequest, engines: EngineLauncher, state_dir: StateDir, cluster_id: str
) -> ChosenPlan:
    """Read or generate a plan, and read the cluster's state for it.

    Raises:
        BadPlan: with every mistake and its place.
        Unreadable: the plan's file cannot be read.
        CannotMake: there is no such plan.
        ClusterError: the cluster cannot be asked.
        RunProblem: the state directory cannot be read.
    """
    path = request.file
    generated = None
    if request.source is PlanSource.FILE:
        plan = await asyncio.to_thread(read_plan, path)
    else:
        generated = await asyncio.to_thread(generate_plan, request, await engines.read_layout())
        plan = generated.plan
    snapshot = await engines.read_snapshot(plan)
    if snapshot.listed:
        movers = await asyncio.to_thread(find_movers, state_dir, cluster_id)
        snapshot = msgspec.structs.replace(snapshot, movers=movers)
    prior = await asyncio.to_thread(EarlierRuns(state_dir), cluster_id)
    base = await asyncio.to_thread(PreflightBase, plan, snapshot, Capacity(prior))
    partitions = [target.tp for target in plan.partitions]
    left = await asyncio.to_thread(
        lambda: list(unfinished_with_partitions(state_dir, cluster_id, partitions))
    )
    return ChosenPlan(path, plan, snapshot, base, left, generated)


def _unfinished(name: str, left: int) -> str:
    return _UNFINISHED.format(name, as_count(left, "partition"))


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
    name = clean(chosen.path.name)
    extra = CheckedExtraPlan(
        chosen.plan, name, run, chosen.snapshot, on_conflict, allowed, known=chosen.base.known
    )
    idle = extra.idle
    figures = None if idle else extra.preflight()
    found = (*extra.findings, *(() if figures is None else figures.warnings))
    in_run = [(line, "" if n else "bold") for n, line in enumerate(extra.in_run())]
    by_itself = [] if figures is None else [("", ""), (_BY_ITSELF, "$dim")]
    preview = PlanPreview(
        findings=chosen.known(found),
        notes=chosen.undone,
        measuring=bool(run.throttled.rates) and not idle and not chosen.measured,
        in_run=[*in_run, *by_itself],
        figures=figures,
    )
    return extra, preview


def extra_plan_problem(extra: CheckedExtraPlan) -> str | None:
    """Return why an extra plan is not added; None if it may be."""
    if extra.has_problems:
        return PROBLEMS
    return f"There is nothing to do: {join_effects_text(extra.effects)}." if extra.idle else None
