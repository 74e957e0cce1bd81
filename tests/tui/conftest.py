"""What all tests of the app have in common."""

from __future__ import annotations

import pytest
from textual.screen import Screen


@pytest.fixture(autouse=True)
def _unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
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

    monkeypatch.setattr(Screen, "_compositor_refresh", refresh)
