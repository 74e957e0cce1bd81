"""TCP proxies in front of a cluster's brokers: they observe and break the traffic.

Every broker gets its own proxy. Answers with brokers' addresses (Metadata, DescribeCluster) are
rewritten to name the proxies. So any client, in any process, that starts at `bootstrap_servers`
talks through them only. Plaintext only, no TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    DescribeClusterResponse,
    DescribeConfigsResponse,
    DescribeLogDirsResponse,
)
from kafka.protocol.api_key import ApiKey
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse
from ktui.cluster.partition import TopicPartition
from ktui.lab.layout import Lab

WRITES = frozenset(
    {
        ApiKey.AlterPartitionReassignments,
        ApiKey.ElectLeaders,
        ApiKey.IncrementalAlterConfigs,
        ApiKey.AlterConfigs,
        ApiKey.CreateTopics,
        ApiKey.DeleteTopics,
        ApiKey.CreatePartitions,
        ApiKey.AlterReplicaLogDirs,
        ApiKey.Produce,
    }
)
"""Requests that change a cluster."""


class BrokerProxy:
    """The proxy of one broker; every fault can be switched on and off while it runs."""

    def __init__(self, host: str, port: int) -> None:
        self.upstream = (host, port)
        self.port = 0
        self.seen: Counter[int] = Counter()  # requests that arrived, by API key
        self.witness: Callable[[int, int, bytes], None] = lambda _key, _version, _frame: None
        """Called for each request that arrives, with API key, version and the whole frame."""
        self.lose: set[int] = set()
        """API keys whose requests are forwarded, and whose answers are lost with the connection."""
        self.cut: set[int] = set()
        """API keys whose next request (one each) ends the connection and is not forwarded."""
        self.garble: set[int] = set()  # API keys whose answers arrive unreadable
        self.hanging = False  # whether no answer ever arrives, also on new connections
        self.dead = False  # whether connections are closed as soon as they are made
        self.failure: Exception | None = None  # an error in the proxy itself
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, rewrite: Callable[[int, int, bytes], bytes]) -> None:
        self._rewrite = rewrite
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.close_connections()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def close_connections(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            if not self.dead:
                await self._relay(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        except Exception as error:  # noqa: BLE001 -- `ProxiedCluster` raises it on exit
            self.failure = error
        finally:
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, upstream = await asyncio.open_connection(*self.upstream)
        asked: dict[int, tuple[int, int]] = {}
        there = asyncio.create_task(self._requests(reader, upstream, asked))
        back = asyncio.create_task(self._answers(answers, writer, asked))
        try:
            await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (there, back):
                task.cancel()
                with contextlib.suppress(
                    OSError, asyncio.IncompleteReadError, asyncio.CancelledError
                ):
                    await task
            upstream.transport.abort()

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        upstream: asyncio.StreamWriter,
        asked: dict[int, tuple[int, int]],
    ) -> None:
        while True:
            frame = await _frame(reader)
            key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
            self.seen[key] += 1
            self.witness(key, version, frame)
            if key in self.cut:
                self.cut.discard(key)
                return
            asked[int.from_bytes(frame[4:8], "big")] = (key, version)
            await _put(upstream, frame)

    async def _answers(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        asked: dict[int, tuple[int, int]],
    ) -> None:
        while True:
            frame = await _frame(reader)
            key, version = asked.pop(int.from_bytes(frame[:4], "big"))
            if key in self.lose:
                return
            if key in self.garble:
                frame = frame[:5] + b"\xff" * 3
            if not self.hanging:
                await _put(writer, self._rewrite(key, version, frame))


async def _frame(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(4), "big")
    return await reader.readexactly(size)


async def _put(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(len(frame).to_bytes(4, "big") + frame)
    await writer.drain()


class ProxiedCluster:
    """All proxies of one cluster, in their own thread. A context manager.

    Args:
        brokers: the address of each broker by its id.
        highest: by API key, the highest version that the brokers seem to support, to make them
            look older; None removes the API.
        edits: by API key, what changes an answer on its way back.
    """

    def __init__(
        self,
        brokers: Mapping[int, tuple[str, int]],
        *,
        highest: Mapping[int, int | None] | None = None,
        edits: Mapping[int, Callable[[Any], None]] | None = None,
    ) -> None:
        self._highest = dict(highest or {})
        self._edits = dict(edits or {})
        self.brokers = {broker: BrokerProxy(*address) for broker, address in brokers.items()}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies")

    def __enter__(self) -> Self:
        self._thread.start()
        for proxy in self.brokers.values():
            self._run(proxy.start(self._rewritten))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for proxy in self.brokers.values():
            self._run(proxy.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        for proxy in self.brokers.values():
            if proxy.failure is not None:
                raise proxy.failure

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap servers for a client that should talk through the proxies."""
        return ",".join(f"127.0.0.1:{proxy.port}" for proxy in self.brokers.values())

    @property
    def seen(self) -> Counter[int]:
        """Requests that arrived at any broker, by API key."""
        return sum((proxy.seen.copy() for proxy in self.brokers.values()), Counter())

    @property
    def writes_seen(self) -> list[str]:
        """The names of the requests that arrived and change a cluster."""
        return sorted(ApiKey(key).name for key in self.seen if key in WRITES)

    def close_connections(self, broker: int) -> None:
        """Close every connection to one broker; new ones are accepted."""
        self._loop.call_soon_threadsafe(self.brokers[broker].close_connections)

    def kill(self, broker: int) -> None:
        """Make one broker look dead: close its connections, and new ones at once."""
        self.brokers[broker].dead = True
        self.close_connections(broker)

    def _run(self, what: Awaitable[Any]) -> Any:
        async def awaited() -> Any:
            return await what

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result(timeout=30)

    def _rewritten(self, key: int, version: int, frame: bytes) -> bytes:
        if key not in _REWRITTEN and key not in self._edits:
            return frame
        kind = _REWRITTEN.get(key) or _EDITED[key]
        plain = key == ApiKey.ApiVersions or not kind.flexible_version_q(version)
        head = 4 if plain else 5
        answer = kind.decode(frame[head:], version=version)
        if key == ApiKey.ApiVersions:
            self._lower(answer)
        elif key in _REWRITTEN:
            self._redirect(answer)
        if key in self._edits:
            self._edits[key](answer)
        fields = {name: getattr(answer, name) for name in kind.fields}
        encoded: bytes = kind(version=version, **fields).encode()
        return frame[:head] + encoded

    def _redirect(self, answer: Any) -> None:
        for each in answer.brokers:
            broker = each.node_id if hasattr(each, "node_id") else each.broker_id
            if broker in self.brokers:
                each.host, each.port = "127.0.0.1", self.brokers[broker].port

    def _lower(self, answer: Any) -> None:
        limits = {each.api_key: each.max_version for each in answer.api_keys} | self._highest
        answer.api_keys = [each for each in answer.api_keys if limits[each.api_key] is not None]
        for each in answer.api_keys:
            each.max_version = min(each.max_version, limits[each.api_key])


