"""TLS and OAuth: what goes wrong, in one sentence each."""

import base64
import contextlib
import http.server
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest

from ktui.cluster.errors import AuthenticationFailed, ClusterError, NotKafka, Unreachable
from ktui.kafka.capabilities import probe_confluent
from ktui.kafka.connection.connection import Connection
from ktui.kafka.connection.oauth import ClientCredentials
from ktui.kafka.connection.properties import Secret
from ktui.kafka.reader import KafkaReader
from support.kafka.certificates import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@contextlib.contextmanager
def broker(tls: ssl.SSLContext) -> Iterator[int]:
    """Shake hands with every client; yield the port."""

    def serve() -> None:
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), peer, tls.wrap_socket(peer, server_side=True):
                pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


async def failure(
    authority: Authority, tls: ssl.SSLContext, host: str = "127.0.0.1"
) -> ClusterError:
    """Return the error of connecting to a broker that shakes hands with these settings."""
    with broker(tls) as port:
        settings = {
            "bootstrap.servers": f"{host}:{port}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(authority.pem),
        }
        reader = KafkaReader(Connection.of(settings))
        with pytest.raises(ClusterError) as caught:
            await reader.list_reassignments()
        await reader.aclose()
    return caught.value


@pytest.mark.parametrize(
    ("names", "host", "entry"),
    [
        ("DNS:kafka-1", "127.0.0.1", "IP:127.0.0.1"),
        ("DNS:kafka-1,IP:10.0.0.1", "127.0.0.1", "IP:127.0.0.1"),
        ("DNS:kafka-1", "localhost", "DNS:localhost"),
    ],
)
async def test_a_certificate_for_other_names_is_reported_with_the_names_to_use_or_add(
    authority: Authority, names: str, host: str, entry: str
) -> None:
    error = await failure(authority, authority.context(names), host)

    assert type(error) is AuthenticationFailed
    assert error.answer.endswith(f"mismatch, certificate is not valid for '{host}'")
    assert "Connect by a name that is in the certificate" in error.fix
    assert f"reissued with {entry} among its subject alternative names" in error.fix
    assert "algorithm" not in error.fix
    assert "none" not in error.fix


@pytest.mark.parametrize(
    ("begins_h", "ends_h", "answer", "fix"),
    [
        (-3, -1, "certificate has expired", "Renew the broker's certificate"),
        (1, 3, "certificate is not yet valid", "Check this machine's clock"),
    ],
)
async def test_an_expired_or_early_certificate_is_reported_with_a_hint_at_the_clock(
    authority: Authority, begins_h: float, ends_h: float, answer: str, fix: str
) -> None:
    tls = authority.context("IP:127.0.0.1", begins_h=begins_h, ends_h=ends_h)

    error = await failure(authority, tls)

    assert type(error) is AuthenticationFailed
    assert error.answer == answer
    assert fix in error.fix
    assert "clock" in error.fix


async def test_the_second_client_reports_a_bad_certificate_as_a_failed_login_too(
    authority: Authority,
) -> None:
    with broker(authority.context("DNS:kafka-1")) as port:
        settings = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(authority.pem),
        }
        probe = await probe_confluent(Connection.of(settings))

    assert type(probe.error) is AuthenticationFailed
    assert "certificate verify failed" in probe.error.answer


async def test_a_certificate_of_an_unknown_authority_is_reported_with_its_setting(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Authority(tmp_path_factory.mktemp("other"))

    error = await failure(authority, other.context("IP:127.0.0.1"))

    assert "Set ssl.ca.location" in error.fix


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
async def test_a_broker_with_only_old_tls_is_reported_with_the_broker_setting_to_change(
    authority: Authority,
) -> None:
    tls = authority.context("IP:127.0.0.1")
    tls.set_ciphers("ALL:@SECLEVEL=0")
    tls.minimum_version = ssl.TLSVersion.TLSv1
    tls.maximum_version = ssl.TLSVersion.TLSv1_1

    error = await failure(authority, tls)

    assert type(error) is NotKafka
    assert "TLS 1.1 or older" in error.fix
    assert "ssl.enabled.protocols=TLSv1.2,TLSv1.3 on the broker" in error.fix
    assert "PLAINTEXT" not in error.fix


async def test_a_broker_that_requires_a_client_certificate_is_reported_with_its_setting(
    authority: Authority,
) -> None:
    tls = authority.context("IP:127.0.0.1")
    tls.verify_mode, tls.maximum_version = ssl.CERT_REQUIRED, ssl.TLSVersion.TLSv1_2

    error = await failure(authority, tls)

    assert type(error) is AuthenticationFailed
    assert "wants a certificate (ssl.certificate.location)" in error.fix


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("enable.ssl.certificate.verification", "false"),
        ("ssl.endpoint.identification.algorithm", "none"),
    ],
)
def test_a_check_that_tls_skips_is_reported_with_its_setting_and_its_source(
    setting: str, value: str
) -> None:
    settings = {"bootstrap.servers": "kafka-1:9093", "security.protocol": "SSL", setting: value}

    (warning,) = Connection.of(settings, where="config.yaml, context prod").unverified
    in_the_clear = Connection.of({**settings, "security.protocol": "PLAINTEXT"})
    verified = Connection.of({**settings, setting: {"none": "https", "false": "true"}[value]})

    assert warning.startswith(f"config.yaml, context prod: {setting}={value}: ")
    assert "can pose as a broker" in warning
    assert in_the_clear.unverified == ()
    assert verified.unverified == ()


