"""Operations on single nodes of a running lab, and on their log dirs."""

from __future__ import annotations

import enum
import signal
from pathlib import Path

import msgspec

from ktui.lab import nodes
from ktui.lab.layout import Lab, LabError, Node, WrongInput, dir_option
from ktui.lab.nodes import Process

_BROKEN = ".broken"


def fail(lab: Lab, node_id: int, number: int | None) -> Path:
    """Let a log dir of a node fail, and return it. A running broker notices within seconds."""
    node = lab.node(node_id)
    paths = lab.log_dirs(node)
    if number is not None and not 1 <= number <= len(paths):
        raise WrongInput(
            f"--log-dir {number}", fix=f"{node.name} has the log dirs 1 to {len(paths)}."
        )
    path = paths[-1 if number is None else number - 1]
    if _kept(path).exists():
        raise LabError(
            f"{path} has failed already",
            fix=f"Mend it with: ktui lab mend-dir {node_id}{dir_option(lab.folder)}",
        )
    break_dir(path)
    return path


def mend(lab: Lab, node_id: int) -> list[Path]:
    """Put a node's failed log dirs in order; a running broker uses them once started anew."""
    node = lab.node(node_id)
    failed = [path for path in lab.log_dirs(node) if _kept(path).exists()]
    if not failed:
        raise LabError(f"no log dir of {node.name} has failed")
    for path in failed:
        path.unlink(missing_ok=True)
        _kept(path).rename(path)
    return failed


def break_dir(path: Path) -> None:
    """Put a file in the place of a log dir, for permissions do not bind root.

    Its broker fails when it next opens a file: with the next checkpoint, within 5 s.
    """
    path.rename(_kept(path))
    path.touch()


def _kept(path: Path) -> Path:
    return path.with_name(f"{path.name}{_BROKEN}")


_SETTLE_S = 10.0


class NodeState(enum.StrEnum):
    """The state of a node's process."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    STOPPED = "stopped"


class NodeStatus(msgspec.Struct, frozen=True):
    """One node and its process."""

    node: Node
    state: NodeState
    pid: int | None = None


def status(lab: Lab) -> list[NodeStatus]:
    """Return the state of each node, the controller first."""
    found = nodes.running(lab)
    return [_status(node, found.get(node.id)) for node in lab.layout.nodes]


def kill(lab: Lab, node_id: int) -> None:
    """Simulate a power cut: SIGKILL one node, and return when it has ended."""
    node, process = _running(lab, node_id)
    if not nodes.signal_and_wait([process], signal.SIGKILL, seconds=_SETTLE_S):
        raise LabError(f"{node.name} (pid {process.pid}) has not ended")


def suspend(lab: Lab, node_id: int) -> None:
    """Simulate a machine that hangs: SIGSTOP one node, and return when it has stopped."""
    node, process = _running(lab, node_id)
    if process.suspended:
        raise LabError(
            f"{node.name} is already suspended", fix=_fix("Wake", "resume", lab, node_id)
        )
    _signal(node, process, signal.SIGSTOP, suspended=True)


def resume(lab: Lab, node_id: int) -> None:
    """Wake a suspended node with SIGCONT, and return when it runs."""
    node, process = _running(lab, node_id)
    if not process.suspended:
        raise LabError(f"{node.name} is not suspended")
    _signal(node, process, signal.SIGCONT, suspended=False)


def start(lab: Lab, node_id: int) -> int:
    """Start a node that has ended, with its old data and port; return its pid, not yet joined."""
    node = lab.node(node_id)
    process = nodes.running(lab).get(node_id)
    if process is not None:
        state = "suspended" if process.suspended else "already running"
        fix = _fix("Wake", "resume", lab, node_id) if process.suspended else ""
        raise LabError(f"{node.name} is {state} (pid {process.pid})", fix=fix)
    nodes.start(lab, node)
    if not nodes.wait_for(lambda: node_id in nodes.running(lab), seconds=_SETTLE_S):
        words = nodes.error_lines(lab.log(node))
        raise LabError(f"{node.name} died at once", words=words)
    return nodes.running(lab)[node_id].pid


def _running(lab: Lab, node_id: int) -> tuple[Node, Process]:
    node = lab.node(node_id)
    process = nodes.running(lab).get(node_id)
    if process is None:
        raise LabError(f"{node.name} is not running", fix=_fix("Start", "start", lab, node_id))
    return node, process


def _fix(action: str, verb: str, lab: Lab, node_id: int) -> str:
    return f"{action} it with: ktui lab {verb} {node_id}{dir_option(lab.folder)}"


def _signal(node: Node, process: Process, number: signal.Signals, *, suspended: bool) -> None:
    def has_settled() -> bool:
        now = nodes.find_by_pid(process.pid)
        return now is not None and now.suspended == suspended

    nodes.send_signal(process, number)
    if not nodes.wait_for(has_settled, seconds=_SETTLE_S):
        raise LabError(f"{node.name} (pid {process.pid}) does not react to {number.name}")


def _status(node: Node, process: Process | None) -> NodeStatus:
    if process is None:
        return NodeStatus(node, NodeState.STOPPED)
    state = NodeState.SUSPENDED if process.suspended else NodeState.RUNNING
    return NodeStatus(node, state, process.pid)
