"""Every promise of the two ports is tested on each kind of cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from ktui.kafka.connection import Connection
from support.real_world import RealWorld
from support.simulated_world import SimulatedWorld
from support.world import World

AnyWorld = RealWorld | SimulatedWorld
Make = Callable[[], AnyWorld]


@pytest.fixture(params=["simulated", pytest.param("kafka", marks=pytest.mark.kafka)])
def make_world(request: pytest.FixtureRequest) -> Make:
    """How to reach a cluster of each kind, in turn; each has brokers 1 to 5."""
    if request.param == "simulated":
        return SimulatedWorld
    bootstrap: str = request.getfixturevalue("bootstrap")
    return lambda: RealWorld(Connection.to(bootstrap))


@pytest.fixture
async def world(make_world: Make) -> AsyncIterator[World]:
    """A cluster to make a promise on."""
    world = make_world()
    try:
        yield world
    finally:
        await world.aclose()
