"""A bootstrap address without Kafka is reported at once, with the address and a fix."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from kafka.protocol.metadata import ApiVersionsResponse
from kafka.protocol.sasl import SaslHandshakeResponse

from ktui.cluster.errors import AuthenticationFailed, ClusterError, NotKafka, TimedOut, Unreachable
from ktui.kafka.capabilities import probe_confluent
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from support.kafka.certificates import Authority

_API = ApiVersionsResponse.ApiVersion
_FIELDS: dict[type, dict[str, object]] = {
    ApiVersionsResponse: {
        "api_keys": [
            _API(version=4, api_key=key, min_version=0, max_version=high)
            for key, high in ((18, 4), (17, 1), (36, 2), (3, 12))
        ]
    },
    SaslHandshakeResponse: {"mechanisms": ["GSSAPI"]},
}

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def answer_next(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Any
) -> None:
    """Answer the next request as Kafka does."""
    size = int.from_bytes(await reader.readexactly(4), "big")
    asked = await reader.readexactly(size)
    version = int.from_bytes(asked[2:4], "big")
    response = answer(version=version, error_code=0, **_FIELDS[answer])
    frame = asked[4:8] + response.encode()
    writer.write(len(frame).to_bytes(4, "big") + frame)
    await writer.drain()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@contextlib.asynccontextmanager
async def listening(talk: Talk, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server that is not Kafka."""

    talks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talks.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await talk(reader, writer)
        finally:
            writer.transport.abort()
            talks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in list(talks):
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)


def free_addresses(count: int) -> list[str]:
    """Return addresses with no listener."""
    with contextlib.ExitStack() as held:
        taken = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in taken]


async def failure(
    address: str, *, timeout_s: float = 20, security: dict[str, object] | None = None
) -> ClusterError:
    """Return the error that listing reassignments through this address raises."""
    connection = Connection.of({"bootstrap.servers": address, **(security or {})})
    reader = KafkaReader(connection, timeout_s=timeout_s)
    with pytest.raises(ClusterError) as caught:
        await reader.list_reassignments()
    await reader.aclose()
    assert not [t for t in threading.enumerate() if t.name.startswith("kafka-io")]
    return caught.value


async def test_a_closed_port_is_reported_as_connection_refused() -> None:
    (address,) = free_addresses(1)

    error = await failure(address)

    assert type(error) is Unreachable
    assert str(error) == (
        f"listing reassignments ({address}): no answer: connection refused. "
        "Check host and port, and that the broker runs"
    )


async def test_an_unknown_host_is_reported_with_its_name() -> None:
    error = await failure("no-such-host.invalid:9092")

    assert type(error) is Unreachable
    assert error.where == "no-such-host.invalid:9092"
    assert error.fix == "Check the host name"


async def test_an_error_of_several_addresses_names_them_all() -> None:
    one, other = free_addresses(2)

    error = await failure(f"{one},{other}")

    assert set(error.where.split(", ")) == {one, other}


async def test_a_specific_error_of_one_address_outranks_dead_addresses() -> None:
    async def web_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    dead, other = free_addresses(2)
    async with listening(web_server) as address:
        error = await failure(f"{dead},{address},{other}")

    assert type(error) is NotKafka
    assert error.where == address


