"""Broken brokers, repaired after the test that broke them."""

from __future__ import annotations

import asyncio

from ktui.cli.lab.command import connect
from ktui.lab import control
from ktui.lab.layout import Lab
from ktui.lab.readiness import wait_until_ready


class Outage:
    """Breaks brokers of a lab. The fixture that provides it calls `mend` after the test."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def kill(self, broker: int) -> None:
        """Kill the broker like a power loss."""
        control.kill(self._lab, broker)

    def suspend(self, broker: int) -> None:
        """Suspend the broker, so that it hangs."""
        control.suspend(self._lab, broker)

    def mend(self) -> None:
        """Resume hanging brokers, start dead ones, and wait until the cluster has all of them."""
        broken = [n for n in control.status(self._lab) if n.state is not control.NodeState.RUNNING]
        for node in broken:
            act = control.resume if node.state is control.NodeState.SUSPENDED else control.start
            act(self._lab, node.node.id)
        if broken:
            asyncio.run(wait_until_ready(self._lab, connect, lambda _: None))
