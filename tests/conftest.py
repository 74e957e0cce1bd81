"""The real clusters that tests share: each started by the first test that asks for it."""

from __future__ import annotations

import os
import re
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from ktui.cli.lab import connect
from ktui.lab.down import down
from ktui.lab.errors import LabError
from ktui.lab.layout import DEFAULT_VERSION, Lab, Security
from ktui.lab.up import Wanted, up
from support.outage import Outage

_CLUSTERS = {"lab", "secured_lab", "ssl_lab"}


def pytest_configure() -> None:
    """Let SIGTERM unwind the fixtures, and so end the clusters, as Ctrl-C does."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that asks for a real cluster."""
    for item in items:
        if _CLUSTERS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.kafka)


def _cluster(folders: pytest.TempPathFactory, wanted: Wanted) -> Iterator[Lab]:
    """Run a lab; where it cannot start, its tests fail with the reason and are never skipped."""
    started = _started(folders.mktemp("lab"), wanted)
    if isinstance(started, LabError):
        pytest.fail(f"no real Kafka to test on: {started}", pytrace=False)
    try:
        yield started
    finally:
        down(started, keep=False)


def _started(folder: Path, wanted: Wanted) -> Lab | LabError:
    try:
        return up(folder, wanted, connect, lambda _: None)
    except LabError as error:
        return error


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Five brokers in the clear, for the whole run; KTUI_TEST_KAFKA names another version."""
    version = os.environ.get("KTUI_TEST_KAFKA", DEFAULT_VERSION)
    yield from _cluster(tmp_path_factory, Wanted(version=version))


@pytest.fixture(scope="session")
def secured_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three brokers with TLS, passwords (SCRAM and PLAIN) and ACLs, for the whole run."""
    yield from _cluster(tmp_path_factory, Wanted(brokers=3, security=Security.SASL_SSL))


@pytest.fixture(scope="session")
def ssl_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two brokers that know their clients by certificate, with ACLs, for the whole run."""
    yield from _cluster(tmp_path_factory, Wanted(brokers=2, security=Security.SSL))


@pytest.fixture(scope="session")
def bootstrap(lab: Lab) -> str:
    """The bootstrap servers of `lab`."""
    return lab.bootstrap_servers


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test has, telling which test it is from."""
    test = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")[:60]
    return f"{test}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def outage(lab: Lab) -> Iterator[Outage]:
    """Breaks brokers of `lab`, which are whole again after the test, also when it fails."""
    outage = Outage(lab)
    yield outage
    outage.mend()
