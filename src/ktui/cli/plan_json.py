"""The JSON form of a checked plan: a contract."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import UNSET, UnsetType

from ktui.cli.partition_json import SCHEMA_VERSION
from ktui.cli.plan_report import Checked
from ktui.cli.plan_steps import PartitionSteps
from ktui.cli.plan_summary import Summary
from ktui.cluster.partition import TopicPartition
from ktui.pacing.limits import Limits
from ktui.planning.finding import Finding, Severity
from ktui.planning.problem import Place


class FindingJson(msgspec.Struct, frozen=True):
    """One finding; `place` is that of the first of its partitions."""

    place: Place | None
    kind: str
    partitions: tuple[TopicPartition, ...]
    sentence: str
    option: str | None


class CheckJson(msgspec.Struct, frozen=True):
    """What `ktui plan check --json` prints; `partitions` only with --steps."""

    schema_version: int
    plan: str
    cluster: str
    problems: tuple[FindingJson, ...]
    warnings: tuple[FindingJson, ...]
    notes: tuple[FindingJson, ...]
    summary: Summary
    limits: Limits
    partitions: tuple[PartitionSteps, ...] | UnsetType = UNSET


def check_json(checked: Checked) -> CheckJson:
    """Put a checked plan in its JSON form."""
    return CheckJson(
        schema_version=SCHEMA_VERSION,
        plan=checked.plan,
        cluster=checked.cluster,
        problems=_findings(checked.of(Severity.PROBLEM)),
        warnings=_findings(checked.of(Severity.WARNING)),
        notes=_findings(checked.of(Severity.NOTE)),
        summary=checked.summary,
        limits=checked.limits,
        partitions=UNSET if checked.partitions is None else checked.partitions,
    )


def _findings(findings: Iterable[Finding]) -> tuple[FindingJson, ...]:
    return tuple(
        FindingJson(f.place, f.kind.value, f.partitions, f.sentence, f.option) for f in findings
    )
