"""The hosts between which runs are transferred."""

from pathlib import Path

import pytest

from support.cli.shell import TwoHosts


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TwoHosts:
    for name in ("KTUI_BOOTSTRAP_SERVER", "KTUI_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    return TwoHosts(tmp_path, monkeypatch)
