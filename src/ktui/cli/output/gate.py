"""The cancel gate as the command line tells of it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import msgspec

from ktui.cli.options.common import state_option
from ktui.cli.output.json_form import utc
from ktui.execution.cancel.gate import CancelGateFile, Shut, shut_in_words
from ktui.execution.errors import RunRefused
from ktui.execution.host.state_dir import StateDir
from ktui.planning.check.findings import Finding, FindingKind, Severity


class CancelGateJson(msgspec.Struct, frozen=True):
    """Who has shut the cancel gate of a cluster."""

    cluster_id: str
    at: str
    who: str
    reason: str


def gate_of(state: StateDir, cluster_id: str) -> Shut | None:
    """Say who has shut the gate of a cluster; None while it is open."""
    return CancelGateFile(state, cluster_id).state()


def gate_line(shut: Shut, state: StateDir, whose: str) -> str:
    """Say who has shut a gate, and how it is opened.

    Args:
        shut: by whom.
        state: the state directory.
        whose: the name of a run on the cluster, or the options that name the cluster.
    """
    command = f"ktui cancel {whose} --remove-cancel{state_option(state)}"
    return f"{shut_in_words(shut)}. Open it with: {command}"


def cluster_options(names: Mapping[str, object]) -> list[str]:
    """Give the options that name a cluster, of bootstrap_server and so on those that are given."""
    given = {name: value for name, value in names.items() if value is not None}
    named = ((f"--{name.replace('_', '-')}", str(value)) for name, value in given.items())
    return [word for option in named for word in option]


def of_cluster(names: Mapping[str, object]) -> str:
    """Name a cluster to `ktui cancel`, in a command that is told."""
    return shlex.join(["--cluster", *cluster_options(names)])


def refuse_shut(state: StateDir, cluster_id: str, whose: str) -> None:
    """See that the gate of a cluster is open, before a run is made.

    Raises:
        RunRefused: it is shut; says by whom, and how it is opened.
    """
    shut = gate_of(state, cluster_id)
    if shut is not None:
        raise RunRefused(f"nothing new is begun: {gate_line(shut, state, whose)}")


def gate_findings(state: StateDir, cluster_id: str, whose: str) -> tuple[Finding, ...]:
    """Warn of a gate that is shut, as a plan's check does."""
    shut = gate_of(state, cluster_id)
    if shut is None:
        return ()
    sentence = f"nothing new is begun: {gate_line(shut, state, whose)}"
    return (Finding(Severity.WARNING, FindingKind.CANCEL_GATE_SHUT, (), sentence),)


def gate_json(shut: Shut) -> CancelGateJson:
    """Put who has shut a gate in its JSON form."""
    return CancelGateJson(shut.cluster_id, utc(shut.at), shut.who, shut.reason)
