"""Breaks and mends single nodes of a running lab, and tells how each is."""

from __future__ import annotations

import enum
import signal

import msgspec

from ktui.lab import nodes, processes, server_log
from ktui.lab.errors import LabError
from ktui.lab.layout import Lab, Node, dir_option
from ktui.lab.processes import Process

_SETTLE_S = 10.0


class NodeState(enum.StrEnum):
    """How a node's process is."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    STOPPED = "stopped"


class NodeStatus(msgspec.Struct, frozen=True):
    """One node and its process."""

    node: Node
    state: NodeState
    pid: int | None = None


def status(lab: Lab) -> list[NodeStatus]:
    """Tell how each node is, the controller first."""
    found = nodes.running(lab)
    return [_status(node, found.get(node.id)) for node in lab.layout.nodes]


def kill(lab: Lab, node_id: int) -> None:
    """SIGKILL one node, as a machine that loses power; return when it has ended.

    Raises:
        LabError: no such node, or it does not run.
    """
    node, process = _running(lab, node_id)
    if not nodes.end([process], signal.SIGKILL, seconds=_SETTLE_S):
        raise LabError(f"{node.name} (pid {process.pid}) does not end")


def suspend(lab: Lab, node_id: int) -> None:
    """SIGSTOP one node, as a machine that hangs; return when it has stopped.

    Raises:
        LabError: no such node, it does not run, or is suspended already.
    """
    node, process = _running(lab, node_id)
    if process.suspended:
        raise LabError(
            f"{node.name} is suspended already", fix=_way_out("Wake", "resume", lab, node_id)
        )
    _signal(node, process, signal.SIGSTOP, suspended=True)


def resume(lab: Lab, node_id: int) -> None:
    """SIGCONT a suspended node; return when it runs.

    Raises:
        LabError: no such node, it does not run, or is not suspended.
    """
    node, process = _running(lab, node_id)
    if not process.suspended:
        raise LabError(f"{node.name} is not suspended")
    _signal(node, process, signal.SIGCONT, suspended=False)


def start(lab: Lab, node_id: int) -> int:
    """Start a node that has ended, with the data and the port it had, and give its pid.

    It has started when this returns, and joins the cluster in its own time.

    Raises:
        LabError: no such node, it runs already, or dies at once.
    """
    node = lab.node(node_id)
    process = nodes.running(lab).get(node_id)
    if process is not None:
        how = "is suspended" if process.suspended else "runs already"
        fix = _way_out("Wake", "resume", lab, node_id) if process.suspended else ""
        raise LabError(f"{node.name} {how} (pid {process.pid})", fix=fix)
    nodes.start(lab, node)
    if not processes.wait_for(lambda: node_id in nodes.running(lab), seconds=_SETTLE_S):
        words = server_log.telling_lines(lab.log(node))
        raise LabError(f"{node.name} died at once", words=words)
    return nodes.running(lab)[node_id].pid


def _running(lab: Lab, node_id: int) -> tuple[Node, Process]:
    node = lab.node(node_id)
    process = nodes.running(lab).get(node_id)
    if process is None:
        raise LabError(f"{node.name} does not run", fix=_way_out("Start", "start", lab, node_id))
    return node, process


def _way_out(what: str, verb: str, lab: Lab, node_id: int) -> str:
    return f"{what} it with: ktui lab {verb} {node_id}{dir_option(lab.folder)}"


def _signal(node: Node, process: Process, number: signal.Signals, *, suspended: bool) -> None:
    def has_settled() -> bool:
        now = processes.look(process.pid)
        return now is not None and now.suspended == suspended

    processes.send(process, number)
    if not processes.wait_for(has_settled, seconds=_SETTLE_S):
        raise LabError(f"{node.name} (pid {process.pid}) does not take {number.name}")


def _status(node: Node, process: Process | None) -> NodeStatus:
    if process is None:
        return NodeStatus(node, NodeState.STOPPED)
    state = NodeState.SUSPENDED if process.suspended else NodeState.RUNNING
    return NodeStatus(node, state, process.pid)
