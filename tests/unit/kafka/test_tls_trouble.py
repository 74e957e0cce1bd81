"""TLS problems are reported with a fix that never turns a protection off."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator

import pytest

from ktui.cluster.errors import AuthenticationFailed, ClusterError, NotKafka
from ktui.kafka.connection.connection import Connection
from ktui.kafka.probe import probe_confluent
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
