"""A plan chosen on the screen, the cluster's state for it, and the lines to show about it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from ktui.cluster.text import clean
from ktui.execution.engine.add_plan import CheckedExtraPlan, join_effects_text
from ktui.execution.host.catalog import unfinished_with_partitions
from ktui.execution.host.other_runs import find_movers
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.events import OnConflict
from ktui.execution.run.run import Run
from ktui.pacing.limits import Limits
from ktui.planning.check.check import check_plan
from ktui.planning.check.findings import Allowances, ClusterSnapshot, Finding, FindingKind, Severity
from ktui.planning.plan import Plan
from ktui.planning.preflight.preflight import PreflightBase
from ktui.planning.preflight.text import lines
from ktui.planning.read.read import read_plan
from ktui.planning.throttle_rates import ThrottleRates
from ktui.quantities import as_count
from ktui.tui.run_view.launchers import EngineLauncher

MOST_FINDINGS = 50
PROBLEMS = "The plan has the problems above: nothing is sent."
_COLOURS = {Severity.PROBLEM: "bold $error", Severity.WARNING: "$warning", Severity.NOTE: "$dim"}
_UNFINISHED = (
    "warning: run {} waits for resume, with {} left that this plan has, too; R in the list of"
    " runs goes on with it. Resumed after this one, it leaves those out that it finds changed then"
)
_OF_THROTTLE = (
    FindingKind.NEVER_ENDS,
    FindingKind.LEADERS_THROTTLED,
    FindingKind.SLOWER_THAN_A_FETCH,
)
_MEASURING = "Measuring for 2 s how much is written, and whether the throttle lets through more …"

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


class ChosenPlan(msgspec.Struct, frozen=True):
    """A plan, checked against the cluster and against the runs that exist."""

    path: Path
    plan: Plan
    snapshot: ClusterSnapshot
    base: PreflightBase
    unfinished: Sequence[tuple[str, int]]
    """Runs without an engine, and how many of the plan's partitions each has left."""
    measured: bool = False
    """Whether the inbound traffic has been measured, as far as it can be."""

    @property
    def brokers_alive(self) -> int:
        """The number of live brokers."""
        return len(self.snapshot.online)

    async def with_inbound(self, engines: EngineLauncher) -> ChosenPlan:
        """Measure the traffic that a throttle is checked against, which takes some seconds.

        Raises:
            ClusterError: the cluster cannot be asked.
        """
        snapshot = await engines.add_inbound(self.plan, self.snapshot)
        base = await asyncio.to_thread(PreflightBase, self.plan, snapshot)
        return msgspec.structs.replace(self, snapshot=snapshot, base=base, measured=True)

    async def check(
        self, limits: Limits, throttle: ThrottleRates, allowed: Allowances, *, leaders: bool
    ) -> tuple[Sequence[Finding], list[ColouredLine]]:
        """Check the plan under limits, and preview its effect.

        Returns:
            The findings, and the lines to show.
        """
        figures = await asyncio.to_thread(
            self.base.under, limits, throttle=throttle, throttle_leaders=leaders
        )
        found = await asyncio.to_thread(check_plan, self.plan, self.snapshot, allowed)
        findings = tuple(each for each in (*found, *figures.warnings) if self._known(each))
        shown = [
            (self._unfinished_line(*run), _COLOURS[Severity.WARNING]) for run in self.unfinished
        ]
        found_words = self.finding_lines(findings, throttled=bool(throttle))
        shown += found_words or ([("", "")] if shown else [])
        return findings, [*shown, *((line, "") for line in lines(figures))]

    def finding_lines(self, findings: Sequence[Finding], *, throttled: bool) -> list[ColouredLine]:
        """Return the lines of findings and an empty line below them; of very many, the first ones.

        Args:
            findings: the findings.
            throttled: whether there is a throttle, for which the traffic has to be measured.
        """
        shown = [(_MEASURING, "$dim")] if throttled and not self.measured else []
        known = [each for each in findings if self._known(each)]
        shown += [(_sentence(each), _COLOURS[each.severity]) for each in known[:MOST_FINDINGS]]
        if (more := len(known) - MOST_FINDINGS) > 0:
            shown.append((f"and {more:,} more", "$dim"))
        return [*shown, ("", "")] if shown else []

    def _known(self, finding: Finding) -> bool:
        return self.measured or finding.kind is not FindingKind.INBOUND_UNKNOWN

    @staticmethod
    def _unfinished_line(name: str, left: int) -> str:
        return _UNFINISHED.format(name, as_count(left, "partition"))


async def read_chosen_plan(
    path: Path, engines: EngineLauncher, state_dir: StateDir, cluster_id: str
) -> ChosenPlan:
    """Read a plan, and the cluster's state for it.

    Raises:
        BadPlan: with every mistake and its place.
        ClusterError: the cluster cannot be asked.
        RunProblem: the state directory cannot be read.
    """
    plan = await asyncio.to_thread(read_plan, path)
    snapshot = await engines.read_snapshot(plan)
    if snapshot.listed:
        movers = await asyncio.to_thread(find_movers, state_dir, cluster_id)
        snapshot = msgspec.structs.replace(snapshot, movers=movers)
    base = await asyncio.to_thread(PreflightBase, plan, snapshot)
    partitions = [target.tp for target in plan.partitions]
    left = await asyncio.to_thread(
        lambda: list(unfinished_with_partitions(state_dir, cluster_id, partitions))
    )
    return ChosenPlan(path, plan, snapshot, base, left)


def throttle_sentences(findings: Sequence[Finding]) -> list[str]:
    """Return the findings to show where the throttle is typed."""
    return [each.sentence for each in findings if each.kind in _OF_THROTTLE]


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
        allow = " (may be allowed below)"
    return f"{finding.severity}: {line}{finding.sentence}{allow}"


def check_extra_plan(
    chosen: ChosenPlan, run: Run, on_conflict: OnConflict, allowed: Allowances
) -> tuple[CheckedExtraPlan, list[ColouredLine]]:
    """Check a plan against the run that it is to join.

    Returns:
        The extra plan, and the lines to show about it.
    """
    name = clean(chosen.path.name)
    extra = CheckedExtraPlan(chosen.plan, name, run, chosen.snapshot, on_conflict, allowed)
    idle = extra.idle
    figures = None if idle else extra.preflight()
    shown = chosen.finding_lines(
        (*extra.findings, *(() if figures is None else figures.warnings)),
        throttled=bool(run.throttled.rates) and not idle,
    )
    shown += [(line, "" if n else "bold") for n, line in enumerate(extra.in_run())]
    if figures is not None:
        shown += [("", ""), (_BY_ITSELF, "$dim"), *((line, "") for line in lines(figures))]
    return extra, shown


def extra_plan_problem(extra: CheckedExtraPlan) -> str | None:
    """Return why an extra plan is not added; None if it may be."""
    if extra.has_problems:
        return PROBLEMS
    return f"There is nothing to do: {join_effects_text(extra.effects)}." if extra.idle else None
