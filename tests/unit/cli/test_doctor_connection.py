"""What the doctor says of a connection and of the secrets that it is made with."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ktui.cli.main import ktui


@pytest.fixture
def nobody_there() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def connection(address: str, folder: Path, *lines: str) -> list[dict[str, Any]]:
    """Give what the doctor finds of a connection by a client file."""
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
    assert [warning["what"].split(": whoever")[0] for warning in warnings] == [
        f"TLS unverified: {place}:3: {off}",
        f"TLS unverified: {place}:4: {names}none",
    ]
    assert all("Take that out. Set ssl.ca.location" in warning["fix"] for warning in warnings)
