"""A plan chosen on the screen, the cluster's state for it, and the lines to show about it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ktui.execution.host.catalog import unfinished_with_partitions
from ktui.execution.host.state_dir import StateDir
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
PROBLEMS = "The plan has problems, which are told above: nothing is sent."
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

ColouredLine = tuple[str, str]
"""A line, and its colour."""


class ChosenPlan(msgspec.Struct, frozen=True):
    """A plan, checked against the cluster and against the runs that exist."""

    path: Path
    plan: Plan
    seen: ClusterSnapshot
    ground: PreflightBase
    unfinished: Sequence[tuple[str, int]]
    """Runs without an engine, and how many of the plan's partitions each has left."""
    measured: bool = False
    """Whether the inbound traffic has been measured, as far as it can be."""

    @property
    def brokers_alive(self) -> int:
        """The number of live brokers."""
        return len(self.seen.online)

    async def with_inbound(self, engines: EngineLauncher) -> ChosenPlan:
        """Measure the traffic that a throttle is checked against, which takes some seconds.

        Raises:
            ClusterError: the cluster cannot be asked.
        """
        seen = await engines.measured(self.plan, self.seen)
        ground = await asyncio.to_thread(PreflightBase, self.plan, seen)
        return msgspec.structs.replace(self, seen=seen, ground=ground, measured=True)

    async def judged(
        self, limits: Limits, throttle: ThrottleRates, allowed: Allowances, *, leaders: bool
    ) -> tuple[Sequence[Finding], list[ColouredLine]]:
        """Check the plan under limits, and preview its effect.

        Returns:
            The findings, and the lines to show.
        """
        figures = await asyncio.to_thread(
            self.ground.under, limits, throttle=throttle, throttle_leaders=leaders
        )
        found = await asyncio.to_thread(check_plan, self.plan, self.seen, allowed)
        findings = tuple(each for each in (*found, *figures.warnings) if self._known(each))
        shown = [
            (self._unfinished_line(*run), _COLOURS[Severity.WARNING]) for run in self.unfinished
        ]
        found_words = self.told_of(findings, throttled=bool(throttle))
        shown += found_words or ([("", "")] if shown else [])
        return findings, [*shown, *((line, "") for line in lines(figures))]

    def told_of(self, findings: Sequence[Finding], *, throttled: bool) -> list[ColouredLine]:
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
    seen = await engines.look(plan)
    ground = await asyncio.to_thread(PreflightBase, plan, seen)
    partitions = [target.tp for target in plan.partitions]
    left = await asyncio.to_thread(
        lambda: list(unfinished_with_partitions(state_dir, cluster_id, partitions))
    )
    return ChosenPlan(path, plan, seen, ground, left)


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
