"""Java stores and PEM files: refused with a ready command that converts them."""

from __future__ import annotations

import re
import socket
import subprocess
from pathlib import Path

import pytest

from ktui.cluster.errors import AuthenticationFailed
from ktui.kafka.capabilities import probe_confluent, probe_kafka_python
from ktui.kafka.connection.connection import Connection
from ktui.kafka.connection.properties import ConnectionProblem
from ktui.lab.layout import Lab

PASSWORD = "changeit"  # noqa: S105 -- of stores made here


def refused(file: Path) -> ConnectionProblem:
    with pytest.raises(ConnectionProblem) as caught:
        Connection.of(command_config=file)
    return caught.value


def run(command: str, stdin: str) -> None:
    """Run a shell line without a terminal, so that its prompts are answered from `stdin`."""
    done = subprocess.run(
        ["setsid", "--wait", "sh", "-c", command],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr + done.stdout


def suggested_command(problem: ConnectionProblem) -> str:
    found = re.search(r"`(.+)`", problem.fix)
    assert found is not None
    return found[1]


@pytest.fixture
def identity(ssl_lab: Lab, tmp_path: Path) -> Path:
    """The admin's key and certificates as PKCS12."""
    store = tmp_path / "admin.p12"
    pem = ssl_lab.certificates / "admin.pem"
    run(f"openssl pkcs12 -export -in {pem} -out {store} -passout pass:{PASSWORD}", "")
    return store


def trust(ssl_lab: Lab, store: Path, kind: str) -> None:
    authority = ssl_lab.certificates / "ca.pem"
    run(
        f"keytool -importcert -noprompt -alias ca -file {authority} -keystore {store} "
        f"-storetype {kind} -storepass {PASSWORD}",
        "",
    )


@pytest.mark.parametrize(("kind", "name"), [("JKS", "trust.jks"), ("PKCS12", "trust.p12")])
@pytest.mark.parametrize("typed", [True, False])
async def test_a_java_trust_store_is_refused_with_the_command_that_converts_it(
    ssl_lab: Lab,
    tmp_path: Path,
    kind: str,
    name: str,
    typed: bool,  # noqa: FBT001 -- a parameter of the test
) -> None:
    store, file = tmp_path / name, tmp_path / "client.properties"
    trust(ssl_lab, store, kind)
    admin = ssl_lab.certificates / "admin.pem"
    begin = (
        f"bootstrap.servers={ssl_lab.bootstrap_servers}\nsecurity.protocol=SSL\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={admin}\n"
    )
    stored = f"ssl.truststore.type={kind}\n" if typed else ""
    file.write_text(
        f"{begin}{stored}ssl.truststore.location={store}\nssl.truststore.password={PASSWORD}\n"
    )

    problem = refused(file)

    assert problem.key == "ssl.truststore.location"
    assert problem.where == f"{file}:{6 if typed else 5}"
    assert f"a {kind} store cannot be read without Java" in str(problem)
    assert PASSWORD not in str(problem)

    run(suggested_command(problem), f"{PASSWORD}\n")
    pem = store.with_suffix(".pem")
    file.write_text(f"{begin}ssl.truststore.type=PEM\nssl.truststore.location={pem}\n")
    for probe in (probe_kafka_python, probe_confluent):
        assert (await probe(Connection.of(command_config=file))).error is None


async def test_a_java_key_store_is_refused_with_the_command_that_converts_it(
    ssl_lab: Lab, tmp_path: Path, identity: Path
) -> None:
    file = tmp_path / "client.properties"
    begin = (
        f"bootstrap.servers={ssl_lab.bootstrap_servers}\nsecurity.protocol=SSL\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={ssl_lab.certificates / 'ca.pem'}\n"
    )
    file.write_text(f"{begin}ssl.keystore.type=PKCS12\nssl.keystore.location={identity}\n")

    problem = refused(file)

    # The pass phrases that a person types at the prompts are passed as options.
    options = f" -passin pass:{PASSWORD} -passout pass:open-up"
    run(suggested_command(problem) + options, "")
    pem = identity.with_suffix(".pem")
    begin += f"ssl.keystore.type=PEM\nssl.keystore.location={pem}\n"

    file.write_text(begin)
    assert "the key is encrypted" in str(refused(file))

    file.write_text(f"{begin}ssl.key.password=wr0ng-horse\n")
    assert "does not open the key" in str(refused(file))
    assert "wr0ng-horse" not in str(refused(file))

    file.write_text(f"{begin}ssl.key.password=open-up\n")
    for probe in (probe_kafka_python, probe_confluent):
        assert (await probe(Connection.of(command_config=file))).error is None


def test_a_jks_key_store_is_converted_by_way_of_pkcs12(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=a:1\nssl.keystore.location=/etc/kafka/client.jks\n")

    command = suggested_command(refused(file))

    assert command == (
        "keytool -importkeystore -srckeystore /etc/kafka/client.jks "
        "-destkeystore /etc/kafka/client.p12 -deststoretype PKCS12"
        " && openssl pkcs12 -in /etc/kafka/client.p12 -out /etc/kafka/client.pem"
    )


async def test_pem_on_one_line_of_a_java_file_is_read(ssl_lab: Lab, tmp_path: Path) -> None:
    pem = (ssl_lab.certificates / "admin.pem").read_text()
    key = re.search(r"-----BEGIN PRIVATE KEY-----.*?-----END PRIVATE KEY-----", pem, re.DOTALL)
    chain = re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", pem, re.DOTALL)
    assert key is not None
    authority = (ssl_lab.certificates / "ca.pem").read_text()
    file = tmp_path / "client.properties"
    file.write_text(
        f"bootstrap.servers={ssl_lab.bootstrap_servers}\nsecurity.protocol=SSL\n"
        "ssl.truststore.type=PEM\nssl.keystore.type=PEM\n"
        f"ssl.truststore.certificates={' '.join(authority.split())}\n"
        f"ssl.keystore.certificate.chain={' '.join(' '.join(chain).split())}\n"
        f"ssl.keystore.key={' '.join(key[0].split())}\n"
    )

    for probe in (probe_kafka_python, probe_confluent):
        assert (await probe(Connection.of(command_config=file))).error is None


def ssl_settings(lab: Lab, **changes: object) -> dict[str, object]:
    folder = lab.certificates
    return {
        "bootstrap.servers": lab.bootstrap_servers,
        "security.protocol": "SSL",
        "ssl.ca.location": str(folder / "ca.pem"),
        "ssl.certificate.location": str(folder / "admin.pem"),
        "ssl.key.location": str(folder / "admin.pem"),
        **{key.replace("_", "."): value for key, value in changes.items()},
    }


def test_a_key_of_another_certificate_is_rejected(ssl_lab: Lab) -> None:
    other = str(ssl_lab.certificates / "viewer.pem")

    with pytest.raises(ConnectionProblem, match="the key is not this certificate's"):
        Connection.of(ssl_settings(ssl_lab, ssl_key_location=other))


@pytest.mark.parametrize("key", ["ssl.ca.location", "ssl.certificate.location"])
def test_a_file_that_is_not_pem_is_rejected(ssl_lab: Lab, tmp_path: Path, key: str) -> None:
    rubbish = tmp_path / "rubbish.pem"
    rubbish.write_text("not a certificate")

    with pytest.raises(ConnectionProblem) as caught:
        Connection.of(ssl_settings(ssl_lab, **{key.replace(".", "_"): str(rubbish)}))

    assert caught.value.key == key
    assert "-----BEGIN CERTIFICATE-----" in str(caught.value)


def test_a_missing_pem_file_is_named(ssl_lab: Lab) -> None:
    with pytest.raises(ConnectionProblem, match=r"/no/such/ca\.pem: No such file"):
        Connection.of(ssl_settings(ssl_lab, ssl_ca_location="/no/such/ca.pem"))


def test_a_certificate_without_its_key_is_rejected(ssl_lab: Lab) -> None:
    settings = ssl_settings(ssl_lab)
    del settings["ssl.key.location"]

    with pytest.raises(ConnectionProblem, match=r"ssl\.key\.location"):
        Connection.of(settings)


async def test_a_certificate_for_another_host_is_rejected_unless_names_are_not_verified(
    ssl_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = socket.getaddrinfo

    def elsewhere(host: str, port: int, *more: int) -> object:
        return resolve("127.0.0.1" if host == "elsewhere.example.org" else host, port, *more[:4])

    monkeypatch.setattr(socket, "getaddrinfo", elsewhere)
    address = f"elsewhere.example.org:{ssl_lab.brokers[0].port}"
    settings = ssl_settings(ssl_lab, bootstrap_servers=address)

    strict = await probe_kafka_python(Connection.of(settings))
    settings["ssl.endpoint.identification.algorithm"] = "none"
    lenient = await probe_kafka_python(Connection.of(settings))

    assert type(strict.error) is AuthenticationFailed
    assert "elsewhere.example.org" in strict.error.answer
    assert "Connect by a name that is in the certificate" in strict.error.fix
    assert "ssl.endpoint.identification.algorithm" not in strict.error.fix  # never turn it off
    assert lenient.error is None
