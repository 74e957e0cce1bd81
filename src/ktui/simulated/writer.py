"""The writing port on a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from ktui.cluster.errors import ClusterError
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigResource, ConfigScope, Verdict, WriteResult
from ktui.simulated import acts
from ktui.simulated.calls import TIMEOUT_S, Calls

if TYPE_CHECKING:
    from ktui.simulated.cluster import SimulatedCluster

Part = TypeVar("Part")
Targets = Mapping[TopicPartition, tuple[int, ...] | None]

_LOST = WriteResult(Verdict.UNKNOWN, message="sent, but its answer was lost")
_PARTITIONS_A_REQUEST = 1_000


class SimulatedWriter:
    """A `ClusterWriter` on a simulated cluster."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._calls = Calls(cluster)

    async def alter_reassignments(
        self, targets: Targets, *, allow_replication_factor_change: bool
    ) -> Mapping[TopicPartition, WriteResult]:
        """Start reassignments, or with None cancel them, a thousand partitions a request."""
        await self._ready("alter_reassignments")
        controller = self._cluster.controller
        refused: dict[TopicPartition, WriteResult] = {}
        if not (allow_replication_factor_change or controller.rules.guards_replication_factor):
            refused = self._of_another_factor(targets)

        def alter(part: Collection[TopicPartition]) -> Mapping[TopicPartition, WriteResult]:
            return controller.alter(
                {tp: targets[tp] for tp in part},
                allow_replication_factor_change=allow_replication_factor_change,
            )

        return refused | await self._send([tp for tp in targets if tp not in refused], alter)

    def _of_another_factor(self, targets: Targets) -> dict[TopicPartition, WriteResult]:
        """Refuse what a broker of 4.1 would, where the brokers are older and do not."""
        refused = {}
        for tp, replicas in targets.items():
            known = self._cluster.controller.get(tp)
            if replicas is None or known is None:
                continue
            present = len(known.replicas) - len(known.removing)
            if len(replicas) != present:
                message = f"The replication factor is changed from {present} to {len(replicas)}"
                refused[tp] = WriteResult(Verdict.REFUSED, "INVALID_REPLICATION_FACTOR", message)
        return refused

    async def elect_preferred_leaders(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, WriteResult]:
        """Elect the first replica of each. ELECTION_NOT_NEEDED counts as ACCEPTED."""
        await self._ready("elect_preferred_leaders")
        return await self._send(list(dict.fromkeys(partitions)), self._cluster.controller.elect)

    async def alter_configs(
        self, changes: Sequence[ConfigChange]
    ) -> Mapping[ConfigResource, WriteResult]:
        """Change settings; a broker's own through that broker."""
        await self._ready("alter_configs")
        theirs: dict[ConfigResource, list[ConfigChange]] = {}
        for change in changes:
            theirs.setdefault(change.resource, []).append(change)
        unsent = await self._unreachable(theirs)
        if unsent and len(unsent) == len(theirs):
            raise next(iter(unsent.values()))
        sent = [resource for resource in theirs if resource not in unsent]

        def configure(part: Collection[ConfigResource]) -> Mapping[ConfigResource, WriteResult]:
            return self._cluster.configure([c for resource in part for c in theirs[resource]])

        results = await self._send(sent, configure)
        for resource, error in unsent.items():
            results[resource] = WriteResult(Verdict.REFUSED, message=f"not sent: {error}")
        return results

    async def _unreachable(
        self, resources: Collection[ConfigResource]
    ) -> dict[ConfigResource, ClusterError]:
        """Find the brokers that their own settings cannot be sent to."""
        failed = {}
        for resource in resources:
            if resource.scope is ConfigScope.BROKER and resource.name.isdigit():
                try:
                    await self._calls.broker(int(resource.name), "alter_configs")
                except ClusterError as error:
                    failed[resource] = error
        return failed

    async def _ready(self, call: str) -> None:
        await self._calls.any_broker(call)
        await self._calls.controller()

    async def _send(
        self,
        parts: Sequence[Part],
        act: Callable[[Collection[Part]], Mapping[Part, WriteResult]],
    ) -> dict[Part, WriteResult]:
        """Send in requests of some size, each of which may have its mishap."""
        results: dict[Part, WriteResult] = {}
        for start in range(0, len(parts), _PARTITIONS_A_REQUEST):
            part = parts[start : start + _PARTITIONS_A_REQUEST]
            results |= await self._request(part, lambda part=part: act(part))  # type: ignore[misc]
        return results

    async def _request(
        self, parts: Sequence[Part], act: Callable[[], Mapping[Part, WriteResult]]
    ) -> Mapping[Part, WriteResult]:
        cluster = self._cluster
        if not cluster.mishaps:
            return act()
        match cluster.mishaps.popleft():
            case acts.LoseAnswer():
                act()
            case acts.DelayRequest(by_s):
                cluster.later(by_s, act)
        await cluster.clock.sleep(TIMEOUT_S)
        return dict.fromkeys(parts, _LOST)

    async def aclose(self) -> None:
        """Close this way in; calls after it raise. Idempotent."""
        self._calls.closed = True
