from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from textual.pilot import Pilot

from ktui.simulated.cluster import SimulatedCluster
from support.simulated.moving_clusters import a_cluster
from support.views.scene import LONG_S, POLL_S, busy
from support.views.watching import LARGE, MIDDLE, SMALL, Looks, Watching, an_app

Compare = Callable[..., bool]


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pictures show local times, and are the same in every country."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


class Scene:
    """The app over a cluster, for a picture of it at the end of the ten minutes."""

    def __init__(self, cluster: SimulatedCluster, **how: Any) -> None:
        self._cluster = cluster
        self._looks = Looks(cluster)
        self.app = an_app(cluster, self._looks, poll_s=POLL_S, **how)

    def after(self, *keys: str, lost_for_s: float = 0.0) -> Callable[[Pilot[None]], Any]:
        """Let the ten minutes pass, then perhaps the cluster be lost, and press keys.

        The picture is of a moment at which a poll has just failed: the second hand is our own.
        """

        async def run(pilot: Pilot[None]) -> None:
            watch = Watching(self.app, self._looks, self._cluster, pilot)
            await watch.begin()
            await watch.pass_time(LONG_S)
            if lost_for_s:
                await watch.lose()
                await watch.pass_time(lost_for_s - POLL_S)
            await watch.press(*keys)

        return run


@pytest.mark.parametrize("size", [SMALL, MIDDLE, LARGE], ids=["80x24", "120x30", "200x60"])
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_busy_list(snap_compare: Compare, size: tuple[int, int], theme: str) -> None:
    scene = Scene(busy(), theme=theme)
    assert snap_compare(scene.app, terminal_size=size, run_before=scene.after())


@pytest.mark.parametrize("theme", ["high-contrast", "colour-blind", "sixteen"])
def test_the_busy_list_in_the_themes_for_who_sees_otherwise(
    snap_compare: Compare, theme: str
) -> None:
    scene = Scene(busy(), theme=theme)
    assert snap_compare(scene.app, terminal_size=MIDDLE, run_before=scene.after("j"))


def test_the_list_of_a_lost_cluster(snap_compare: Compare) -> None:
    scene = Scene(busy())
    assert snap_compare(scene.app, terminal_size=MIDDLE, run_before=scene.after(lost_for_s=11))


def test_a_filter_being_typed(snap_compare: Compare) -> None:
    scene = Scene(busy())
    typed = scene.after("slash", *"orders broker", "colon", "9")
    assert snap_compare(scene.app, terminal_size=SMALL, run_before=typed)


def test_chosen_topics(snap_compare: Compare) -> None:
    scene = Scene(busy(), topics=["metrics", "orders"])
    assert snap_compare(scene.app, terminal_size=MIDDLE, run_before=scene.after())


def test_a_quiet_cluster(snap_compare: Compare) -> None:
    scene = Scene(a_cluster())
    assert snap_compare(scene.app, terminal_size=SMALL, run_before=scene.after())


def test_the_help(snap_compare: Compare) -> None:
    scene = Scene(a_cluster(moving=["orders-0"]))
    assert snap_compare(scene.app, terminal_size=SMALL, run_before=scene.after("question_mark"))
