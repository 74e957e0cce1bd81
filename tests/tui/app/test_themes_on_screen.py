from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from rich.color import Color, ColorType
from textual.screen import Screen

from ktui.progress.timeline import Progress
from ktui.tui.draw.paint import ROLES
from ktui.tui.screens.brokers.screen import BrokersScreen
from ktui.tui.screens.detail.screen import DetailScreen
from ktui.tui.screens.events import EventsScreen
from support.views.screens import (
    SHIPPED,
    TP,
    Host,
    events,
    observation,
    progress,
    screen_text,
    timeline,
)

SCREENS = {
    "detail": lambda: DetailScreen(TP),
    "brokers": BrokersScreen,
    "events": EventsScreen,
}


def all_shown() -> Progress:
    return progress(timeline(), last=observation(), events=events(50, severity=1))


def colours(app: Host[Any]) -> Iterator[Color]:
    for strip in app.screen._compositor.render_strips():
        for segment in strip:
            if segment.style is not None:
                yield from filter(None, (segment.style.color, segment.style.bgcolor))


async def drawn(screen: Screen[None], theme: str) -> tuple[str, set[Color]]:
    app = Host(screen, theme)
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        app.show(all_shown())
        await pilot.press("tab")
        await pilot.pause()
        return screen_text(app), set(colours(app))


@pytest.mark.parametrize("screen", SCREENS.values(), ids=SCREENS.keys())
async def test_the_sixteen_colour_theme_uses_only_the_terminals_own_colours(
    screen: Any,
) -> None:
    _, seen = await drawn(screen(), "sixteen")
    assert len(seen) > 3
    assert {color.type for color in seen} <= {ColorType.STANDARD, ColorType.DEFAULT}


@pytest.mark.parametrize("screen", SCREENS.values(), ids=SCREENS.keys())
async def test_screens_show_the_same_text_and_signs_without_colour(
    screen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    coloured, _ = await drawn(screen(), "dark")
    monkeypatch.setenv("NO_COLOR", "1")
    plain, seen = await drawn(screen(), "dark")
    assert plain == coloured
    assert all(len(set(color.get_truecolor())) == 1 for color in seen)


async def test_each_theme_has_a_usable_colour_for_each_role() -> None:
    app = Host(EventsScreen())
    async with app.run_test() as pilot:
        for theme in SHIPPED.themes:
            app.theme = theme
            await pilot.pause()
            for role in ROLES:
                style = app.stylesheet.parse_style(f"${role}")
                assert style.foreground is not None
