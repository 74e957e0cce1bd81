"""What an operator sees within seconds: what happens, what is wrong, and what to do about it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from support.views.screens import resize, screen_text
from support.views.situations import SITUATIONS, Situation, hundred_thousand

SIZES = ((80, 24), (120, 40), (200, 60))
FEWER = 2_000
"""Partitions that stand for the hundred thousand, which take minutes."""


def as_tested(situation: Situation) -> Situation:
    """Return the situation, with fewer partitions where they are very many."""
    if situation.enter is not hundred_thousand:
        return situation
    happens = tuple(words.replace("100,000", f"{FEWER:,}") for words in situation.happens)
    enter = partial(hundred_thousand, partitions=FEWER)
    return situation._replace(enter=enter, happens=happens)


@pytest.mark.parametrize(
    "situation", [as_tested(each) for each in SITUATIONS], ids=[each.name for each in SITUATIONS]
)
async def test_a_situation_is_understood_at_first_sight_in_a_terminal_of_every_size(
    situation: Situation, tmp_path: Path
) -> None:
    async with situation.enter(tmp_path) as pilot:
        for size in SIZES:
            await resize(pilot, size)
            text = screen_text(pilot.app)
            expected = (*situation.happens, *situation.wrong, *situation.helps)
            assert [words for words in expected if words not in text] == [], size
            assert "Nothing is being reassigned" not in text
