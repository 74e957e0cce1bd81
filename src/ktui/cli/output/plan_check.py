"""The check of a plan before it is started: what it rests on, the cancel gate, and its report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ktui.cli.context.claim import AS_CONTEXT, OwnerChoice, claim_request, owner_findings
from ktui.cli.context.terminal import styled
from ktui.cli.options.common import state_option
from ktui.cluster.clock import SystemClock
from ktui.cluster.partition import TopicPartition
from ktui.execution import RunRefused
from ktui.execution.host.ownership import CancelGateFile, ShutGate, shut_gate_in_words
from ktui.execution.host.state_dir import StateDir
from ktui.ops.start import FactReader
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import Finding, FindingKind, Severity
from ktui.preview import text
from ktui.preview.preview import PlanPreview
from ktui.quantities import as_count

if TYPE_CHECKING:  # verbs about runs only ask about gates, and load no client
    from ktui.cli.context.cluster import Cluster
    from ktui.kafka.reader import KafkaReader

_COLOURS = {Severity.PROBLEM: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def shut_gate(state: StateDir, cluster_id: str) -> ShutGate | None:
    """Return who shut the gate of a cluster; None while it is open."""
    return CancelGateFile(state, cluster_id).state()


def gate_line(shut: ShutGate, state: StateDir, whose: str) -> str:
    """Describe who shut a gate, and what opens it; `whose` is a run, or the cluster's options."""
    command = f"ktui cancel {whose} --remove-cancel{state_option(state)}"
    return f"{shut_gate_in_words(shut)}. Open it with: {command}"


def options_of_names(names: Mapping[str, object]) -> list[str]:
    """Return the options for the names of a cluster that are not None."""
    present = {name: value for name, value in names.items() if value is not None}
    named = ((f"--{name.replace('_', '-')}", str(value)) for name, value in present.items())
    return [word for option in named for word in option]


def cancel_cluster_options(names: Mapping[str, object]) -> str:
    """Return the options that name a cluster in a suggested `ktui cancel` command."""
    return shlex.join(["--cluster", *options_of_names(names)])


def check_gate_open(state: StateDir, cluster_id: str, whose: str) -> None:
    """Check that the gate of a cluster is open, before a run is created."""
    shut = shut_gate(state, cluster_id)
    if shut is not None:
        raise RunRefused(f"nothing new is begun: {gate_line(shut, state, whose)}")


def gate_findings(state: StateDir, cluster_id: str, whose: str) -> tuple[Finding, ...]:
    """Return a warning for a shut gate, as a finding of a plan's check."""
    shut = shut_gate(state, cluster_id)
    if shut is None:
        return ()
    sentence = f"nothing new is begun: {gate_line(shut, state, whose)}"
    return (Finding(Severity.WARNING, FindingKind.CANCEL_GATE_SHUT, (), sentence),)


def fact_reader(
    cluster: Cluster,
    reader: KafkaReader,
    state: StateDir,
    names: Mapping[str, object] | None = None,
    ownership: OwnerChoice = AS_CONTEXT,
) -> FactReader:
    """Return what reads the facts of a cluster.

    Args:
        names: the options that name the cluster, to find what would refuse a start now: a shut
            gate, or another owner. None where a start follows at once, and finds that out itself.
    """

    async def standing(cluster_id: str) -> tuple[Finding, ...]:
        gate = gate_findings(state, cluster_id, cancel_cluster_options(names or {}))
        claim = claim_request(cluster, state, cluster_id, "", ownership)
        return (*gate, *await owner_findings(claim, reader))

    return FactReader(
        reader=reader,
        state=state,
        clock=SystemClock(),
        cluster=cluster.name,
        permits=cluster,
        standing=None if names is None else standing,
    )


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
