"""The nodes of a cluster with three controllers and three brokers: who is active, who is broken."""

from __future__ import annotations

import json

from ktui.lab import control
from ktui.lab.errors import LabError
from ktui.lab.layout import Lab, Security
from ktui.lab.up import Wanted
from support.outage import Outage

REAUTHENTICATE_MS = "5000"
WANTED = Wanted(
    brokers=3,
    controllers=3,
    security=Security.SASL_PLAINTEXT,
    settings={"connections.max.reauth.ms": REAUTHENTICATE_MS},
)
"""What the schedules are played on."""


class Nodes(Outage):
    """Kills, suspends and mends nodes of a lab, and knows which controller is active."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.lab = lab

    def active_controller(self) -> int | None:
        """The leader of the quorum, as the controllers keep it on their disks."""
        known = [found for node in self.lab.controllers if (found := self._quorum_state(node.id))]
        return max(known, default=(0, None), key=lambda each: each[0])[1]

    @property
    def all_run(self) -> bool:
        """Whether no node is down or suspended: a second controller less would be a majority."""
        return all(each.state is control.State.RUNNING for each in control.status(self.lab))

    def start(self, node: int) -> None:
        """Start a node that has ended; one that runs stays as it is."""
        if self._state(node) is control.State.STOPPED:
            control.start(self.lab, node)

    def resume(self, node: int) -> None:
        """Let a suspended node go on; one that runs stays as it is."""
        if self._state(node) is control.State.SUSPENDED:
            control.resume(self.lab, node)

    def break_down(self, node: int, *, suspend: bool) -> bool:
        """Kill or suspend a node that runs, and tell whether it did."""
        try:
            (self.suspend if suspend else self.kill)(node)
        except LabError:
            return False
        return True

    def _state(self, node: int) -> control.State:
        return next(each.state for each in control.status(self.lab) if each.node.id == node)

    def _quorum_state(self, node: int) -> tuple[int, int] | None:
        folder = self.lab.data(self.lab.node(node)) / "__cluster_metadata-0"
        try:
            state = json.loads((folder / "quorum-state").read_text())
        except (OSError, ValueError):
            return None
        leader = state.get("leaderId", -1)
        return (state.get("leaderEpoch", 0), leader) if leader >= 0 else None
