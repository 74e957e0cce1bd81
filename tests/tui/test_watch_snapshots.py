from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from textual.pilot import Pilot

from ktui.progress.timeline import Progress
from ktui.tui.app import KtuiApp
from ktui.tui.outages import Outage
from ktui.tui.overview import overview
from ktui.tui.polling import Lost, Polled
from support.observations import folded
from support.scene import LONG_S, busy
from support.watching import LARGE, MIDDLE, SMALL, Script, StillClock, an_app, moves, quiet

Compare = Callable[..., bool]


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pictures show local times, and are the same in every country."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def scene(progress: Progress, **how: Any) -> KtuiApp:
    clock = StillClock()
    clock.seconds = 0.0 if progress.last is None else progress.last.monotonic_s
    app = an_app(Script(), clock, **how)
    app.progress = progress
    return app


def shown(*keys: str, lost_for_s: float = 0.0) -> Callable[[Pilot[None]], Any]:
    async def run(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, KtuiApp)
        app.post_message(Polled(app.progress, overview(app.progress)))
        await pilot.pause()
        if lost_for_s:
            clock = app.watch_screen.clock
            assert isinstance(clock, StillClock)
            clock.seconds += lost_for_s
            app.post_message(Lost(Outage("no answer in time", "no answer in time")))
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()

    return run


@pytest.mark.parametrize("size", [SMALL, MIDDLE, LARGE], ids=["80x24", "120x30", "200x60"])
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_busy_list(snap_compare: Compare, size: tuple[int, int], theme: str) -> None:
    app = scene(busy(), theme=theme)
    assert snap_compare(app, terminal_size=size, run_before=shown())


@pytest.mark.parametrize("theme", ["high-contrast", "colour-blind", "sixteen"])
def test_the_busy_list_in_the_themes_for_who_sees_otherwise(
    snap_compare: Compare, theme: str
) -> None:
    assert snap_compare(scene(busy(), theme=theme), terminal_size=MIDDLE, run_before=shown("j"))


def test_the_list_of_a_lost_cluster(snap_compare: Compare) -> None:
    assert snap_compare(scene(busy()), terminal_size=MIDDLE, run_before=shown(lost_for_s=12))


def test_a_filter_being_typed(snap_compare: Compare) -> None:
    keys = shown("slash", *"orders broker", "colon", "9")
    assert snap_compare(scene(busy()), terminal_size=SMALL, run_before=keys)


def test_chosen_topics(snap_compare: Compare) -> None:
    app = scene(busy(), topics=["metrics", "orders"])
    assert snap_compare(app, terminal_size=MIDDLE, run_before=shown())


def test_a_quiet_cluster(snap_compare: Compare) -> None:
    app = scene(folded([quiet(), quiet(LONG_S)]))
    assert snap_compare(app, terminal_size=SMALL, run_before=shown())


def test_the_help(snap_compare: Compare) -> None:
    app = scene(folded([moves("orders-0")]))
    assert snap_compare(app, terminal_size=SMALL, run_before=shown("question_mark"))
