"""The controllers of a cluster, asked without a broker in between (KIP-919).

They answer for reassignments, also while no broker is up; they have no metadata of topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ktui.cluster.partition import Reassignment, TopicPartition
from ktui.cluster.ports import WriteResult
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.requests.controllers import ControllerWire, describe_request
from ktui.kafka.transport.translate_errors import Purpose
from ktui.kafka.writer import KafkaWriter

_DESCRIBE = Purpose("describing the controllers")


class Controllers:
    """The reassignments of a cluster, by its controllers.

    Args:
        connection: leads to controllers in place of brokers.
    """

    def __init__(self, connection: Connection) -> None:
        self._wire = ControllerWire(connection, changes=True)
        self._reader = KafkaReader(connection, wire=self._wire)
        self._writer = KafkaWriter(connection, wire=self._wire)

    async def cluster_id(self) -> str:
        """Return the id of the cluster.

        Raises:
            ClusterError: no controller answers.
        """
        return str((await self._wire.ask(_DESCRIBE, describe_request)).cluster_id)

    async def list_reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        """Return every ongoing reassignment of the cluster.

        Raises:
            ClusterError: the active controller does not answer.
        """
        return await self._reader.list_reassignments()

    async def cancel(
        self, partitions: Iterable[TopicPartition], *, leaves_within_s: float
    ) -> Mapping[TopicPartition, WriteResult]:
        """Cancel the reassignments of partitions.

        Args:
            partitions: the partitions.
            leaves_within_s: seconds within which the request is sent, or not at all.

        Raises:
            ClusterError: nothing was sent.
        """
        return await self._writer.alter_reassignments(
            dict.fromkeys(partitions),
            allow_replication_factor_change=True,
            leaves_within_s=leaves_within_s,
        )

    async def aclose(self) -> None:
        await self._wire.aclose()
