"""The report of a checked plan: its text, and its JSON form, which is a contract."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from ktui.cli.context.terminal import styled
from ktui.cli.output.json_form import SCHEMA_VERSION
from ktui.cli.output.throttle_json import RatesJson, rates_json
from ktui.cluster.partition import TopicPartition
from ktui.pacing.limits import Limits
from ktui.planning.check.coordinators import CoordinatorMoves
from ktui.planning.check.disks import DiskLoad
from ktui.planning.check.findings import Finding, FindingKind, Severity
from ktui.planning.read.problems import FilePosition
from ktui.planning.throttle_rates import NO_THROTTLE, BrokerRate, ThrottleRates
from ktui.preview import text as preflight_words
from ktui.preview.preflight import Preflight, ShapeCost
from ktui.preview.steps import PartitionSteps
from ktui.preview.summary import PlanSummary
from ktui.speed.answer import HowLong

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


class FindingJson(msgspec.Struct, frozen=True):
    """One finding; `place` is the place of its first partition."""

    place: FilePosition | None
    kind: str
    partitions: tuple[TopicPartition, ...]
    sentence: str
    option: str | None


class PreflightJson(msgspec.Struct, frozen=True):
    """The effects of the plan under the limits; null for unknown values."""

    bytes_to_copy: int | None
    sizes_unknown: int
    brokers: tuple[DiskLoad, ...]
    shapes: tuple[ShapeCost, ...]
    batches: int
    how_long: HowLong | None
    throttled: tuple[BrokerRate, ...]
    coordinators: CoordinatorMoves | None


class CheckJson(msgspec.Struct, frozen=True):
    """The output of `ktui plan check --json`; `partitions` only with --steps."""

    schema_version: int
    plan: str
    cluster: str
    problems: tuple[FindingJson, ...]
    warnings: tuple[FindingJson, ...]
    notes: tuple[FindingJson, ...]
    summary: PlanSummary
    limits: Limits
    throttle: RatesJson
    """The run's own rates."""
    throttle_leaders: bool
    preflight: PreflightJson
    partitions: tuple[PartitionSteps, ...] | UnsetType = UNSET


def check_json(checked: CheckedPlan) -> CheckJson:
    """Return the JSON form of a checked plan."""
    return CheckJson(
        schema_version=SCHEMA_VERSION,
        plan=checked.plan,
        cluster=checked.cluster,
        problems=findings_json(checked.of(Severity.PROBLEM)),
        warnings=findings_json(checked.of(Severity.WARNING)),
        notes=findings_json(checked.of(Severity.NOTE)),
        summary=checked.preflight.summary,
        limits=checked.preflight.limits,
        throttle=rates_json(checked.throttle),
        throttle_leaders=checked.throttle_leaders,
        preflight=preflight_json(checked.preflight),
        partitions=UNSET if checked.partitions is None else checked.partitions,
    )


def preflight_json(preflight: Preflight) -> PreflightJson:
    """Return the JSON form of a plan's figures."""
    return PreflightJson(
        bytes_to_copy=preflight.bytes_to_copy,
        sizes_unknown=preflight.sizes_unknown,
        brokers=preflight.brokers,
        shapes=preflight.shapes,
        batches=preflight.batches,
        how_long=preflight.how_long,
        throttled=preflight.throttled,
        coordinators=preflight.coordinators,
    )


def findings_json(findings: Iterable[Finding]) -> tuple[FindingJson, ...]:
    """Return the JSON form of findings."""
    return tuple(
        FindingJson(f.place, f.kind.value, f.partitions, f.sentence, f.option) for f in findings
    )
