"""A cluster for `ktui reassign`: the size is that on which Apache's tool was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ktui.lab.layout import Lab
from support.kafka.labs import a_lab
from support.reassign_tool.flows import Where
from support.reassign_tool.recording import write_files
from support.reassign_tool.stage import REQUESTS


@pytest.fixture(scope="session")
def reassign_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three brokers in the clear, for the whole run."""
    yield from a_lab(tmp_path_factory.mktemp("lab"), REQUESTS[Where.PLAIN])


@pytest.fixture(scope="session")
def secured_reassign_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two brokers with TLS, passwords and ACLs, for the whole run."""
    yield from a_lab(tmp_path_factory.mktemp("lab"), REQUESTS[Where.SECURED])


@pytest.fixture(scope="session")
def dirs_reassign_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three brokers with two log dirs each, for the whole run."""
    yield from a_lab(tmp_path_factory.mktemp("lab"), REQUESTS[Where.LOG_DIRS])


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The folder in which the programs run."""
    return write_files(tmp_path / "files")
