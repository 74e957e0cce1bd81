"""The report of a checked plan, for people."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from ktui.cli.context.terminal import styled
from ktui.cluster.partition import TopicPartition
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import Finding, FindingKind, Severity
from ktui.planning.preflight import text as preflight_words
from ktui.planning.preflight.preflight import Preflight
from ktui.planning.preflight.steps import PartitionSteps
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates

_COLOURS = {Severity.PROBLEM: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


class CheckedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, and all results of its check."""

    plan: str
    """The file's name, cleaned for the terminal."""
    cluster: str
    findings: tuple[Finding, ...]
    """The findings of the plan against its cluster; warnings about figures are in `preflight`."""
    preflight: Preflight
    throttle: ThrottleRates = NO_THROTTLE
    """The run's own rates."""
    throttle_leaders: bool = False
    partitions: tuple[PartitionSteps, ...] | None = None
    """None unless the steps were asked for."""

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """Return the findings of one severity, in the file's order."""
        findings = (*self.findings, *self.preflight.warnings)
        found = [finding for finding in findings if finding.severity is severity]
        return tuple(sorted(found, key=_line_and_column))

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that keep the plan from being started."""
        return self.of(Severity.PROBLEM)


def _line_and_column(finding: Finding) -> tuple[float, int]:
    return (math.inf, 0) if finding.place is None else (finding.place.line, finding.place.column)


def report(checked: CheckedPlan) -> str:
    """Report the findings first, then the figures, the steps if asked for, and the verdict."""
    sections = [
        [finding_line(checked.plan, f) for severity in Severity for f in checked.of(severity)],
        preflight_words.lines(checked.preflight),
        _throttle(checked),
        _steps(checked),
        [_verdict(checked)],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def finding_line(plan: str, finding: Finding) -> str:
    """Format a finding as compilers do: place, severity, sentence, and the option to allow it."""
    place = finding.place
    where = "" if place is None else f":{place.line}:{place.column}"
    sign = styled(finding.severity.value, fg=_COLOURS[finding.severity])
    return f"{plan}{where}: {sign}: {finding.sentence}{_allowed(finding)}"


def _allowed(finding: Finding) -> str:
    if finding.option is None:
        return ""
    if finding.severity is Severity.PROBLEM:
        return f"; {finding.option} allows it"
    return f"; allowed by {finding.option}"


def _throttle(checked: CheckedPlan) -> list[str]:
    if not checked.throttle:
        return []
    words = checked.throttle.with_leaders(throttled=checked.throttle_leaders)
    return [f"throttle  {words}"]


def _steps(checked: CheckedPlan) -> list[str]:
    if checked.partitions is None:
        return []
    lines = [f"steps, {_limits_in_words(checked.preflight.limits)}:"]
    for partition in checked.partitions:
        if partition.steps:
            lines.append(str(TopicPartition(partition.topic, partition.partition)))
        for number, step in enumerate(partition.steps or (), start=1):
            elects = "" if step.elect is None else f"  elect {step.elect}"
            lines.append(f"  {number}  {_joined(step.replicas)}{elects}")
    return lines


def _limits_in_words(limits: Limits) -> str:
    """Name the limits that determine the steps of one partition."""
    replicas = "all replicas at once" if limits.replicas is None else f"{limits.replicas} at a time"
    extra = "" if limits.extra_replicas is None else f", at most {limits.extra_replicas} extra"
    return f"{limits.shape} shape, {replicas}{extra}"


def _joined(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _verdict(checked: CheckedPlan) -> str:
    counts = [
        _count(len(found), severity.value)
        for severity in (Severity.PROBLEM, Severity.WARNING)
        if (found := checked.of(severity))
    ]
    if checked.problems:
        return f"{' and '.join(counts)}: the plan cannot be started."
    if any(finding.kind is FindingKind.NOTHING_TO_DO for finding in checked.findings):
        return "Nothing to do."
    return f"No problem{f', {counts[0]}' if counts else ''}."


def _count(count: int, name: str) -> str:
    return f"{count:,} {name}{'' if count == 1 else 's'}"
