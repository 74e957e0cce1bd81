"""A simulated controller with one partition, and shortcuts for its requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import WriteResult
from ktui.simulated.controller.controller import Controller
from ktui.simulated.controller.records import RecordChange, Registration
from ktui.simulated.layout import VERSIONS, BrokerSpec, ClusterSpec, TopicSpec

TP = TopicPartition("orders", 0)

Brokers = tuple[int, ...]


class Kept:
    """A controller, and each change that it reported.

    Args:
        *replicas: the replicas of each of the topic's partitions, in sync at first.
        version: the Kafka version whose rules apply.
        brokers: the ids of all brokers.
        configs: settings of the topic.
        static: settings of every broker.
    """

    def __init__(
        self,
        *replicas: Brokers,
        version: str = VERSIONS[-1],
        brokers: Iterable[int] = range(1, 8),
        configs: Mapping[str, str] | None = None,
        static: Mapping[str, str] | None = None,
    ) -> None:
        self.changes: list[RecordChange] = []
        spec = ClusterSpec(
            brokers=tuple(BrokerSpec(id=broker) for broker in brokers),
            version=version,
            broker_configs=static or {},
        )
        self.controller = Controller(spec, self.changes.append)
        self.controller.create_topic(
            TopicSpec(name=TP.topic, replicas=replicas, configs=configs or {})
        )

    def record(self, tp: TopicPartition = TP) -> Registration:
        """Return a partition's record."""
        known = self.controller.get(tp)
        assert known is not None
        return known

    def alter(self, *target: int, factor: bool = True) -> WriteResult:
        """Request a target, of any length unless `factor` is False."""
        return self.controller.alter({TP: target}, allow_replication_factor_change=factor)[TP]

    def cancel(self) -> WriteResult:
        """Cancel the partition's reassignment."""
        return self.controller.alter({TP: None}, allow_replication_factor_change=False)[TP]

    def elect(self, tp: TopicPartition = TP) -> WriteResult:
        """Elect a partition's preferred leader."""
        return self.controller.elect([tp])[tp]

    def join(self, *brokers: int) -> str | None:
        """Let the leader add brokers to the ISR, in one request."""
        known = self.record()
        assert known.leader is not None
        return self.controller.alter_isr(TP, (*known.isr, *brokers), known.leader)

    def drop_out(self, *brokers: int) -> str | None:
        """Let the leader remove brokers from the ISR, in one request."""
        known = self.record()
        assert known.leader is not None
        isr = tuple(b for b in known.isr if b not in brokers)
        return self.controller.alter_isr(TP, isr, known.leader)

    def fence(self, *brokers: int) -> None:
        """Let the sessions of brokers time out, one after another."""
        for broker in brokers:
            self.controller.fence(broker)
