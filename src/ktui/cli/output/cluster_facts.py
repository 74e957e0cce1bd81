"""What a preview rests on, read through a connection of a verb's own."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ktui.cli.context.claim import AS_CONTEXT, OwnerChoice, claim_request, owner_findings
from ktui.cli.options.common import state_option
from ktui.cluster.clock import SystemClock
from ktui.execution.errors import RunRefused
from ktui.execution.host.ownership import CancelGateFile, ShutGate, shut_gate_in_words
from ktui.execution.host.state_dir import StateDir
from ktui.ops.start import FactReader
from ktui.planning.check.findings import Finding, FindingKind, Severity

if TYPE_CHECKING:  # verbs about runs only ask about gates, and load no client
    from ktui.cli.context.cluster import Cluster
    from ktui.kafka.reader import KafkaReader


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
