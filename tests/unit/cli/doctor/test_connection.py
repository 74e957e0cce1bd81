"""The doctor judges a connection and the secrets that it uses."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ktui.cli.main import ktui
from support.kafka.certificates import Authority


@pytest.fixture
def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def connection(address: str, folder: Path, *lines: str) -> list[dict[str, Any]]:
    """Return the findings of the doctor on the connection of a client file."""
    file = folder / "client.properties"
    file.write_text("\n".join((f"bootstrap.servers={address}", *lines)))
    file.chmod(0o600)
    done = CliRunner().invoke(ktui, ["doctor", "--command-config", str(file), "--json"])
    found: list[dict[str, Any]] = json.loads(done.stdout)["connection"]
    return found


def test_the_doctor_warns_of_each_setting_that_turns_tls_verification_off(
    tmp_path: Path, closed_port: str
) -> None:
    unverified = "enable.ssl.certificate.verification=false"
    unchecked_names = "ssl.endpoint.identification.algorithm="

    found = connection(closed_port, tmp_path, "security.protocol=SSL", unverified, unchecked_names)

    warnings = [finding for finding in found if finding["level"] == "warning"]
    client_file = tmp_path / "client.properties"
    assert [warning["what"].split(": anyone")[0] for warning in warnings] == [
        f"TLS unverified: {client_file}:3: {unverified}",
        f"TLS unverified: {client_file}:4: {unchecked_names}none",
    ]
    fixes = [warning["fix"] for warning in warnings]
    assert all("Remove that setting. Set ssl.ca.location" in fix for fix in fixes)


SCRAM = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=SCRAM-SHA-512", "sasl.username=ada")


def secrets_found(done: Result) -> list[tuple[str, str]]:
    found = json.loads(done.stdout)["connection"]
    return [(each["what"], each["fix"]) for each in found if "chmod" in each["fix"]]


@pytest.mark.parametrize(
    ("mode", "who"), [(0o644, "everyone on its machine"), (0o640, "its group"), (0o600, None)]
)
def test_the_doctor_warns_of_a_client_file_with_a_password_that_others_may_read(
    tmp_path: Path, closed_port: str, mode: int, who: str | None
) -> None:
    file = tmp_path / "our client.properties"
    lines = (f"bootstrap.servers={closed_port}", *SCRAM, "sasl.password=open sesame")
    file.write_text("\n".join(lines))
    file.chmod(mode)

    done = CliRunner().invoke(ktui, ["doctor", "--command-config", str(file), "--json"])

    assert "open sesame" not in done.output
    assert secrets_found(done) == (
        []
        if who is None
        else [
            (
                f"{file}: readable by {who} (mode {mode:o}), and holds sasl.password",
                f"Restrict it to its owner: chmod 600 '{file}'",
            )
        ]
    )


def test_the_doctor_accepts_a_readable_client_file_without_a_secret(
    tmp_path: Path, closed_port: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={closed_port}")
    file.chmod(0o644)

    done = CliRunner().invoke(ktui, ["doctor", "--command-config", str(file), "--json"])

    assert secrets_found(done) == []


@pytest.mark.parametrize("inline", [True, False])
def test_the_doctor_warns_of_the_file_that_holds_the_password_of_a_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed_port: str, *, inline: bool
) -> None:
    config, secret = tmp_path / "config.yaml", tmp_path / "kafka.password"
    settings: dict[str, object] = {
        "bootstrap.servers": closed_port,
        **dict(line.split("=") for line in SCRAM),
    }
    settings["sasl.password"] = "open sesame" if inline else {"file": secret.name}
    config.write_text(json.dumps({"contexts": {"prod": {"properties": settings}}}))
    secret.write_text("open sesame")
    for file in (config, secret):
        file.chmod(0o604)
    monkeypatch.setenv("KTUI_CONFIG_DIR", str(tmp_path))

    found = secrets_found(CliRunner().invoke(ktui, ["doctor", "--context", "prod", "--json"]))

    assert [fix for _, fix in found] == [
        f"Restrict it to its owner: chmod 600 {config if inline else secret}"
    ]


def test_the_doctor_warns_of_a_readable_private_key_named_by_any_setting(
    tmp_path: Path, closed_port: str
) -> None:
    key_and_certificate = Authority(tmp_path).server("DNS:ada")
    key_and_certificate.chmod(0o640)
    by_java = ("ssl.keystore.type=PEM", f"ssl.keystore.location={key_and_certificate}")
    by_librdkafka = (
        f"ssl.certificate.location={key_and_certificate}",
        f"ssl.key.location={key_and_certificate}",
    )

    for lines in (by_java, by_librdkafka):
        found = connection(closed_port, tmp_path, "security.protocol=SSL", *lines)
        assert [each["what"] for each in found if "chmod" in each["fix"]] == [
            f"{key_and_certificate}: readable by its group (mode 640), and holds ssl.key.location"
        ]
