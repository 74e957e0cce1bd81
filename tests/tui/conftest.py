"""What all tests of the app have in common."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from pytest_textual_snapshot import SVGImageExtension
from syrupy.assertion import SnapshotAssertion
from textual.screen import Screen

_NAP_S = 1 / 50
_LITTLE_S = _NAP_S / 20
"""Processor time that even an idle app takes in a nap."""


async def _wait_for_idle(_least_s: float = _NAP_S, most_s: float = 10.0) -> None:
    """Wait until the app has nothing to do.

    Textual takes an app for idle that takes no processor time. So is one that gets none from a busy
    machine: its naps are longer than asked for, and do not count.
    """
    end = time.monotonic() + most_s
    idle = False
    while not idle and time.monotonic() < end:
        began, worked_s = time.monotonic(), time.process_time()
        await asyncio.sleep(_NAP_S)
        had_its_turn = time.monotonic() - began < 2 * _NAP_S
        idle = had_its_turn and time.process_time() - worked_s < _LITTLE_S


@pytest.fixture(autouse=True, scope="module")
def _idle_is_idle() -> Iterator[None]:
    """Let tests go on when the app is idle, and not when it only waits for the processor."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("textual.pilot.wait_for_idle", _wait_for_idle)
        yield


@pytest.fixture(autouse=True, scope="module")
def _unpainted() -> Iterator[None]:
    """Spare the app the drawing of frames that nobody sees: it runs without a terminal.

    What is on the screen is drawn when a test reads it, and when it takes a picture.
    """
    paint = Screen._compositor_refresh

    def refresh(screen: Screen[object]) -> None:
        if screen is screen.app.screen:
            screen._dirty_widgets.clear()
            screen._compositor._dirty_regions.clear()
            screen.app._update_mouse_over(screen)
        else:
            paint(screen)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Screen, "_compositor_refresh", refresh)
        yield


@pytest.fixture(autouse=True, scope="module")
def _utc() -> Iterator[None]:
    """Let screens, which show local times, be the same in every country."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def kept(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """The picture that is kept for a test."""
    return snapshot.use_extension(SVGImageExtension)
