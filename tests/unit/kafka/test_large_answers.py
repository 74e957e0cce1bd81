"""An answer of several MiB is read to its end, over plaintext and over TLS."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path

import pytest
from kafka.protocol.admin import ListPartitionReassignmentsResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

from ktui.cluster.partition import TopicPartition
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from support.kafka.certificates import Authority

_COUNT = 50_000
_API_VERSIONS, _METADATA, _LIST = 18, 3, 46
_FLEXIBLE = {_API_VERSIONS: 0, _METADATA: 0, _LIST: 1}
"""Bytes of tagged fields after the header of an answer."""


def _answer(api: int, version: int, port: int) -> bytes:
    if api == _API_VERSIONS:
        known = ((_API_VERSIONS, 2), (_METADATA, 4), (_LIST, 0))
        keys = [
            ApiVersionsResponse.ApiVersion(version=2, api_key=key, min_version=0, max_version=high)
            for key, high in known
        ]
        response = ApiVersionsResponse(version=version, error_code=0, api_keys=keys)
    elif api == _METADATA:
        broker = MetadataResponse.MetadataResponseBroker(
            1, "127.0.0.1", port, None, version=version
        )
        response = MetadataResponse(version=version, brokers=[broker], controller_id=1, topics=[])
    else:
        return _moving(version)
    return bytes(response.encode())


@cache
def _moving(version: int) -> bytes:
    topic = ListPartitionReassignmentsResponse.OngoingTopicReassignment
    moving = [
        topic.OngoingPartitionReassignment(
            version=0,
            partition_index=each,
            replicas=[1, 2, 3],
            adding_replicas=[3],
            removing_replicas=[1],
        )
        for each in range(_COUNT)
    ]
    response = ListPartitionReassignmentsResponse(
        version=version,
        error_code=0,
        topics=[topic(version=0, name="orders", partitions=moving)],
    )
    return bytes(response.encode())


@contextlib.asynccontextmanager
async def kafka(tls: ssl.SSLContext | None) -> AsyncIterator[str]:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                asked = await reader.readexactly(size)
                api, version = (int.from_bytes(asked[at : at + 2], "big") for at in (0, 2))
                frame = asked[4:8] + bytes(_FLEXIBLE[api]) + _answer(api, version, port)
                writer.write(len(frame).to_bytes(4, "big") + frame)
                await writer.drain()
        writer.transport.abort()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield f"127.0.0.1:{port}"


@pytest.mark.parametrize("tls", [False, True])
async def test_a_large_answer_is_read_to_its_end(tmp_path: Path, *, tls: bool) -> None:
    authority = Authority(tmp_path)
    async with kafka(authority.context("IP:127.0.0.1") if tls else None) as address:
        reader = KafkaReader(
            Connection.of(
                {
                    "bootstrap.servers": address,
                    "security.protocol": "SSL" if tls else "PLAINTEXT",
                    "ssl.ca.location": str(authority.pem),
                }
            )
        )
        moving = await reader.list_reassignments()
        await reader.aclose()

    assert moving.keys() == {TopicPartition("orders", each) for each in range(_COUNT)}
