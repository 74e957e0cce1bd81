"""What faults have left behind: brokers that do not serve, and partitions that lack them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from ktui.cluster.partition import PartitionState, Reassignment
from ktui.progress.health import Health, HealthCounts, health
from ktui.progress.timeline import Stall
from ktui.rehearsal.played import Aftermath, Lost
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.machines import Power

_BACK_BY_ITSELF = (Power.UP, Power.STARTING)
_HEALTHY = (Health.OK, Health.UNKNOWN)


def look_around(
    cluster: SimulatedCluster,
    *,
    stalls: Sequence[Stall],
    min_isr: Mapping[str, int],
    until_s: float,
) -> Aftermath:
    """Return what is true of a twin now.

    Args:
        cluster: the twin.
        stalls: the alarms at the last poll.
        min_isr: min.insync.replicas of each topic at the start.
        until_s: now, in seconds since the start of the run.
    """
    lost = dict(_lost(cluster))
    unhealthy = tuple(_unhealthy(cluster))
    capacities = {broker: cluster.replication.capacity(broker) for broker in cluster.machines}
    return Aftermath(
        until_s=until_s,
        lost=lost,
        slowed={broker: share for broker, share in capacities.items() if share < 1},
        stalls=tuple(stalls),
        unhealthy=_by_broker(unhealthy, lost),
        raised={
            topic: min_isr[topic]
            for topic in sorted({each.state.tp.topic for each in unhealthy if each.below_min_isr})
            if topic in min_isr and cluster.controller.configs.min_isr(topic) > min_isr[topic]
        },
    )


class _Unhealthy(NamedTuple):
    state: PartitionState
    health: Health

    @property
    def below_min_isr(self) -> bool:
        return self.health is Health.UNDER_MIN_ISR


def _lost(cluster: SimulatedCluster) -> Iterator[tuple[int, Lost]]:
    for broker in cluster.spec.brokers:
        power = cluster.machines.power(broker.id)
        if power is Power.HANGING:
            yield broker.id, Lost.HANGING
        elif power not in _BACK_BY_ITSELF:
            full = cluster.replication.used(broker.id) >= broker.disk_bytes
            yield broker.id, Lost.DISK_FULL if full else Lost.DOWN


def _unhealthy(cluster: SimulatedCluster) -> Iterator[_Unhealthy]:
    controller = cluster.controller
    for topic in controller.topics:
        config = controller.configs.topic_config(topic)
        for tp, state in cluster.described(topic).items():
            moving = controller.reassigning.get(tp)
            if moving is not None:
                listed = Reassignment(moving.replicas, moving.adding, moving.removing)
                state = state.with_reassignment(listed)  # noqa: PLW2901 - the same partition
            judged = health(state, config)
            if judged not in _HEALTHY:
                yield _Unhealthy(state, judged)


def _by_broker(
    unhealthy: Collection[_Unhealthy], lost: Collection[int]
) -> dict[int | None, HealthCounts]:
    counts: dict[int | None, Counter[Health]] = {}
    for state, judged in unhealthy:
        kept = state.original
        lacks = [b for b in kept if b in lost] or [b for b in kept if b not in state.isr]
        for broker in lacks or (None,):
            counts.setdefault(broker, Counter())[judged] += 1
    return {
        broker: HealthCounts(
            of[Health.OFFLINE], of[Health.UNDER_MIN_ISR], of[Health.UNDER_REPLICATED]
        )
        for broker, of in counts.items()
    }
