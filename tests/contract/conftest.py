"""Every promise of the two ports is tested on each kind of cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from ktui.kafka.connection.connection import Connection
from ktui.lab.layout import Lab
from support.contract.world import SIMULATED, RealWorld, SimulatedWorld, World

AnyWorld = RealWorld | SimulatedWorld
Make = Callable[[], AnyWorld]


KAFKA = pytest.param("kafka", marks=pytest.mark.kafka)


@pytest.fixture(params=[pytest.param(SIMULATED, id="simulated"), KAFKA])
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of cluster, each in turn: the release that is simulated, or "kafka"."""
    return str(request.param)


@pytest.fixture
def is_real(kind: str) -> bool:
    """Whether the cluster is a real one."""
    return kind == "kafka"


@pytest.fixture
def make_world(kind: str, request: pytest.FixtureRequest) -> Make:
    """How to reach the cluster; it has brokers 1 to 5."""
    if kind != "kafka":
        return lambda: SimulatedWorld(kind)
    bootstrap: str = request.getfixturevalue("bootstrap")
    return lambda: RealWorld(Connection.to(bootstrap))


@pytest.fixture
def version(kind: str, request: pytest.FixtureRequest) -> str:
    """The cluster's release of Kafka, as "4.3"."""
    if kind != "kafka":
        return kind
    lab: Lab = request.getfixturevalue("lab")
    return lab.layout.kafka_version.rpartition(".")[0]


@pytest.fixture
async def world(make_world: Make) -> AsyncIterator[World]:
    """A cluster to test a promise on."""
    world = make_world()
    try:
        yield world
    finally:
        await world.aclose()