_REWRITTEN: dict[int, Any] = {
    ApiKey.ApiVersions: ApiVersionsResponse,
    ApiKey.DescribeCluster: DescribeClusterResponse,
    ApiKey.Metadata: MetadataResponse,
}
_EDITED: dict[int, Any] = {
    ApiKey.DescribeConfigs: DescribeConfigsResponse,
    ApiKey.DescribeLogDirs: DescribeLogDirsResponse,
}
"""The answers that a test may edit."""


Replicas = tuple[int, ...]


class Arrived(NamedTuple):
    """One request as a broker received it."""

    at_s: float  # wall-clock time in seconds, as in the rows of the journal
    key: int
    targets: Mapping[TopicPartition, Replicas | None]
    """The targets of an AlterPartitionReassignments; None for a cancel."""


class CancelWire(ProxiedCluster):
    """The proxies of a lab's brokers, and every request that passed them, in order."""

    def __init__(self, lab: Lab) -> None:
        super().__init__({node.id: ("127.0.0.1", node.port) for node in lab.brokers})
        self.arrived: list[Arrived] = []
        for proxy in self.brokers.values():
            proxy.witness = self._comes

    def _comes(self, key: int, version: int, frame: bytes) -> None:
        targets = _targets(version, frame) if key == ApiKey.AlterPartitionReassignments else {}
        self.arrived.append(Arrived(time.time(), key, targets))

    def altered(self, since: int = 0) -> list[tuple[TopicPartition, Replicas | None]]:
        """Return the targets requested for partitions, starting at request `since`."""
        return [one for arrived in self.arrived[since:] for one in arrived.targets.items()]

    def count(self, key: int, *, since: int, until: int) -> int:
        """Count the requests of one kind between two places in the order."""
        return sum(arrived.key == key for arrived in self.arrived[since:until])


def _targets(version: int, frame: bytes) -> dict[TopicPartition, Replicas | None]:
    request: Any = AlterPartitionReassignmentsRequest.decode(frame, version=version, header=True)
    return {
        TopicPartition(topic.name, one.partition_index): (
            None if one.replicas is None else tuple(one.replicas)
        )
        for topic in request.topics
        for one in topic.partitions
    }
