"""The help: opened where it is needed, and searched by keys."""

from __future__ import annotations

import pytest

from ktui.tui.screens.help import HelpScreen
from support.simulated.moving_clusters import a_cluster
from support.views.watching import SMALL, Watching, watching


def _subtitle(watch: Watching) -> str:
    return watch.lines[-2]


@pytest.mark.parametrize(
    ("keys", "title"),
    [((), "list of partitions"), (("b",), "brokers"), (("e",), "events"), (("d",), "dashboard")],
)
async def test_the_help_opens_at_the_keys_of_the_screen(keys: tuple[str, ...], title: str) -> None:
    async with watching(a_cluster(), SMALL) as watch:
        await watch.press(*keys, "question_mark")
        assert f"{title} (this screen)" in watch.lines[3]
        assert "/ search · esc close" in watch.text


async def test_the_help_is_searched_and_its_matches_are_walked() -> None:
    async with watching(a_cluster(), SMALL) as watch:
        await watch.press("question_mark", "slash")
        await watch.type("broker")
        assert "match 1 of " in watch.text
        await watch.press("down")
        assert "match 2 of " in watch.text
        await watch.press("up", "enter", "n", "enter")
        assert "match 3 of " in watch.text
        await watch.press("N")
        assert "match 2 of " in watch.text
        # before the first comes the last
        await watch.press("N", "N")
        assert " of " in watch.text
        total = watch.text.split("match ")[1].split()
        assert total[0] == total[2]
        await watch.press("escape")
        assert "/ search" in watch.text
        await watch.press("escape")
        assert not isinstance(watch.app.screen, HelpScreen)


async def test_a_match_far_below_comes_into_view_and_one_that_is_not_there_is_reported() -> None:
    async with watching(a_cluster(), SMALL) as watch:
        await watch.press("question_mark", "slash")
        assert "the topic is gone" not in watch.text
        await watch.type("topic gone")
        await watch.until(lambda: "the topic is gone" in watch.text)
        await watch.type(" nowhere")
        assert "no match · esc clear" in watch.text
