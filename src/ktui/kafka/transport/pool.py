"""kafka-python's connection manager, adapted to the needs of a long-lived view."""

from __future__ import annotations

import errno
import logging
import math
import os
import socket
import ssl
import threading
import time
from typing import Any, Self

import msgspec
from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from kafka.future import Future
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from ktui.cluster.clock import SystemClock

log = logging.getLogger("ktui.kafka.client")


class _Forward(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        log.debug("%s %s: %s", record.levelname, record.name, record.getMessage())


def redirect_client_log(name: str) -> logging.Logger:
    """Route a client's logger to `ktui.kafka.client` at debug level. Idempotent.

    Records below INFO are dropped: kafka-python's print requests, one with the password.
    """
    client = logging.getLogger(name)
    client.propagate = False
    client.setLevel(logging.INFO)
    if not any(isinstance(handler, _Forward) for handler in client.handlers):
        client.addHandler(_Forward())
    return client


_CLOCK = SystemClock()


class SendDeadline(msgspec.Struct, frozen=True):
    """The time after which a request is no longer sent."""

    by_s: float = math.inf  # in seconds, on a clock that runs on while the machine sleeps

    @classmethod
    def within(cls, seconds: float | None) -> Self:
        return cls() if seconds is None else cls(_CLOCK.monotonic() + seconds)

    @property
    def passed(self) -> bool:
        return _CLOCK.monotonic() > self.by_s


ANY_TIME = SendDeadline()


_CONNECTING = frozenset({errno.EINPROGRESS, errno.EALREADY, errno.EWOULDBLOCK})


_READ_BYTES = 64 * 1024
_TURN_BYTES = 1024**2  # bytes read from a connection before the bytes received are examined

LARGEST_HELLO = 1024**2
"""Bytes of an answer before the broker has completed the handshake and accepted our login."""

LARGEST_ANSWER = 256 * 1024**2  # many times the log dirs of a broker with 100,000 replicas


class _BoundedReads:
    """Reads a bounded part at a time, to check the frame's length of an endless sender.

    It also keeps bytes that arrived before the peer hung up, such as the reason of a refusal.
    """

    _sock: Any

    def _sock_recv(self) -> tuple[bytes, Any]:
        received = bytearray()
        if self._sock is None:
            return b"", KafkaConnectionError("closed by ktui")
        while len(received) < _TURN_BYTES or self._decrypted():
            try:
                data = self._sock.recv(_READ_BYTES)
            except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            except OSError as error:
                return bytes(received), None if received else KafkaConnectionError(error)
            if not data:
                closed = KafkaConnectionError("socket disconnected")
                return bytes(received), None if received else closed
            received += data
        return bytes(received), None

    def _decrypted(self) -> bool:
        """Whether TLS holds decrypted bytes, which no wait for the socket would report."""
        return isinstance(self._sock, ssl.SSLSocket) and self._sock.pending() > 0


class _PlainTransport(_BoundedReads, KafkaTCPTransport):  # type: ignore[misc]  # kafka-python is untyped
    """A plaintext connection."""


class _TlsTransport(_BoundedReads, KafkaSSLTransport):  # type: ignore[misc]  # kafka-python is untyped
    """A TLS connection."""


class Pool(KafkaConnectionManager):  # type: ignore[misc]  # kafka-python is untyped
    """One connection per broker, all on one IO thread.

    Unlike its parent it resolves names off that thread, limits the time of a TLS handshake and the
    size of answers (low before the login), closes failed sockets, reads what came before a hang-up,
    and passes errors of the system and of TLS on unchanged.
    """

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        sock = await self._open(node, timeout_at)
        try:
            if not self.ssl_enabled:
                return _PlainTransport(self._net, sock, host=node.host)
            context = self.config["ssl_context"]
            transport = _TlsTransport(self._net, sock, host=node.host, ssl_context=context)
            sock = transport._sock  # noqa: SLF001 -- the wrapped socket, to close it on failure
            await self._handshake(sock, timeout_at)
        except BaseException:
            sock.close()
            raise
        return transport

    async def _open(self, node: Any, timeout_at: float | None) -> socket.socket:
        """Connect to the node's first address that answers; each gets a share of the time."""
        failure: Exception = KafkaConnectionError("no address")
        found = await self._resolve(node.host, node.port)
        for tried, (family, kind, protocol, _, address) in enumerate(found):
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(0)
                for option in self.config["socket_options"]:
                    sock.setsockopt(*option)
                await self._connect_socket(sock, address, _share(timeout_at, len(found) - tried))
            except (OSError, KafkaTimeoutError) as error:
                sock.close()
                failure = error
            except BaseException:
                sock.close()
                raise
            else:
                return sock
        raise failure

    async def _connect_socket(
        self, sock: socket.socket, address: Any, timeout_at: float | None
    ) -> None:
        code = sock.connect_ex(address)
        if code in _CONNECTING:
            await self._net.wait_write(sock, timeout_at=timeout_at)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))

    async def _handshake(self, sock: ssl.SSLSocket, timeout_at: float | None) -> None:
        while True:
            try:
                return sock.do_handshake()
            except ssl.SSLWantReadError:
                await self._net.wait_read(sock, timeout_at=timeout_at)
            except ssl.SSLWantWriteError:
                await self._net.wait_write(sock, timeout_at=timeout_at)

    def _resolve(self, host: str, port: int) -> Any:
        answer = Future()
        try:
            numeric = socket.AI_NUMERICHOST
            return answer.success(socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM, 0, numeric))
        except socket.gaierror:
            threading.Thread(
                target=self._look_up, args=(host, port, answer), name=f"resolve-{host}", daemon=True
            ).start()
            return answer

    def _look_up(self, host: str, port: int, answer: Any) -> None:
        try:
            found = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)
        except Exception as error:  # noqa: BLE001 - also a name that cannot be encoded
            answer.failure(error)
        else:
            answer.success(found)
        self._net.wakeup()

    async def exchange(self, node: int | str, request: Any, call: Call) -> Any:
        # Ask each broker for its own versions: brokers differ during a rolling upgrade.
        self.broker_version_data = None
        # The caller bounds its attempts. Waiting here would only hide why the last one failed.
        self.reset_backoff(node)
        connection = self.get_connection(
            node, timeout_ms=call.left_s() * 1000, refresh_metadata_on_err=False
        )
        call.connection = connection
        await connection
        call.accepted = True
        connection.parser._max_frame_size = LARGEST_ANSWER  # noqa: SLF001 -- there is no public way
        while connection.paused and connection.connected:
            if call.left_s() <= 0:
                raise KafkaTimeoutError("the broker throttles this client's requests")
            await self._net.sleep(0.02)
        if not call.leave():
            raise KafkaTimeoutError("given up before it was sent")
        limit_ms = max(1.0, call.left_s() * 1000)
        try:
            answer = connection.send_request(request, request_timeout_ms=limit_ms)
        except Exception:
            call.came_back()  # it could not be encoded
            raise
        if answer.failed():
            call.came_back()
        return await answer

    def drop_all(self) -> None:
        for connection in list(self._conns.values()):
            connection.close(KafkaConnectionError("closed by ktui"))
        self.close()


