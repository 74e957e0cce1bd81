"""What the doctor says of a connection and of the secrets that it is made with."""

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
def nobody_there() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def connection(address: str, folder: Path, *lines: str) -> list[dict[str, Any]]:
    """What the doctor finds of a connection by a client file."""
    file = folder / "client.properties"
    file.write_text("\n".join((f"bootstrap.servers={address}", *lines)))
    file.chmod(0o600)
    done = CliRunner().invoke(ktui, ["doctor", "--command-config", str(file), "--json"])
    found: list[dict[str, Any]] = json.loads(done.stdout)["connection"]
    return found


def test_what_tls_does_not_verify_is_warned_of_by_its_setting(
    tmp_path: Path, nobody_there: str
) -> None:
    off = "enable.ssl.certificate.verification=false"
    names = "ssl.endpoint.identification.algorithm="

    found = connection(nobody_there, tmp_path, "security.protocol=SSL", off, names)

    warnings = [finding for finding in found if finding["level"] == "warning"]
    place = tmp_path / "client.properties"
    assert [warning["what"].split(": anyone")[0] for warning in warnings] == [
        f"TLS unverified: {place}:3: {off}",
        f"TLS unverified: {place}:4: {names}none",
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
def test_a_client_file_with_a_password_that_others_may_read_is_warned_of(
    tmp_path: Path, nobody_there: str, mode: int, who: str | None
) -> None:
    file = tmp_path / "our client.properties"
    lines = (f"bootstrap.servers={nobody_there}", *SCRAM, "sasl.password=open sesame")
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


def test_a_client_file_without_a_secret_may_be_read_by_everyone(
    tmp_path: Path, nobody_there: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={nobody_there}")
    file.chmod(0o644)

    done = CliRunner().invoke(ktui, ["doctor", "--command-config", str(file), "--json"])

    assert secrets_found(done) == []


@pytest.mark.parametrize("inline", [True, False])
def test_of_a_context_the_file_that_has_the_password_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nobody_there: str, *, inline: bool
) -> None:
    config, secret = tmp_path / "config.yaml", tmp_path / "kafka.password"
    settings: dict[str, object] = {
        "bootstrap.servers": nobody_there,
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


def test_a_private_key_that_others_may_read_is_warned_of_whatever_names_it(
    tmp_path: Path, nobody_there: str
) -> None:
    both = Authority(tmp_path).server("DNS:ada")
    both.chmod(0o640)
    by_java = ("ssl.keystore.type=PEM", f"ssl.keystore.location={both}")
    by_librdkafka = (f"ssl.certificate.location={both}", f"ssl.key.location={both}")

    for lines in (by_java, by_librdkafka):
        found = connection(nobody_there, tmp_path, "security.protocol=SSL", *lines)
        assert [each["what"] for each in found if "chmod" in each["fix"]] == [
            f"{both}: readable by its group (mode 640), and holds ssl.key.location"
        ]