@pytest.mark.parametrize("greeting", ["HTTP/1.1 400 Bad Request", "SSH-2.0-OpenSSH", "220 mail"])
async def test_a_server_of_another_protocol_is_reported_with_its_greeting(greeting: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(greeting.encode() + b"\r\n\r\n")
        await writer.drain()
        await reader.read()

    async with listening(talk) as address:
        error = await failure(address)

    assert type(error) is NotKafka
    assert error.where == address
    assert repr(greeting[:4]) in error.answer
    assert "Check the port" in error.fix


async def test_a_server_that_hangs_up_is_reported_with_a_hint_at_tls() -> None:
    async def talk(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read(1)

    async with listening(talk) as address:
        error = await failure(address)

    assert type(error) is NotKafka
    assert "closed the connection before its first answer" in error.answer
    assert "security.protocol=SSL" in error.fix


async def test_a_silent_server_is_reported_as_a_timeout() -> None:
    async def talk(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with listening(talk) as address:
        error = await failure(address, timeout_s=0.5)

    assert type(error) is TimedOut
    assert error.where == address
    assert "sent nothing" in error.answer


async def test_a_plaintext_server_is_reported_where_tls_was_configured() -> None:
    async def talk(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)  # as a broker does, which takes TLS for a huge request

    async with listening(talk) as address:
        error = await failure(address, security={"security.protocol": "SSL"})

    assert type(error) is NotKafka
    assert "security.protocol=PLAINTEXT" in error.fix


async def test_a_server_that_is_silent_to_tls_is_reported() -> None:
    async def talk(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()
        await asyncio.Event().wait()

    async with listening(talk) as address:
        error = await failure(address, timeout_s=0.5, security={"security.protocol": "SSL"})

    assert isinstance(error, TimedOut | Unreachable)
    assert error.where == address


async def test_a_server_that_answers_garbage_is_reported_as_not_kafka() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"\0\0\0\x08" + b"\xff" * 8)
        await writer.drain()
        await reader.read()

    async with listening(talk) as address:
        error = await failure(address)

    assert type(error) is NotKafka


LARGEST = (2**31 - 1).to_bytes(4, "big")
NEGATIVE = (2**31).to_bytes(4, "big")
LARGE_FOR_A_HELLO = (200 * 1024**2).to_bytes(4, "big")


@pytest.mark.parametrize(
    ("prefix", "hello", "tls"),
    [
        (LARGEST, False, False),
        (LARGEST, False, True),
        (LARGEST, True, False),
        (NEGATIVE, False, False),
        (LARGE_FOR_A_HELLO, False, False),
    ],
)
async def test_a_huge_answer_is_abandoned_at_its_first_bytes(
    authority: Authority, *, prefix: bytes, hello: bool, tls: bool
) -> None:
    sent = 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        if hello:
            await answer_next(reader, writer, ApiVersionsResponse)
        await reader.read(1)
        writer.write(prefix)
        while sent < 128 * 1024**2:
            writer.write(bytes(65_536))
            await writer.drain()
            await asyncio.sleep(0)  # lets the loop hear that the other end has hung up
            sent += 65_536

    security: dict[str, object] = {
        "security.protocol": "SSL" if tls else "PLAINTEXT",
        "ssl.ca.location": str(authority.pem),
    }
    server = authority.context("IP:127.0.0.1") if tls else None
    async with listening(endless, server) as address:
        error = await failure(address, security=security)

    assert type(error) is NotKafka
    assert f"{int.from_bytes(prefix, 'big', signed=True):,} bytes, which is too large" in str(error)
    assert sent < 32 * 1024**2, "more than the buffers of the two sockets take was read"


async def test_the_second_client_reports_a_closed_port_too() -> None:
    (address,) = free_addresses(1)

    probe = await probe_confluent(Connection.to(address))

    assert probe.client.startswith("confluent-kafka ")
    assert probe.cluster_id is None
    assert type(probe.error) is Unreachable
    assert probe.error.where == address


async def test_a_login_library_that_is_missing_is_reported_by_each_client() -> None:
    async def kafka_that_takes_any_login(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        for answer in (ApiVersionsResponse, SaslHandshakeResponse):
            await answer_next(reader, writer, answer)
        await reader.read()

    security: dict[str, object] = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
    }
    async with listening(kafka_that_takes_any_login) as address:
        ours = await failure(address, security=security)
        theirs = (
            await probe_confluent(Connection.of({"bootstrap.servers": address, **security}))
        ).error

    assert type(ours) is AuthenticationFailed
    assert "GSSAPI" in ours.answer
    assert "kinit" in ours.fix
    assert type(theirs) is AuthenticationFailed
    assert "GSSAPI" in theirs.answer
