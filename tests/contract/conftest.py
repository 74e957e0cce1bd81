"""Every promise of the two ports is tested on each kind of cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from ktui.kafka.connection.connection import Connection
from ktui.lab.layout import Lab
from support.contract.real_world import RealWorld
from support.contract.simulated_world import SIMULATED, SimulatedWorld
from support.contract.world import World

AnyWorld = RealWorld | SimulatedWorld
Make = Callable[[], AnyWorld]


@pytest.fixture(params=["simulated", pytest.param("kafka", marks=pytest.mark.kafka)])
def is_real(request: pytest.FixtureRequest) -> bool:
    """Whether the cluster is a real one: both kinds, in turn."""
    return bool(request.param == "kafka")


@pytest.fixture
def make_world(is_real: bool, request: pytest.FixtureRequest) -> Make:  # noqa: FBT001 - a fixture
    """How to reach the cluster; it has brokers 1 to 5."""
    if not is_real:
        return SimulatedWorld
    bootstrap: str = request.getfixturevalue("bootstrap")
    return lambda: RealWorld(Connection.to(bootstrap))


@pytest.fixture
def version(is_real: bool, request: pytest.FixtureRequest) -> str:  # noqa: FBT001 - a fixture
    """The cluster's release of Kafka, as "4.3"."""
    if not is_real:
        return SIMULATED
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
