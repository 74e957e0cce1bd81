from __future__ import annotations

import asyncio

import pytest
from syrupy.assertion import SnapshotAssertion

from support.simulated.moving_clusters import a_cluster
from support.views.replays import Album, Look, each_of
from support.views.situations import LONG_S, POLL_S, busy
from support.views.watching import LARGE, MIDDLE, SMALL, watching

DARK = [Look("dark", SMALL), Look("dark", MIDDLE), Look("dark", LARGE)]
LIGHT = Look("light", MIDDLE)
OTHERS = [Look(theme, MIDDLE) for theme in ("high-contrast", "colour-blind", "sixteen")]


@pytest.fixture(scope="module")
def of_ten_minutes() -> Album:
    """Ten busy minutes of a cluster, at the end of which it is lost."""
    return asyncio.run(_pictures_of_ten_minutes())


async def _pictures_of_ten_minutes() -> Album:
    album = Album()
    async with watching(busy(), LARGE, poll_s=POLL_S) as watch:
        await watch.pass_time(LONG_S)
        await album.take("the list", watch.pilot, *DARK, LIGHT)
        await watch.press("j")
        await album.take("the list", watch.pilot, *OTHERS)
        await watch.press("home", "slash")
        await watch.type("orders broker:9")
        await album.take("a filter", watch.pilot, DARK[0])
        await watch.press("escape")
        await watch.lose()
        await watch.pass_time(11 - POLL_S)  # a poll has just failed: the second hand is our own
        await album.take("lost", watch.pilot, DARK[1])
    return album


@each_of(*DARK, LIGHT)
def test_the_busy_list(of_ten_minutes: Album, kept: SnapshotAssertion, look: Look) -> None:
    assert of_ten_minutes("the list", look) == kept


@each_of(*OTHERS)
def test_the_busy_list_in_the_accessible_themes(
    of_ten_minutes: Album, kept: SnapshotAssertion, look: Look
) -> None:
    assert of_ten_minutes("the list", look) == kept


def test_a_filter_being_typed(of_ten_minutes: Album, kept: SnapshotAssertion) -> None:
    assert of_ten_minutes("a filter", DARK[0]) == kept


def test_the_list_of_a_lost_cluster(of_ten_minutes: Album, kept: SnapshotAssertion) -> None:
    assert of_ten_minutes("lost", DARK[1]) == kept


async def test_chosen_topics(kept: SnapshotAssertion) -> None:
    async with watching(busy(), MIDDLE, poll_s=POLL_S, topics=["metrics", "orders"]) as watch:
        await watch.pass_time(LONG_S)
        assert watch.app.export_screenshot(simplify=True) == kept


async def test_a_quiet_cluster(kept: SnapshotAssertion) -> None:
    async with watching(a_cluster(), SMALL, poll_s=60.0) as watch:
        await watch.pass_time(LONG_S)
        assert watch.app.export_screenshot(simplify=True) == kept


async def test_the_help(kept: SnapshotAssertion) -> None:
    async with watching(a_cluster(moving=["orders-0"]), SMALL) as watch:
        await watch.press("question_mark")
        assert watch.app.export_screenshot(simplify=True) == kept
