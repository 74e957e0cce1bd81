"""The report of a previewed plan, as text."""

from __future__ import annotations

from ktui.cli.context.terminal import styled
from ktui.cluster.partition import TopicPartition
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import Finding, Severity
from ktui.preview import text
from ktui.preview.preview import PlanPreview
from ktui.quantities import as_count

_COLOURS = {Severity.PROBLEM: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def report(preview: PlanPreview) -> str:
    """Report the findings first, then the figures, the steps if asked for, and the verdict."""
    sections = [finding_lines(preview), text.lines(preview), _steps(preview), [_verdict(preview)]]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def finding_lines(preview: PlanPreview) -> list[str]:
    """Format all findings, problems first."""
    return [finding_line(preview.plan, finding) for finding in preview.findings]


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


def _steps(preview: PlanPreview) -> list[str]:
    if not preview.partitions:
        return []
    lines = [f"steps, {_limits_in_words(preview.limits)}:"]
    for partition in preview.partitions:
        if partition.steps:
            lines.append(str(TopicPartition(partition.topic, partition.partition)))
        for number, step in enumerate(partition.steps or (), start=1):
            elects = "" if step.elect is None else f"  elect {step.elect}"
            lines.append(f"  {number}  {','.join(map(str, step.replicas))}{elects}")
    return lines


def _limits_in_words(limits: Limits) -> str:
    replicas = "all replicas at once" if limits.replicas is None else f"{limits.replicas} at a time"
    extra = "" if limits.extra_replicas is None else f", at most {limits.extra_replicas} extra"
    return f"{limits.shape} shape, {replicas}{extra}"


def _verdict(preview: PlanPreview) -> str:
    counts = [
        as_count(len(found), severity.value)
        for severity in (Severity.PROBLEM, Severity.WARNING)
        if (found := preview.of(severity))
    ]
    if preview.problems:
        return f"{' and '.join(counts)}: the plan cannot be started."
    if preview.idle:
        return "Nothing to do."
    return f"No problem{f', {counts[0]}' if counts else ''}."
