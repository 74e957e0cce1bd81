"""The cancel gate, as the command line reports it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from ktui.cli.options.common import state_option
from ktui.execution.errors import RunRefused
from ktui.execution.host.cancel_gate import CancelGateFile, ShutGate, shut_gate_in_words
from ktui.execution.host.state_dir import StateDir
from ktui.planning.check.findings import Finding, FindingKind, Severity


def shut_gate(state: StateDir, cluster_id: str) -> ShutGate | None:
    """Return who shut the gate of a cluster; None while it is open."""
    return CancelGateFile(state, cluster_id).state()


def gate_line(shut: ShutGate, state: StateDir, whose: str) -> str:
    """Describe who shut a gate, and the command that opens it.

    Args:
        whose: the name of a run on the cluster, or the options that name the cluster.
    """
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
    """Check that the gate of a cluster is open, before a run is created.

    Raises:
        RunRefused: it is shut; names who shut it, and the command that opens it.
    """
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
