"""What tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.plan_desk import Desk


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)