SECRET = "xK9-hunter2-Qz7"  # noqa: S105 -- what the tests search for


class Endpoint(http.server.ThreadingHTTPServer):
    """A token endpoint that answers what a test wants."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        self.status = 200
        self.headers: dict[str, str] = {}
        self.body: Any = {"access_token": "tok-1", "expires_in": 3600}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/token"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append((self.headers["Authorization"], parse_qs(form)))
        body = self.server.body
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(data)))
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- http.server's name
        """Log nothing."""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def credentials(url: str) -> ClientCredentials:
    return ClientCredentials(url, "ktui:1", Secret(SECRET), scope="kafka", extensions={"a": "b"})


def test_a_token_request_follows_the_standard(endpoint: Endpoint) -> None:
    assert credentials(endpoint.url).token() == "tok-1"

    ((authorization, form),) = endpoint.asked
    scheme, _, pair = authorization.partition(" ")
    assert scheme == "Basic"
    assert base64.b64decode(pair).decode() == f"ktui%3A1:{SECRET}"
    assert form == {"grant_type": ["client_credentials"], "scope": ["kafka"]}


def test_a_fresh_token_is_kept(endpoint: Endpoint) -> None:
    provider = credentials(endpoint.url)

    assert [provider.token() for _ in range(3)] == ["tok-1"] * 3
    assert len(endpoint.asked) == 1


def test_a_stale_token_is_replaced(endpoint: Endpoint) -> None:
    provider = credentials(endpoint.url)
    endpoint.body = {"access_token": "tok-1", "expires_in": 0}
    provider.token()
    endpoint.body = {"access_token": "tok-2", "expires_in": 3600}

    assert provider.token() == "tok-2"


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (401, {"error": "invalid_client"}, AuthenticationFailed, "HTTP 401"),
        (200, {"token_type": "Bearer"}, AuthenticationFailed, "no access_token"),
        (200, ["tok"], AuthenticationFailed, "no access_token"),
        (200, b"<html>", AuthenticationFailed, "not JSON"),
        pytest.param(200, b"[" * 100_000, AuthenticationFailed, "not JSON", id="nested"),
        pytest.param(200, b" " * 2**21, AuthenticationFailed, "larger than 1 MiB", id="large"),
    ],
)
def test_an_endpoint_without_a_token_is_reported_with_its_address(
    endpoint: Endpoint, status: int, body: object, kind: type[ClusterError], words: str
) -> None:
    endpoint.status, endpoint.body = status, body

    with pytest.raises(kind) as caught:
        credentials(endpoint.url).token()

    assert caught.value.where == endpoint.url
    assert words in caught.value.answer
    assert SECRET not in f"{caught.value} {vars(caught.value)}"


@pytest.mark.parametrize(
    "lifetime",
    [b"NaN", b"Infinity", b"1" + b"0" * 400, b"-9e999", b'"1h"', b"null"],
    ids=["nan", "infinite", "huge", "negative", "text", "null"],
)
def test_a_token_with_a_malformed_lifetime_is_accepted(endpoint: Endpoint, lifetime: bytes) -> None:
    endpoint.body = b'{"access_token": "tok-1", "expires_in": ' + lifetime + b"}"

    assert credentials(endpoint.url).token() == "tok-1"


def test_an_endpoint_that_does_not_speak_http_is_reported_with_its_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/token"
        threading.Thread(target=_garbage, args=(server,), daemon=True).start()

        with pytest.raises(AuthenticationFailed) as caught:
            credentials(url).token()

    assert (caught.value.where, caught.value.answer) == (url, "the answer is not HTTP")


def _garbage(server: socket.socket) -> None:
    with server.accept()[0] as client:
        client.recv(65_536)
        client.sendall(b"\x15\x03\x01 garbage\n")


@pytest.mark.parametrize("status", [301, 302, 303])
def test_the_secret_does_not_follow_a_redirect(endpoint: Endpoint, status: int) -> None:
    endpoint.status, endpoint.headers = status, {"Location": "http://127.0.0.1:1/elsewhere"}

    with pytest.raises(AuthenticationFailed, match=f"HTTP {status}"):
        credentials(endpoint.url).token()


async def test_an_endpoint_that_is_down_is_reported_instead_of_the_cluster() -> None:
    connection = Connection.of(
        {
            "bootstrap.servers": "127.0.0.1:9",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
            "sasl.oauthbearer.client.id": "ktui",
            "sasl.oauthbearer.client.secret": SECRET,
        }
    )
    reader = KafkaReader(connection, timeout_s=5)

    with pytest.raises(Unreachable) as caught:
        await reader.list_reassignments()
    await reader.aclose()

    assert caught.value.attempted == "fetching an OAuth token"
    assert caught.value.where == "http://127.0.0.1:1/token"
    assert SECRET not in f"{caught.value} {connection!r}"


def test_oauth_extensions_are_passed_on() -> None:
    assert credentials("http://127.0.0.1:1").extensions() == {"a": "b"}
