"""The JSON form of a checked plan: a contract."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import UNSET, UnsetType

from ktui.cli.output.json_form import SCHEMA_VERSION
from ktui.cli.output.plan_report import CheckedPlan
from ktui.cli.output.throttle_json import RatesJson, rates_json
from ktui.cluster.partition import TopicPartition
from ktui.pacing.limits import Limits
from ktui.planning.check.disks import DiskLoad
from ktui.planning.check.findings import Finding, Severity
from ktui.planning.preflight.preflight import Bound, Preflight, ShapeCost
from ktui.planning.preflight.steps import PartitionSteps
from ktui.planning.preflight.summary import PlanSummary
from ktui.planning.read.problems import FilePosition
from ktui.planning.simulate.copy_rates import CopyRates, Span


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
    time_s: Span | None
    bound: Bound | None
    rates: CopyRates


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
        time_s=preflight.time_s,
        bound=preflight.bound,
        rates=preflight.rates,
    )


def findings_json(findings: Iterable[Finding]) -> tuple[FindingJson, ...]:
    """Return the JSON form of findings."""
    return tuple(
        FindingJson(f.place, f.kind.value, f.partitions, f.sentence, f.option) for f in findings
    )
