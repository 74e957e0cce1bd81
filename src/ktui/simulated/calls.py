"""Everything that can keep a simulated cluster from answering a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ktui.cluster.errors import NotAuthorized, TimedOut, Unreachable, Unsupported
from ktui.cluster.kafka_error import KafkaError
from ktui.simulated.core import SimulatedCore
from ktui.simulated.layout import Power

TIMEOUT_S = 10.0  # timeout of a call, in the cluster's time
_ANSWERED_WITHIN_S = 0.5  # longest time until a resumed broker answers the calls still waiting
_FRESH_WITHIN_S = 5.0  # longest time for brokers to catch up with the controller
_MIN_SLEEP_S = 0.001  # larger than any rounding error of a clock's figures
PORT = 9092
DENIED = KafkaError.CLUSTER_AUTHORIZATION_FAILED
_NO_TOPIC = KafkaError.TOPIC_AUTHORIZATION_FAILED
_NO_GROUP = KafkaError.GROUP_AUTHORIZATION_FAILED


def host(broker: int) -> str:
    """Return the host name of a broker."""
    return f"broker-{broker}.simulated"


class Calls:
    """The calls of one client. Each first lets the cluster catch up, then meets its faults."""

    def __init__(self, cluster: SimulatedCore) -> None:
        self._cluster = cluster
        self.closed = False

    async def any_broker(self, call: str) -> None:
        """Raise unless some healthy broker can answer."""
        self._arrive(call)
        machines = self._cluster.machines
        if not await self._wait_while(lambda: not machines.up() and bool(machines.hanging())):
            raise TimedOut(attempted(call), fix="The brokers may be overloaded or hanging")
        if not machines.up():
            where = f"{host(min(machines))}:{PORT}"  # as a client does that knows only this broker
            raise Unreachable(attempted(call), where=where, answer="no broker answered")
        self._permit(call)

    async def broker(self, broker: int, call: str) -> None:
        """Raise unless this broker can answer."""
        self._arrive(call)
        machines, where = self._cluster.machines, f"broker {broker}"
        if broker not in machines or self._cluster.controller.is_fenced(broker):
            answer = "the cluster's metadata has no such live broker"
            raise Unreachable(attempted(call), where=where, answer=answer)
        if not await self._wait_while(lambda: machines.power(broker) is Power.HANGING):
            raise TimedOut(
                attempted(call), where=where, fix="The broker may be overloaded or hanging"
            )
        if machines.power(broker) is not Power.UP:
            raise Unreachable(attempted(call), where=where, answer="connection refused")
        self._permit(call, where)

    async def _wait_while(self, hanging: Callable[[], bool]) -> bool:
        clock = self._cluster.clock
        until_s = clock.monotonic() + TIMEOUT_S
        while hanging():
            if clock.monotonic() >= until_s:
                return False
            await clock.sleep(_ANSWERED_WITHIN_S)
            self._cluster.catch_up()
        return True

    async def controller(self) -> None:
        cluster = self._cluster
        while cluster.now_s < cluster.controller_from_s:
            await cluster.clock.sleep(cluster.controller_from_s - cluster.now_s)
            cluster.catch_up()

    async def fresh_metadata(self) -> None:
        """Wait until brokers know everything decided so far; TimedOut after 5 s."""
        call = "describe_quorum"
        try:
            await self.any_broker(call)
        except NotAuthorized as denied:
            raise Unsupported(attempted(call), answer=denied.answer, fix=denied.fix) from denied
        await self.controller()
        cluster = self._cluster
        from_s, until_s = cluster.metadata.complete_from_s, cluster.now_s + _FRESH_WITHIN_S
        while cluster.now_s < min(from_s, until_s):
            left_s = min(from_s, until_s) - cluster.now_s
            await cluster.clock.sleep(max(left_s, _MIN_SLEEP_S))
            cluster.catch_up()
        if cluster.now_s < from_s:
            raise TimedOut("waiting for fresh metadata", answer="no broker has caught up")

    def _arrive(self, call: str) -> None:
        if self.closed:
            raise Unreachable(attempted(call), answer="the connection was closed by ktui")
        self._cluster.catch_up()

    def _permit(self, call: str, where: str = "") -> None:
        if call in self._cluster.denied:
            needs = _CALLS[call].needs
            fix = f"Grant {needs} to this principal; `ktui doctor` shows all that is missing"
            denial = _CALLS[call].denial
            raise NotAuthorized(attempted(call), where=where, answer=denial, fix=fix, needs=needs)


def attempted(call: str) -> str:
    """Return the phrase for a call in error messages, such as "describing log dirs"."""
    return _CALLS[call].attempted


class _Call(NamedTuple):
    attempted: str
    needs: str
    denial: str = DENIED


_CALLS = {
    "describe_cluster": _Call("describing the cluster", "Describe on the cluster"),
    "list_reassignments": _Call("listing reassignments", "Describe on the cluster"),
    "describe_quorum": _Call("asking how far the controllers' log is", "Describe on the cluster"),
    "describe_topics": _Call("describing topics", "Describe on the topics"),
    "scan_topics": _Call("describing topics", "Describe on the topics"),
    "log_offsets": _Call("reading log offsets", "Describe on the topics"),
    "log_dirs": _Call("describing log dirs", "Describe on the cluster"),
    "topic_configs": _Call("reading topic settings", "DescribeConfigs on the topics"),
    "broker_config": _Call("reading broker settings", "DescribeConfigs on the cluster"),
    "coordinated_ids": _Call("listing groups", "Describe on the cluster"),
    "alter_reassignments": _Call("altering reassignments", "Alter on the cluster"),
    "elect_preferred_leaders": _Call("electing preferred leaders", "Alter on the cluster"),
    "alter_log_dirs": _Call("moving replicas between log dirs", "Alter on the cluster"),
    "create_partitions": _Call("adding partitions", "Alter on the topic", _NO_TOPIC),
    "unregister_broker": _Call("unregistering a broker", "Alter on the cluster"),
    "delete_broker_settings": _Call(
        "deleting settings through a controller", "AlterConfigs on the cluster"
    ),
    "alter_configs": _Call("altering settings", "AlterConfigs on the topics or the cluster"),
    "describe_group": _Call("asking who owns the cluster", "Describe on the group", _NO_GROUP),
    "join_group": _Call("owning the cluster", "Read on the group", _NO_GROUP),
}
