"""What can keep a call from being answered by a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ktui.cluster.errors import NotAuthorized, TimedOut, Unreachable
from ktui.simulated.machines import Power

if TYPE_CHECKING:
    from ktui.simulated.cluster import SimulatedCluster

TIMEOUT_S = 10.0
"""How long a caller waits for an answer, in the cluster's time."""
_ANSWERED_WITHIN_S = 0.5
"""How soon a broker that hung and goes on answers those who still wait."""


class Calls:
    """One client's calls: each lets the cluster catch up first, and then meets its troubles."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.closed = False

    async def any_broker(self, call: str) -> None:
        """Go on if a broker that is well can answer.

        Raises:
            Unreachable: all brokers are down, or this client is closed.
            TimedOut: those that are not down hang.
            NotAuthorized: the call is denied.
        """
        self._arrive(call)
        machines = self._cluster.machines
        if not await self._answers(lambda: not machines.up() and bool(machines.hanging())):
            raise TimedOut(_words(call), fix="The brokers may be overloaded or hanging")
        if not machines.up():
            raise Unreachable(_words(call), answer="no broker answered")
        self._permitted(call)

    async def broker(self, broker: int, call: str) -> None:
        """Go on if this broker can answer.

        Raises:
            Unreachable: it is down or not known, or this client is closed.
            TimedOut: it hangs.
            NotAuthorized: the call is denied.
        """
        self._arrive(call)
        machines, where = self._cluster.machines, f"broker {broker}"
        if broker not in machines or self._cluster.controller.is_fenced(broker):
            answer = "the cluster's metadata has no such live broker"
            raise Unreachable(_words(call), where=where, answer=answer)
        if not await self._answers(lambda: machines.power(broker) is Power.HANGING):
            raise TimedOut(_words(call), where=where, fix="The broker may be overloaded or hanging")
        if machines.power(broker) is not Power.UP:
            raise Unreachable(_words(call), where=where, answer="connection refused")
        self._permitted(call)

    async def _answers(self, hanging: Callable[[], bool]) -> bool:
        """Wait for one that hangs to go on; whether it did before the caller gave up."""
        clock = self._cluster.clock
        until_s = clock.monotonic() + TIMEOUT_S
        while hanging():
            if clock.monotonic() >= until_s:
                return False
            await clock.sleep(_ANSWERED_WITHIN_S)
            self._cluster.catch_up()
        return True

    async def controller(self) -> None:
        """Wait while one controller hands over to another."""
        left_s = self._cluster.without_controller_s
        if left_s > 0:
            await self._cluster.clock.sleep(left_s)
            self._cluster.catch_up()

    def _arrive(self, call: str) -> None:
        if self.closed:
            raise Unreachable(_words(call), answer="the connection was closed by ktui")
        self._cluster.catch_up()

    def _permitted(self, call: str) -> None:
        if call in self._cluster.denied:
            raise NotAuthorized(_words(call), fix="Grant it to this principal")


def _words(call: str) -> str:
    """Say what was attempted, as a phrase: "describing log dirs"."""
    return _WORDS.get(call, call.replace("_", " "))


_WORDS = {
    "describe_cluster": "describing the cluster",
    "list_reassignments": "listing reassignments",
    "describe_topics": "describing topics",
    "scan_topics": "describing topics",
    "log_offsets": "reading log offsets",
    "log_dirs": "describing log dirs",
    "topic_configs": "reading topic settings",
    "broker_config": "reading broker settings",
    "alter_reassignments": "altering reassignments",
    "elect_preferred_leaders": "electing preferred leaders",
    "alter_configs": "altering settings",
}
