"""What tests on a real cluster share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ktui.kafka.connection import Connection
from ktui.lab.layout import Lab
from support.real_world import RealWorld


@pytest.fixture
async def world(lab: Lab) -> AsyncIterator[RealWorld]:
    """Both ways into `lab`; the topics made through it go, and so do the rates of its brokers."""
    world = RealWorld(Connection.to(lab.bootstrap_servers))
    try:
        yield world
    finally:
        await world.aclose()
