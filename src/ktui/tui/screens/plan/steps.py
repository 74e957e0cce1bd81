"""The steps of a plan's screen, and the findings that belong to each of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ktui.planning.check.findings import Finding, FindingKind, Severity


class Step(NamedTuple):
    """One step."""

    name: str
    """The word in the line of steps, and the end of the ids of its widgets."""
    first_field: str
    """The selector of the field that has the focus when the step is opened."""


PLAN, LIMITS, THROTTLE, CHECK = "plan", "limits", "throttle", "check"
"""The steps that findings belong to."""
_STEP_OF_KIND = {
    FindingKind.NEVER_FITS: LIMITS,
    FindingKind.NEVER_ENDS: THROTTLE,
    FindingKind.SLOWER_THAN_A_FETCH: THROTTLE,
    FindingKind.INBOUND_UNKNOWN: THROTTLE,
    FindingKind.LEADERS_THROTTLED: THROTTLE,
    FindingKind.LIST_TOO_LONG: THROTTLE,
    FindingKind.THROTTLE_REPLACED: THROTTLE,
    FindingKind.OTHERS_THROTTLED: THROTTLE,
    FindingKind.ONE_THROTTLE: THROTTLE,
    FindingKind.THROTTLE_NOT_PERMITTED: THROTTLE,
    FindingKind.CANARY_REFUSED: THROTTLE,
}


def step_of(finding: Finding) -> str:
    """Return the step in which a finding can be mended.

    A problem that nothing allows is mended in the plan's file. All others are read in the check.
    """
    mended = finding.severity is not Severity.PROBLEM or finding.option is not None
    return _STEP_OF_KIND.get(finding.kind, CHECK if mended else PLAN)


def findings_of(step: str, findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that belong to a step."""
    return [finding for finding in findings if step_of(finding) == step]


def worst_of(step: str, findings: Sequence[Finding]) -> Severity | None:
    """Return the worst severity of a step's findings; None without a problem or a warning."""
    found = {finding.severity for finding in findings_of(step, findings)}
    return next((each for each in (Severity.PROBLEM, Severity.WARNING) if each in found), None)
