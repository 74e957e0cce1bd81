"""Fixtures shared by the tests on a real cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ktui.kafka.claim import KafkaGroups
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.lab import security
from ktui.lab.layout import Lab
from ktui.lab.up import LabRequest
from support.cli.shell import Shell
from support.contract.world import RealWorld
from support.journals.journals import release
from support.kafka.labs import BEFORE_43, a_lab

_LABS = (
    *("lab", "secured_lab", "ssl_lab", "ten_lab", "jbod_lab", "lab_of", "old_lab"),
    *("reassign_lab", "secured_reassign_lab", "dirs_reassign_lab"),
)
_WITHOUT_RUNS = ("connection", "lab")  # the folders of tests that own no cluster


@pytest.fixture(autouse=True)
def unowned(request: pytest.FixtureRequest) -> Iterator[None]:
    """Release the claim on a shared lab after a test: the next has another state directory."""
    names = () if request.path.parent.name in _WITHOUT_RUNS else _LABS
    labs = [request.getfixturevalue(name) for name in names if name in request.fixturenames]
    yield
    for lab in labs:
        asyncio.run(_released(lab))


async def _released(lab: Lab) -> None:
    connection = Connection.of(security.librdkafka_settings(lab), where="the lab")
    reader, groups = KafkaReader(connection), KafkaGroups(connection)
    try:
        await release(groups, (await reader.describe_cluster()).cluster_id)
    finally:
        await reader.aclose()
        await groups.aclose()


@pytest.fixture
def shell(lab: Lab, tmp_path: Path) -> Iterator[Shell]:
    """A shell with a state directory of its own."""
    shell = Shell(lab, tmp_path)
    yield shell
    shell.close()


@pytest.fixture
async def world(lab: Lab) -> AsyncIterator[RealWorld]:
    """A reader and a writer of `lab`; its topics and broker rates are removed afterwards."""
    world = RealWorld(Connection.to(lab.bootstrap_servers))
    try:
        yield world
    finally:
        await world.aclose()


@pytest.fixture(scope="session")
def old_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Five brokers of Kafka before 4.3."""
    yield from a_lab(tmp_path_factory.mktemp("lab"), LabRequest(version=BEFORE_43))


@pytest.fixture(params=[BEFORE_43, "all"])
def lab_of(request: pytest.FixtureRequest) -> Lab:
    """`old_lab` and `lab`, in turn."""
    name = "old_lab" if request.param == BEFORE_43 else "lab"
    found: Lab = request.getfixturevalue(name)
    return found
