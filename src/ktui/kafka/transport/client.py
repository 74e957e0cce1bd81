"""Requests and answers over one pool of connections, from asyncio, with a time limit on each."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, Self

from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from ktui.cluster.broker import Broker
from ktui.cluster.errors import ClusterError, TimedOut, Unreachable
from ktui.kafka.connection.connection import Connection
from ktui.kafka.transport import client_logging, error_codes
from ktui.kafka.transport.pool import LARGEST_HELLO, Call, Pool
from ktui.kafka.transport.retry import Attempts, NodeId
from ktui.kafka.transport.send_deadline import ANY_TIME, SendDeadline
from ktui.kafka.transport.translate_errors import CallContext, Purpose, translated

_GRACE_S = 0.25
"""How long after a call's limit the IO thread's own timer may take to say why."""

_SUSPECT_S = 10.0
"""How long a broker that failed a call is the last to be chosen."""

_RETRY_S = 0.1
"""The pause before asking again after an answer that says "not now"."""

_AT_ONCE = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
_DROPS_THE_REST = [*_AT_ONCE, (socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))]

_CLOSED = "the connection was closed by ktui"

Build = Callable[[], Any]
"""Makes a request; anew for each attempt, for a request keeps the version it was sent in."""


class AnswerLost(TimedOut):
    """The request was sent and no answer came: whether it took effect is unknown."""

    summary = "sent, but its answer was lost"
    node: int | None = None
    """The broker that it was sent to; None where its id is not known."""

    @classmethod
    def at(cls, node: NodeId, attempted: str, where: str, answer: str) -> Self:
        """Make one of a request that was sent to a node."""
        lost = cls(attempted, where=where, answer=answer)
        lost.node = node if isinstance(node, int) else None
        return lost


class Wire:
    """The way to one cluster. Opens at the first request.

    Args:
        connection: where the cluster is, and who we are.
        timeout_s: seconds for each call; None for the connection's.
        changes: whether changes go this way. When such a connection is closed, what the operating
            system has not sent by then is dropped: it would be sent for minutes on end.
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
        """Nodes that could not be reached: their addresses may have changed."""
        self._tokens: Any = None

    async def ask(
        self,
        purpose: Purpose,
        build: Build,
        *,
        broker: int | None = None,
        limit_s: float | None = None,
    ) -> Any:
        """Ask for something that changes nothing, and so may be asked again.

        Args:
            purpose: what it is for, for the error.
            build: makes the request.
            broker: the broker to ask; any healthy one if None.
            limit_s: seconds, instead of the wire's own limit.

        Raises:
            ClusterError: nobody answered within the limit, or the answer as a whole is an error.
        """
        attempts = Attempts(self.timeout_s if limit_s is None else limit_s, hasty=True)
        return await self._converse(purpose, build, broker, attempts, change=False)

    async def send(
        self,
        purpose: Purpose,
        build: Build,
        *,
        broker: int | None = None,
        limit_s: float | None = None,
        leave: SendDeadline = ANY_TIME,
    ) -> Any:
        """Send a change once; again only after NOT_CONTROLLER, which does nothing.

        Args:
            purpose: what it is for, for the error.
            build: makes the request.
            broker: the broker to send it to; any healthy one, which forwards it, if None.
            limit_s: seconds, instead of the wire's own limit.
            leave: when it may leave at the latest.

        Raises:
            AnswerLost: it was sent, and whether it took effect is unknown.
            NotAuthorized, Refused: it was sent, and the answer as a whole is an error.
            ClusterError: nothing was sent.
        """
        attempts = Attempts(self.timeout_s if limit_s is None else limit_s, leave=leave)
        return await self._converse(purpose, build, broker, attempts, change=True)

    async def broker_ids(self) -> list[int]:
        """Give the live brokers that this wire knows of, best first, connecting if need be."""
        await self._bootstrapped(Purpose("connecting"), Attempts(self.timeout_s))
        return [node for node in self._nodes(None) if isinstance(node, int)]

    def learn(self, brokers: Iterable[Broker]) -> None:
        """Take the addresses of the live brokers from a fresh answer."""
        known = [
            MetadataResponse.MetadataResponseBroker(b.id, b.host, b.port, b.rack, version=1)
            for b in brokers
            if b.alive and b.host
        ]
        if known and self._pool is not None and not self._closed:
            answer = MetadataResponse(version=1, brokers=known, controller_id=-1, topics=[])
            self._pool.call_soon(self._pool.cluster.update_metadata, answer)

    async def aclose(self) -> None:
        """Close every connection and the IO thread; calls in flight raise. Idempotent."""
        if not self._closed:
            self._closed = True
            if self._net is not None:
                await asyncio.to_thread(self._shut)

    def _shut(self) -> None:
        self._pool.run(self._pool.drop_all)
        self._net.stop()
        self._net.close()

    async def _converse(
        self,
        purpose: Purpose,
        build: Build,
        broker: int | None,
        attempts: Attempts,
        *,
        change: bool,
    ) -> Any:
        await self._bootstrapped(purpose, attempts)
        await self._looked_up(purpose, broker, attempts)
        again = error_codes.UNCHANGED if change else error_codes.ELSEWHERE
        while chosen := attempts.choose(self._nodes(broker, change=change)):
            node, call = chosen
            try:
                answer = await self._once(purpose, build(), node, call)
            except ClusterError as error:
                self._weigh(error, purpose, node, call, change=change)
                closed = call.accepted and isinstance(error, Unreachable)
                attempts.failed(node, error, for_good=not closed)
                self._suspects[node] = time.monotonic()
                if not call.accepted:
                    self._doubtful.add(node)
                continue
            code = getattr(answer, "error_code", error_codes.NONE)
            if code == error_codes.NONE:
                attempts.answered()
                return answer
            refusal = self._refusal(purpose, answer, node, change=change)
            if code not in again:
                raise refusal
            attempts.failed(node, refusal, for_good=False)
            await asyncio.sleep(_RETRY_S)
        if change and attempts.too_late:
            old = "not sent: what it rests on grew too old while a connection was made"
            raise attempts.failure or TimedOut(purpose.attempted, answer=old)
        raise attempts.failure or self._nowhere(purpose, broker)

    def _weigh(
        self, error: ClusterError, purpose: Purpose, node: NodeId, call: Call, *, change: bool
    ) -> None:
        """Raise unless another attempt is both safe and of use."""
        if change and call.left:
            raise AnswerLost.at(node, purpose.attempted, error.where, error.answer) from error
        if not isinstance(error, Unreachable | TimedOut):
            raise error

    async def _once(self, purpose: Purpose, request: Any, node: NodeId, call: Call) -> Any:
        """Make one attempt on one node; what fails is raised as a `ClusterError`."""
        place = self._place(purpose, node)
        if self._closed:
            raise place.error(Unreachable, _CLOSED)
        try:
            if self._tokens is not None:  # so that the IO thread finds a fresh one and never waits
                await asyncio.to_thread(self._tokens.token)
            answer = await self._bridged(node, request, call)
        except Exception as error:
            if self._closed:
                raise place.error(Unreachable, _CLOSED) from error
            raise translated(error, place, call) from error
        self._suspects.pop(node, None)
        return answer

    async def _bridged(self, node: NodeId, request: Any, call: Call) -> Any:
        """Run one exchange on the IO thread and await it here."""
        loop = asyncio.get_running_loop()
        here: asyncio.Future[Any] = loop.create_future()
        there = self._pool.call_soon(self._pool.exchange, node, request, call)
        there.add_callback(lambda value: loop.call_soon_threadsafe(_settle, here, value, None))
        there.add_errback(lambda error: loop.call_soon_threadsafe(_settle, here, None, error))
        try:
            async with asyncio.timeout(max(0.0, call.left_s()) + _GRACE_S):
                return await here
        finally:
            call.abandon()

    async def _bootstrapped(self, purpose: Purpose, attempts: Attempts) -> None:
        """Open the pool and learn the brokers' addresses, once."""
        async with self._opening:
            if self._closed:
                raise Unreachable(purpose.attempted, answer=_CLOSED)
            if self._pool is None:
                self._open()
            if not self._pool.cluster.brokers():
                await self._bootstrap(purpose, attempts)

    async def _looked_up(self, purpose: Purpose, broker: int | None, attempts: Attempts) -> None:
        """Ask where a broker is that is not known, or was not there when last called."""
        if broker is None or (self._nodes(broker) and broker not in self._doubtful):
            return
        self._doubtful.discard(broker)
        answer = await self._converse(purpose, _no_topics, None, attempts, change=False)
        self._pool.cluster.update_metadata(answer)

    def _open(self) -> None:
        client_logging.hush("kafka")
        settings = self.connection.for_kafka_python()
        self._tokens = settings.get("sasl_oauth_token_provider")
        self._net = NetworkSelector(client_id="ktui", slow_task_threshold_secs=0)
        self._pool = Pool(
            self._net,
            receive_message_max_bytes=LARGEST_HELLO,
            max_in_flight_requests_per_connection=1_000,
            socket_options=_DROPS_THE_REST if self._changes else _AT_ONCE,
            **settings,
        )
        self._net.start()

    async def _bootstrap(self, purpose: Purpose, attempts: Attempts) -> None:
        addresses = [b.node_id for b in self._pool.cluster.bootstrap_brokers()]
        while chosen := attempts.choose(addresses):
            node, call = chosen
            try:
                answer = await self._once(purpose, _no_topics(), node, call)
            except ClusterError as error:
                attempts.failed(node, error, for_good=True)
            else:
                self._pool.cluster.update_metadata(answer)
                attempts.answered()
                return
        raise attempts.failure or self._nowhere(purpose, None)

    def _nodes(self, broker: int | None, *, change: bool = False) -> list[NodeId]:
        """Give the nodes that may be asked, best first: well ones, connected ones, in any order.

        A change goes to a broker by its id: where its answer is lost, that broker has to be asked
        whether it goes on, and behind a bootstrap address there may be any.
        """
        if broker is not None:
            return [broker] if self._pool.cluster.broker_metadata(broker) else []
        known: list[NodeId] = [b.node_id for b in self._pool.cluster.brokers()]
        random.shuffle(known)
        aside = [b.node_id for b in self._pool.cluster.bootstrap_brokers()]
        if not (change and known):
            known += [n for n in aside if self._connected(n) or self._all_suspect(known)]
        return sorted(known, key=lambda n: (self._suspect(n), not self._connected(n)))

    def _connected(self, node: NodeId) -> bool:
        connection = self._pool._conns.get(node)  # noqa: SLF001 -- asked nowhere else
        return connection is not None and connection.connected

    def _suspect(self, node: NodeId) -> bool:
        return time.monotonic() - self._suspects.get(node, -_SUSPECT_S) < _SUSPECT_S

    def _all_suspect(self, nodes: Collection[NodeId]) -> bool:
        return all(self._suspect(n) for n in nodes)

    def _place(self, purpose: Purpose, node: NodeId) -> CallContext:
        at = self._pool.cluster.broker_metadata(node)
        address = f"{at.host}:{at.port}" if at else "address unknown"
        where = f"broker {node} at {address}" if isinstance(node, int) else address
        known = bool(self._pool.cluster.brokers())
        told = self.connection
        return CallContext(purpose.attempted, where, told.protocol, told.mechanism, known=known)

    def _refusal(
        self, purpose: Purpose, answer: Any, node: NodeId, *, change: bool
    ) -> ClusterError:
        code, message = answer.error_code, getattr(answer, "error_message", None)
        where = self._place(purpose, node).where
        if change and code in error_codes.UNDECIDED:
            return AnswerLost.at(node, purpose.attempted, where, error_codes.words(code, message))
        return error_codes.refusal(
            code, message, attempted=purpose.attempted, where=where, needs=purpose.needs
        )

    def _nowhere(self, purpose: Purpose, broker: int | None) -> ClusterError:
        if broker is None:
            where = ", ".join(self.connection.bootstrap_servers)
            return Unreachable(purpose.attempted, where=where, answer="no broker answered")
        return Unreachable(
            purpose.attempted,
            where=f"broker {broker}",
            answer="the cluster's metadata has no such live broker",
            fix="It may be down; `ktui` shows it again when it registers",
        )


def _no_topics() -> Any:
    return MetadataRequest(topics=[], allow_auto_topic_creation=False, min_version=1)


def _settle(here: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if here.done():
        return
    if error is None:
        here.set_result(value)
    else:
        here.set_exception(error)
