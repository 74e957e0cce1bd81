"""The controllers of a cluster: where they listen, and connections to them (KIP-919).

Only a controller takes a change of a broker's settings while that broker is down. DescribeQuorum
names the controllers' addresses from version 2 on (KIP-853), which brokers have since Kafka 3.9.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka.protocol.admin.cluster import DescribeClusterRequest
from kafka.protocol.metadata import MetadataResponse

from ktui.cluster.errors import Unsupported
from ktui.cluster.text import clean
from ktui.kafka.requests.fresh_metadata import quorum_request
from ktui.kafka.transport import error_codes
from ktui.kafka.transport.client import Wire
from ktui.kafka.transport.translate_errors import Purpose

_CONTROLLERS = 2
"""DescribeCluster's number for the endpoints of controllers."""
_FIND = Purpose("looking for the controllers", needs="Describe on the cluster")
describe_request = partial(DescribeClusterRequest, endpoint_type=_CONTROLLERS, min_version=1)
"""Builds the request that asks a controller for the cluster's id and all controllers."""


class ControllerWire(Wire):
    """The connections to the controllers of a cluster."""

    def _hello(self) -> Any:
        return describe_request()

    def _check_cluster(self, purpose: Purpose, hello: Any) -> None:
        if hello.error_code:  # a broker answers MISMATCHED_ENDPOINT_TYPE, without a cluster id
            raise Unsupported(
                purpose.attempted,
                where=", ".join(self.connection.bootstrap_servers),
                answer=error_codes.describe_error(hello.error_code, hello.error_message),
                fix="Name a controller there, not a broker",
            )
        super()._check_cluster(purpose, hello)

    def _take_nodes(self, answer: Any) -> None:
        nodes = [
            MetadataResponse.MetadataResponseBroker(n.broker_id, n.host, n.port, None, version=1)
            for n in answer.brokers
        ]
        metadata = MetadataResponse(version=1, brokers=nodes, controller_id=-1, topics=[])
        self._pool.cluster.update_metadata(metadata)


async def find_controllers(wire: Wire) -> str:
    """Return the controllers' addresses, as brokers name them: `host:port,...`.

    Raises:
        Unsupported: brokers do not name them.
        ClusterError: no broker answers.
    """
    answer = await wire.ask(_FIND, quorum_request)
    listeners = [node.listeners[0] for node in answer.nodes or () if node.listeners]
    if not listeners:
        raise Unsupported(
            _FIND.attempted,
            answer="brokers do not report their addresses",
            fix="Name one with --bootstrap-controller",
        )
    return ",".join(_address(clean(each.host), each.port) for each in listeners)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
