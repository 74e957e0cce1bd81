"""The interface of a contract test to any kind of cluster, and the actions on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from ktui.cluster.clock import Clock, SystemClock
from ktui.cluster.coordination import CoordinatorKind
from ktui.cluster.ownership import GroupMembership
from ktui.cluster.partition import PartitionState, Reassignment, TopicPartition
from ktui.cluster.ports import (
    ClusterReader,
    ClusterWriter,
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigScope,
    Verdict,
    WriteResult,
)

T = TypeVar("T")

RATE = "follower.replication.throttled.rate"
THROTTLED = "follower.replication.throttled.replicas"
LIMIT_S = 240.0
"""The longest wait for what comes in a moment on an idle machine: a busy one may take longer."""


class World(Protocol):
    """A cluster with five live brokers, 1 to 5, and both of its ports."""

    @property
    def clock(self) -> Clock:
        """The cluster's clock."""
        ...

    @property
    def reader(self) -> ClusterReader:
        """The reading port."""
        ...

    @property
    def writer(self) -> ClusterWriter:
        """The writing port."""
        ...

    def memberships(self) -> GroupMembership:
        """Return a new port to the consumer groups, which the caller closes."""
        ...

    async def create_topic(self, name: str, partitions: Sequence[Sequence[int]]) -> None:
        """Create a topic with the replicas of each partition, and wait until all brokers know."""
        ...

    async def make_topic(self, name: str, partitions: Sequence[Sequence[int]]) -> None:
        """Create a topic, which some brokers may not know yet."""
        ...

    async def delete_topic(self, name: str) -> None:
        """Delete a topic, which brokers may not know yet."""
        ...

    async def append(self, tp: TopicPartition, messages: int, size: int) -> None:
        """Write messages of `size` random bytes."""
        ...

    async def use_coordinator(self, kind: CoordinatorKind, name: str) -> None:
        """Let a client use a group or a transactional id of this name.

        A share group reads the topic of the same name.
        """
        ...

    async def fail_log_dir(self, broker: int, path: str) -> None:
        """Let a log dir fail for good, as soon as its broker uses it."""
        ...


async def until(
    condition: Callable[[], Awaitable[T | None]],
    *,
    limit_s: float = LIMIT_S,
    clock: Clock | None = None,
) -> T:
    """Wait, by the cluster's clock, until the condition returns something true, and return that."""
    clock = clock or SystemClock()
    end = clock.monotonic() + limit_s
    while True:
        found = await condition()
        if found:
            return found
        assert clock.monotonic() < end, f"waited {limit_s} s in vain; last seen: {found!r}"
        await clock.sleep(0.05)


def setting(
    scope: ConfigScope, name: str, key: str, op: ConfigOp, value: str | None = None
) -> ConfigChange:
    return ConfigChange(ConfigResource(scope, name), key, op, value)


async def change(world: World, *changes: ConfigChange) -> None:
    """Change settings, and check that each change was accepted.

    A change whose answer was lost is sent again: brokers make none twice.
    """

    async def all_answered() -> bool:
        results.update(await world.writer.alter_configs(changes))
        return all(result.verdict is not Verdict.UNKNOWN for result in results.values())

    results: dict[ConfigResource, WriteResult] = {}
    await until(all_answered, clock=world.clock)
    assert all(r.verdict is Verdict.ACCEPTED for r in results.values()), results


async def hold_back(world: World, tp: TopicPartition, broker: int) -> None:
    """Let one broker copy a partition so slowly that its move stays in flight."""
    await change(
        world,
        setting(ConfigScope.BROKER, str(broker), RATE, ConfigOp.SET, "1000"),
        setting(
            ConfigScope.TOPIC, tp.topic, THROTTLED, ConfigOp.APPEND, f"{tp.partition}:{broker}"
        ),
    )


async def let_go(world: World, tp: TopicPartition) -> None:
    """Undo what `hold_back` did to the topic."""
    await change(world, setting(ConfigScope.TOPIC, tp.topic, THROTTLED, ConfigOp.DELETE))


async def alter(
    world: World, tp: TopicPartition, replicas: tuple[int, ...] | None, *, factor: bool = False
) -> WriteResult:
    """Alter one partition; `factor` allows its replication factor to change."""
    results = await world.writer.alter_reassignments(
        {tp: replicas}, allow_replication_factor_change=factor
    )
    return results[tp]


async def listed(world: World, tp: TopicPartition) -> Reassignment | None:
    return (await world.reader.list_reassignments()).get(tp)


async def state(world: World, tp: TopicPartition) -> PartitionState:
    return (await world.reader.describe_topics([tp.topic])).partitions[tp]


async def settled(world: World, tp: TopicPartition, replicas: tuple[int, ...]) -> PartitionState:
    """Wait until the partition no longer moves and its replicas are these, in this order."""

    async def there() -> PartitionState | None:
        if await listed(world, tp) is not None:
            return None
        now = await state(world, tp)
        return now if now.replicas == replicas else None

    return await until(there, clock=world.clock)
