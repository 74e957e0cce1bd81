"""The nodes of a cluster with three controllers and three brokers.

They include which controller is active, and which nodes are broken."""

from __future__ import annotations

import json
from pathlib import Path

from ktui.lab import control
from ktui.lab.layout import Lab, LabError, Security
from ktui.lab.security import ADMIN, CLIENT_LISTENER, PLAIN_MODULE, login
from ktui.lab.up import LabRequest
from support.kafka.outage import Outage

_EVERY_5_S, _EVERY_HOUR = "5000", "3600000"
WANTED = LabRequest(
    brokers=3,
    controllers=3,
    security=Security.SASL_PLAINTEXT,
    settings={
        "connections.max.reauth.ms": _EVERY_5_S,
        f"listener.name.{CLIENT_LISTENER.lower()}.plain.connections.max.reauth.ms": _EVERY_HOUR,
    },
)
"""The lab on which schedules are played. A SCRAM login has to be renewed every 5 s.

A PLAIN login lasts. A resumed broker drops requests from a login that expired after 5 s, and a
dropped request never arrives late.
"""


def lasting_login(lab: Lab) -> Path:
    """Write the client properties of a lasting login."""
    given = lab.client_file(ADMIN).read_text().splitlines()
    kept = [line for line in given if not line.startswith("sasl.")]
    plain = ["sasl.mechanism=PLAIN", f"sasl.jaas.config={login(PLAIN_MODULE, ADMIN, lab)}"]
    path = lab.folder / "client-lasting.properties"
    path.touch(mode=0o600)
    path.write_text("\n".join([*kept, *plain, ""]))
    return path


class Nodes(Outage):
    """Kills, suspends and repairs nodes of a lab, and knows which controller is active."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.lab = lab

    def active_controller(self) -> int | None:
        """Return the leader of the quorum, from the controllers' disks."""
        known = [found for node in self.lab.controllers if (found := self._quorum_state(node.id))]
        return max(known, default=(0, None), key=lambda each: each[0])[1]

    @property
    def all_run(self) -> bool:
        """Whether no node is down or suspended: without a second controller the quorum is lost."""
        return all(each.state is control.NodeState.RUNNING for each in control.status(self.lab))

    def start(self, node: int) -> None:
        """Start a node that has stopped; a running one stays as it is."""
        if self._state(node) is control.NodeState.STOPPED:
            control.start(self.lab, node)

    def resume(self, node: int) -> None:
        """Resume a suspended node; a running one stays as it is."""
        if self._state(node) is control.NodeState.SUSPENDED:
            control.resume(self.lab, node)

    def break_down(self, node: int, *, suspend: bool) -> bool:
        """Kill or suspend a node, and return whether it was running."""
        try:
            (self.suspend if suspend else self.kill)(node)
        except LabError:
            return False
        return True

    def _state(self, node: int) -> control.NodeState:
        return next(each.state for each in control.status(self.lab) if each.node.id == node)

    def _quorum_state(self, node: int) -> tuple[int, int] | None:
        folder = self.lab.log_dirs(self.lab.node(node))[0] / "__cluster_metadata-0"
        try:
            state = json.loads((folder / "quorum-state").read_text())
        except (OSError, ValueError):
            return None
        leader = state.get("leaderId", -1)
        return (state.get("leaderEpoch", 0), leader) if leader >= 0 else None
