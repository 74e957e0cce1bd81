"""kafka-python's connection manager with the few habits that a long-lived view needs."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import threading
import time
from typing import Any

from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from kafka.future import Future
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from ktui.kafka.transport.send_deadline import ANY_TIME, SendDeadline

_PENDING = frozenset({errno.EINPROGRESS, errno.EALREADY, errno.EWOULDBLOCK})


_READ_BYTES = 64 * 1024
_TURN_BYTES = 1024**2
"""What is read of a connection before what came is looked at."""

LARGEST_HELLO = 1024**2
"""Bytes of an answer before the broker has said hello and accepted who we are."""

LARGEST_ANSWER = 256 * 1024**2
"""Bytes: the log dirs of a broker with 100,000 replicas fit many times over."""


class _Bounded:
    """Reads a bounded part of what came, so that its length is judged before there is more.

    kafka-python reads for as long as something comes: one that sends without end, faster than it is
    read, is never judged. What came before the other end hung up is taken, too; kafka-python would
    drop it: a broker that refuses a password says why and hangs up, and both may arrive together.
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
        """Whether there is more that no wait for the socket would tell of."""
        return isinstance(self._sock, ssl.SSLSocket) and self._sock.pending() > 0


class _Plain(_Bounded, KafkaTCPTransport):  # type: ignore[misc]  # kafka-python is untyped
    """A connection in the clear."""


class _Tls(_Bounded, KafkaSSLTransport):  # type: ignore[misc]  # kafka-python is untyped
    """A connection with TLS."""


class Pool(KafkaConnectionManager):  # type: ignore[misc]  # kafka-python is untyped
    """One connection per broker, all on one IO thread.

    Differs from its parent in how a socket is opened: names are resolved off the IO thread, so that
    a slow resolver holds up nobody else; a TLS handshake has a time limit; a socket that fails is
    closed; what a broker says before it hangs up is heard; the operating system's and TLS's own
    errors come through as they are; and no more than a little is taken in of an answer that is
    larger than may be, which before the hello is no large one.
    """

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        """Open a connection to `node`, in the clear or with TLS, and shake hands."""
        sock = await self._open(node, timeout_at)
        try:
            if not self.ssl_enabled:
                return _Plain(self._net, sock, host=node.host)
            context = self.config["ssl_context"]
            transport = _Tls(self._net, sock, host=node.host, ssl_context=context)
            sock = transport._sock  # noqa: SLF001 -- the wrapped socket, to close it on failure
            await self._handshake(sock, timeout_at)
        except BaseException:
            sock.close()
            raise
        return transport

    async def _open(self, node: Any, timeout_at: float | None) -> socket.socket:
        """Connect to the first address of the node that answers, each given its share of time."""
        failure: Exception = KafkaConnectionError("no address")
        found = await self._resolve(node.host, node.port)
        for at, (family, kind, protocol, _, address) in enumerate(found):
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(0)
                for option in self.config["socket_options"]:
                    sock.setsockopt(*option)
                await self._reach(sock, address, _share(timeout_at, len(found) - at))
            except (OSError, KafkaTimeoutError) as error:
                sock.close()
                failure = error
            except BaseException:
                sock.close()
                raise
            else:
                return sock
        raise failure

    async def _reach(self, sock: socket.socket, address: Any, timeout_at: float | None) -> None:
        code = sock.connect_ex(address)
        if code in _PENDING:
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
        """Give a kafka-python Future of the addresses of a host."""
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
        except OSError as error:
            answer.failure(error)
        else:
            answer.success(found)
        self._net.wakeup()

    async def exchange(self, node: int | str, request: Any, call: Call) -> Any:
        """Send one request to one node and give its answer; runs on the IO thread."""
        # Each broker is asked for its own versions: brokers differ during a rolling upgrade.
        self.broker_version_data = None
        # The caller bounds its attempts; waiting here would only hide why the last one failed.
        self.reset_backoff(node)
        connection = self.get_connection(
            node, timeout_ms=call.left_s() * 1000, refresh_metadata_on_err=False
        )
        call.connection = connection
        await connection
        call.accepted = True
        connection.parser._max_frame_size = LARGEST_ANSWER  # noqa: SLF001 -- it has no other way
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
        """Close every connection at once; runs on the IO thread."""
        for connection in list(self._conns.values()):
            connection.close(KafkaConnectionError("closed by ktui"))
        self.close()


def _share(timeout_at: float | None, addresses: int) -> float | None:
    """Give the time by which the next of so many addresses must have answered."""
    if timeout_at is None:
        return None
    now = time.monotonic()
    return now + (timeout_at - now) / addresses


class Call:
    """How far one request has come, told between the IO thread and the one that waits."""

    def __init__(self, limit_s: float, leave: SendDeadline = ANY_TIME) -> None:
        self._until = time.monotonic() + limit_s
        self._leave = leave
        self._lock = threading.Lock()
        self._abandoned = False
        self.left = False
        """Whether the request may have reached the broker."""
        self.connection: Any = None
        """The connection, from when it is being made."""
        self.accepted = False
        """Whether the broker has said hello and accepted who we are."""

    @property
    def reached(self) -> bool:
        """Whether anything took our connection, TLS included; it may be closed again."""
        return self.connection is not None and self.connection.parser is not None

    def left_s(self) -> float:
        """Seconds left of the call's limit."""
        return self._until - time.monotonic()

    def leave(self) -> bool:
        """Take the decision to send; False if the one who waits has given up, or it is too late."""
        with self._lock:
            self.left = not (self._abandoned or self._leave.passed)
            return self.left

    def came_back(self) -> None:
        """Note that the client refused the request before a byte of it was sent."""
        with self._lock:
            self.left = False

    def abandon(self) -> None:
        """Give up waiting: what has not left by now never will."""
        with self._lock:
            self._abandoned = True
