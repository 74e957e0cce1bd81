"""What all tests of the app have in common."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from pytest_textual_snapshot import SVGImageExtension
from syrupy.assertion import SnapshotAssertion
from textual.screen import Screen


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
