"""The wire to a cluster: requests and answers from asyncio, each call with a time limit."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import time
from collections.abc import Callable, Iterable
from typing import Any, Self

from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from ktui.cluster.broker import Broker
from ktui.cluster.errors import ClusterError, Means, TimedOut, Unreachable, WrongCluster, means
from ktui.cluster.text import clean
from ktui.kafka.connection.connection import Connection
from ktui.kafka.transport.pool import (
    ANY_TIME,
    LARGEST_HELLO,
    Call,
    Pool,
    SendDeadline,
    redirect_client_log,
)
from ktui.kafka.transport.translate_errors import (
    Attempts,
    CallContext,
    NodeId,
    Purpose,
    describe_error,
    translate_error,
)

_GRACE_S = 0.25
"""Seconds after a call's limit in which the IO thread's own timer may still report the cause."""

_SUSPECT_S = 10.0  # seconds for which a broker that failed a call is chosen last

_RETRY_S = 0.1  # the pause before the next attempt after an answer that means "not now"

_NO_DELAY = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
_DROP_UNSENT = [*_NO_DELAY, (socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))]

_CLOSED = "the connection was closed by ktui"

RequestFactory = Callable[[], Any]  # each attempt needs a new one, which keeps its version


class AnswerLost(TimedOut):
    """The request was sent and no answer came, so its effect is unknown."""

    summary = "sent, but its answer was lost"
    node: int | None = None  # the broker that the request was sent to; None if its id is unknown

    @classmethod
    def at(cls, node: NodeId, attempted: str, where: str, answer: str) -> Self:
        lost = cls(attempted, where=where, answer=answer)
        lost.node = node if isinstance(node, int) else None
        return lost


class Wire:
    """The connections to one cluster. Opens at the first request.

    Closing a wire with `changes` drops bytes that the system would go on sending for minutes.
    """

    def __init__(
        self, connection: Connection, *, timeout_s: float | None = None, changes: bool = False
    ) -> None:
        self.connection = connection
        self._changes = changes
        self.timeout_s = timeout_s or connection.timeout_s
        self._net: Any = None
        self._pool: Any = None
        self._closed = False
        self._opening = asyncio.Lock()
        self._suspects: dict[NodeId, float] = {}
        self._doubtful: set[NodeId] = set()
        """Nodes that could not be reached, whose addresses may have changed."""
        self._tokens: Any = None

    async def ask(
        self,
        purpose: Purpose,
        build: RequestFactory,
        *,
        broker: int | None = None,
        limit_s: float | None = None,
    ) -> Any:
        """Send a read, and retry it on failure: a read changes nothing."""
        attempts = Attempts(self.timeout_s if limit_s is None else limit_s, hasty=True)
        return await self._call(purpose, build, broker, attempts, change=False)

    async def send(
        self,
        purpose: Purpose,
        build: RequestFactory,
        *,
        broker: int | None = None,
        limit_s: float | None = None,
        leave: SendDeadline = ANY_TIME,
    ) -> Any:
        """Send a change once. It is sent again only after NOT_CONTROLLER, which has no effect.

        Raises:
            AnswerLost: the change was sent, and its effect is unknown.
            NotAuthorized, Refused: the change was sent, and the answer as a whole is an error.
            ClusterError: nothing was sent.
        """
        attempts = Attempts(self.timeout_s if limit_s is None else limit_s, leave=leave)
        return await self._call(purpose, build, broker, attempts, change=True)

    async def broker_ids(self) -> list[int]:
        """Return the live brokers that this wire knows, best first. Connects if necessary."""
        await self._ensure_bootstrapped(Purpose("connecting"), Attempts(self.timeout_s))
        return [node for node in self._nodes(None) if isinstance(node, int)]

    def learn(self, brokers: Iterable[Broker]) -> None:
        known = [
            MetadataResponse.MetadataResponseBroker(b.id, b.host, b.port, b.rack, version=1)
            for b in brokers
            if b.alive and b.host
        ]
        if known and self._pool is not None and not self._closed:
            answer = MetadataResponse(version=1, brokers=known, controller_id=-1, topics=[])
            self._pool.call_soon(self._pool.cluster.update_metadata, answer)

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            if self._net is not None:
                await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._pool.run(self._pool.drop_all)
        self._net.stop()
        self._net.close()

    async def _call(
        self,
        purpose: Purpose,
        build: RequestFactory,
        broker: int | None,
        attempts: Attempts,
        *,
        change: bool,
    ) -> Any:
        await self._ensure_bootstrapped(purpose, attempts)
        await self._ensure_known(purpose, broker, attempts)
        retriable = Means.UNCHANGED if change else Means.ELSEWHERE
        while chosen := attempts.choose(self._nodes(broker, change=change)):
            node, call = chosen
            try:
                answer = await self._once(purpose, build(), node, call)
            except ClusterError as error:
                self._raise_unless_retriable(error, purpose, node, call, change=change)
                closed = call.accepted and isinstance(error, Unreachable)
                attempts.failed(node, error, for_good=not closed)
                self._suspects[node] = time.monotonic()
                if not call.accepted:
                    self._doubtful.add(node)
                continue
            code = getattr(answer, "error_code", 0)
            if not code:
                attempts.answered()
                return answer
            refusal = self._refusal(purpose, answer, node, change=change)
            if not means(code, retriable):
                raise refusal
            attempts.failed(node, refusal, for_good=False)
            await asyncio.sleep(_RETRY_S)
        if change and attempts.too_late:
            stale = "not sent: the data behind it went stale while a connection was being opened"
            raise attempts.failure or TimedOut(purpose.attempted, answer=stale)
        raise attempts.failure or self._no_broker(purpose, broker)

    def _raise_unless_retriable(
        self, error: ClusterError, purpose: Purpose, node: NodeId, call: Call, *, change: bool
    ) -> None:
        if change and call.left:
            raise AnswerLost.at(node, purpose.attempted, error.where, error.answer) from error
        if not isinstance(error, Unreachable | TimedOut):
            raise error

    async def _once(self, purpose: Purpose, request: Any, node: NodeId, call: Call) -> Any:
        context = self._context(purpose, node)
        if self._closed:
            raise context.error(Unreachable, _CLOSED)
        try:
            if self._tokens is not None:  # so that the IO thread finds a fresh token, never waits
                await asyncio.to_thread(self._tokens.token)
            answer = await self._exchange(node, request, call)
        except Exception as error:
            if self._closed:
                raise context.error(Unreachable, _CLOSED) from error
            raise translate_error(error, context, call) from error
        self._suspects.pop(node, None)
        return answer

    async def _exchange(self, node: NodeId, request: Any, call: Call) -> Any:
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Any] = loop.create_future()
        exchange = self._pool.call_soon(self._pool.exchange, node, request, call)
        exchange.add_callback(lambda value: loop.call_soon_threadsafe(_settle, result, value, None))
        exchange.add_errback(lambda error: loop.call_soon_threadsafe(_settle, result, None, error))
        try:
            async with asyncio.timeout(max(0.0, call.left_s()) + _GRACE_S):
                return await result
        finally:
            call.abandon()

    async def _ensure_bootstrapped(self, purpose: Purpose, attempts: Attempts) -> None:
        async with self._opening:
            if self._closed:
                raise Unreachable(purpose.attempted, answer=_CLOSED)
            if self._pool is None:
                self._open()
            if not self._pool.cluster.brokers():
                await self._bootstrap(purpose, attempts)

    async def _ensure_known(self, purpose: Purpose, broker: int | None, attempts: Attempts) -> None:
        if broker is None or (self._nodes(broker) and broker not in self._doubtful):
            return
        self._doubtful.discard(broker)
        answer = await self._call(purpose, self._hello, None, attempts, change=False)
        self._take_nodes(answer)

    def _open(self) -> None:
        redirect_client_log("kafka")
        settings = self.connection.for_kafka_python()
        self._tokens = settings.get("sasl_oauth_token_provider")
        self._net = NetworkSelector(client_id="ktui", slow_task_threshold_secs=0)
        self._pool = Pool(
            self._net,
            receive_message_max_bytes=LARGEST_HELLO,
            max_in_flight_requests_per_connection=1_000,
            socket_options=_DROP_UNSENT if self._changes else _NO_DELAY,
            **settings,
        )
        self._net.start()

    async def _bootstrap(self, purpose: Purpose, attempts: Attempts) -> None:
        addresses = [b.node_id for b in self._pool.cluster.bootstrap_brokers()]
        while chosen := attempts.choose(addresses):
            node, call = chosen
            try:
                answer = await self._once(purpose, self._hello(), node, call)
            except ClusterError as error:
                attempts.failed(node, error, for_good=True)
            else:
                self._check_cluster(purpose, answer)
                self._take_nodes(answer)
                attempts.answered()
                return
        raise attempts.failure or self._no_broker(purpose, None)

    def _check_cluster(self, purpose: Purpose, hello: Any) -> None:
        wanted, found = self.connection.cluster_id, clean(hello.cluster_id or "")
        if wanted is not None and found != wanted:
            raise WrongCluster(
                purpose.attempted,
                where=self.connection.where,
                answer=f"its id is {found or 'not given'}, and cluster_id is {wanted}",
                fix="Nothing was sent. Correct the addresses, or cluster_id",
            )

    def _hello(self) -> Any:
        return MetadataRequest(topics=[], allow_auto_topic_creation=False, min_version=1)

    def _take_nodes(self, answer: Any) -> None:
        self._pool.cluster.update_metadata(answer)

    def _nodes(self, broker: int | None, *, change: bool = False) -> list[NodeId]:
        """Return the nodes to ask, healthy and then connected ones first, else at random.

        A change goes to a broker by its id, which can be asked again if the answer is lost.
        """
        if broker is not None:
            return [broker] if self._pool.cluster.broker_metadata(broker) else []
        known: list[NodeId] = [b.node_id for b in self._pool.cluster.brokers()]
        random.shuffle(known)
        bootstrap = [b.node_id for b in self._pool.cluster.bootstrap_brokers()]
        if not (change and known):
            known += [n for n in bootstrap if self._connected(n) or all(map(self._suspect, known))]
        return sorted(known, key=lambda n: (self._suspect(n), not self._connected(n)))

    def _connected(self, node: NodeId) -> bool:
        connection = self._pool._conns.get(node)  # noqa: SLF001 -- there is no public way
        return connection is not None and connection.connected

    def _suspect(self, node: NodeId) -> bool:
        return time.monotonic() - self._suspects.get(node, -_SUSPECT_S) < _SUSPECT_S

    def _context(self, purpose: Purpose, node: NodeId) -> CallContext:
        at = self._pool.cluster.broker_metadata(node)
        address = f"{at.host}:{at.port}" if at else "address unknown"
        where = f"broker {node} at {address}" if isinstance(node, int) else address
        known = bool(self._pool.cluster.brokers())
        protocol, mechanism = self.connection.protocol, self.connection.mechanism
        return CallContext(purpose.attempted, where, protocol, mechanism, known=known)

    def _refusal(
        self, purpose: Purpose, answer: Any, node: NodeId, *, change: bool
    ) -> ClusterError:
        code, message = answer.error_code, getattr(answer, "error_message", None)
        where = self._context(purpose, node).where
        if change and means(code, Means.UNDECIDED):
            return AnswerLost.at(node, purpose.attempted, where, describe_error(code, message))
        return purpose.refusal(code, message, where)

    def _no_broker(self, purpose: Purpose, broker: int | None) -> ClusterError:
        if broker is None:
            where = ", ".join(self.connection.bootstrap_servers)
            return Unreachable(purpose.attempted, where=where, answer="no broker answered")
        return Unreachable(
            purpose.attempted,
            where=f"broker {broker}",
            answer="the cluster's metadata has no such live broker",
            fix="It may be down; `ktui` shows it again when it registers",
        )


def _settle(result: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if result.done():
        return
    if error is None:
        result.set_result(value)
    else:
        result.set_exception(error)
