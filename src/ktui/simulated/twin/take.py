"""Take a snapshot: read a cluster, and make its twin. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ktui.cluster.clock import Clock
from ktui.cluster.errors import Failure, NotAuthorized
from ktui.cluster.partition import PartitionState
from ktui.cluster.ports import ClusterReader
from ktui.planning.check.placement import PlacementAnswer, read_with_log_dirs
from ktui.planning.plan import Plan
from ktui.simulated.scenario.record import SnapshotRates
from ktui.simulated.twin.brokers import read_settings
from ktui.simulated.twin.make import (
    ClusterRead,
    ClusterTwin,
    Hide,
    Scope,
    keep,
    make_twin,
    scope_of,
)
from ktui.simulated.twin.topics import Moment, Replicas, inbound, message_size, read_moment


async def take_twin(
    reader: ClusterReader,
    clock: Clock,
    *,
    rates: Callable[[str], SnapshotRates],
    plan: Plan | None = None,
    measure_s: float = 60.0,
    version: str | None = None,
    hide: Hide = keep,
) -> ClusterTwin:
    """Read a cluster, or the part that shares the brokers of a plan, and make its twin.

    The state is that of the end of the measurement.

    Args:
        rates: returns how fast brokers take copies in, for the id of the cluster.
        plan: the plan; None for the whole cluster.
        measure_s: how long inbound rates are measured; 0 for not at all.

    Raises:
        CannotSnapshot: there is no twin of this cluster.
        ClusterError: the cluster cannot be read, or sizes may not be.
    """
    read = await _read(reader, clock, plan, measure_s)
    return make_twin(
        read, taken=clock.now(), rates=rates(read.cluster.cluster_id), version=version, hide=hide
    )


async def _read(
    reader: ClusterReader, clock: Clock, plan: Plan | None, measure_s: float
) -> ClusterRead:
    first = None
    if measure_s > 0:
        *_, first = await _look(reader, clock, plan)
        await clock.sleep(measure_s)
    answer, scope, last = await _look(reader, clock, plan)
    cluster = await reader.describe_cluster()
    configs = (await reader.topic_configs(scope.topics)).configs
    compacted = frozenset(name for name, each in configs.items() if each.compacted)
    online = answer.placement.pool.online
    up = [broker for broker in scope.brokers if broker in online]
    dirs = {b: answer.log_dirs[b].log_dirs if b in answer.log_dirs else () for b in up}
    return ClusterRead(
        cluster=cluster,
        answer=answer,
        scope=scope,
        written={
            topic: _written(states, first, last, compacted=topic in compacted)
            for topic, states in scope.topics.items()
        },
        measured=first is not None,
        message_sizes={
            topic: None if topic in compacted else message_size(states, last)
            for topic, states in scope.topics.items()
        },
        settings=await read_settings(reader, scope.topics, up, dirs),
    )


def _written(
    states: Sequence[PartitionState], first: Moment | None, last: Moment, *, compacted: bool
) -> Sequence[float | None]:
    if first is None:
        return [0.0] * len(states)
    return [*inbound(states, first, last, compacted=compacted)]


async def _look(
    reader: ClusterReader, clock: Clock, plan: Plan | None
) -> tuple[PlacementAnswer, Scope, Moment]:
    """Read the state of the cluster, and the ends of its logs."""
    answer = await read_with_log_dirs(reader, None)
    _check_permitted(answer.failures)
    scope = scope_of(answer.placement, plan)
    replicas = Replicas(answer.placement.pool.online, answer.log_dirs)
    states = [state for states in scope.topics.values() for state in states]
    sizes = {
        state.tp: size for state in states if (size := replicas.leading_size(state)) is not None
    }
    return answer, scope, await read_moment(reader, states, sizes, clock)


def _check_permitted(failures: Sequence[Failure]) -> None:
    denied = [failure for failure in failures if failure.denied]
    if denied:
        operation, resource = denied[0].operation.needs
        raise NotAuthorized(
            "reading how large partitions are",
            where=f"broker {denied[0].broker}",
            fix=f"A twin needs the sizes. Grant {operation} on the {resource.lower()}",
            needs=f"{operation} on the {resource.lower()}",
        )
