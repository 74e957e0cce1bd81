"""A checked plan as a person reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import click
import msgspec

from ktui.cli.plan_steps import PartitionSteps
from ktui.cli.plan_summary import Summary
from ktui.cli.table import table
from ktui.cluster.partition import TopicPartition
from ktui.pacing.limits import Limits
from ktui.planning.finding import Finding, Kind, Severity

_COLOURS = {Severity.PROBLEM: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, and all that was found out about it."""

    plan: str
    """The file's name, fit to be shown."""
    cluster: str
    findings: tuple[Finding, ...]
    summary: Summary
    limits: Limits
    partitions: tuple[PartitionSteps, ...] | None
    """None where nobody asked for the steps."""

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """Give the findings of one severity, in the file's order."""
        found = [finding for finding in self.findings if finding.severity is severity]
        return tuple(sorted(found, key=_line_and_column))

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Whatever forbids that the plan is started."""
        return self.of(Severity.PROBLEM)


def _line_and_column(finding: Finding) -> tuple[int, int]:
    return (0, 0) if finding.place is None else (finding.place.line, finding.place.column)


def report(checked: Checked) -> str:
    """Give findings first, then the figures, the steps if asked for, and the verdict last."""
    sections = [
        [_line(checked.plan, f) for severity in Severity for f in checked.of(severity)],
        _figures(checked.summary),
        _brokers(checked.summary),
        [] if checked.partitions is None else list(_steps(checked.partitions, checked.limits)),
        [_verdict(checked)],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _line(plan: str, finding: Finding) -> str:
    place = finding.place
    where = "" if place is None else f":{place.line}:{place.column}"
    sign = click.style(finding.severity.value, fg=_COLOURS[finding.severity], bold=True)
    return f"{plan}{where}: {sign}: {finding.sentence}{_allowed(finding)}"


def _allowed(finding: Finding) -> str:
    if finding.option is None:
        return ""
    if finding.severity is Severity.PROBLEM:
        return f"; {finding.option} allows it"
    return f"; allowed by {finding.option}"


def _figures(summary: Summary) -> list[str]:
    rows = [
        ("partitions in the plan", summary.partitions),
        ("already at their target", summary.at_target),
        ("replica movements", summary.replica_movements),
        ("leader movements", summary.leader_movements),
    ]
    if summary.unknown:
        rows.insert(1, ("not on this cluster", summary.unknown))
    rows += [
        (f"replication factor from {change.before} to {change.after}", change.partitions)
        for change in summary.replication_factor_changes
    ]
    name_width = max(len(name) for name, _ in rows)
    width = max(len(f"{count:,}") for _, count in rows)
    return [f"{name:<{name_width}}  {count:>{width},}" for name, count in rows]


def _brokers(summary: Summary) -> list[str]:
    if not summary.brokers:
        return []
    rows = [(str(b.broker), f"{b.gains:,}", f"{b.loses:,}") for b in summary.brokers]
    return [table(("BROKER", "GAINS", "LOSES"), rows, right=(0, 1, 2))]


def _steps(partitions: Iterable[PartitionSteps], limits: Limits) -> Iterator[str]:
    yield f"steps, {_in_words(limits)}:"
    for partition in partitions:
        if partition.steps:
            yield str(TopicPartition(partition.topic, partition.partition))
        for number, step in enumerate(partition.steps or (), start=1):
            elects = "" if step.elect is None else f"  elect {step.elect}"
            yield f"  {number}  {_joined(step.replicas)}{elects}"


def _in_words(limits: Limits) -> str:
    """Name the limits by which steps are cut."""
    replicas = "all replicas at once" if limits.replicas is None else f"{limits.replicas} at a time"
    extra = "" if limits.extra_replicas is None else f", at most {limits.extra_replicas} extra"
    return f"{limits.shape} shape, {replicas}{extra}"


def _joined(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _verdict(checked: Checked) -> str:
    counts = [
        _count(len(found), severity.value)
        for severity in (Severity.PROBLEM, Severity.WARNING)
        if (found := checked.of(severity))
    ]
    if checked.problems:
        return f"{' and '.join(counts)}: the plan is not fit to be started."
    if any(finding.kind is Kind.NOTHING_TO_DO for finding in checked.findings):
        return "Nothing to do."
    return f"No problem{f', {counts[0]}' if counts else ''}."


def _count(count: int, name: str) -> str:
    return f"{count:,} {name}{'' if count == 1 else 's'}"