def _share(timeout_at: float | None, addresses: int) -> float | None:
    if timeout_at is None:
        return None
    now = time.monotonic()
    return now + (timeout_at - now) / addresses


class Call:
    """The progress of one request, shared by the IO thread and the thread that waits."""

    def __init__(self, limit_s: float, deadline: SendDeadline = ANY_TIME) -> None:
        self._until = time.monotonic() + limit_s
        self._deadline = deadline
        self._lock = threading.Lock()
        self._abandoned = False
        self.left = False  # whether the request may have reached the broker
        self.connection: Any = None
        self.accepted = False  # whether the broker has completed the handshake and accepted us

    @property
    def reached(self) -> bool:
        """Whether the peer accepted our connection, TLS included; it may be closed again."""
        return self.connection is not None and self.connection.parser is not None

    def left_s(self) -> float:
        return self._until - time.monotonic()

    def leave(self) -> bool:
        """Decide to send the request; False if the caller has given up, or it is too late."""
        with self._lock:
            self.left = not (self._abandoned or self._deadline.passed)
            return self.left

    def came_back(self) -> None:
        """Record that the client refused the request before it sent a byte."""
        with self._lock:
            self.left = False

    def abandon(self) -> None:
        """Give up waiting: a request that has not left by now never will."""
        with self._lock:
            self._abandoned = True
