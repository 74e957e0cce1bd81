"""What an operator sees within seconds: what happens, what is wrong, and what to do about it."""

from __future__ import annotations

from functools import partial

import pytest

from ktui.tui.draw.cells import BARS, BATCH_BEGUN, CANCEL_SIGNS, COPYING, DROPPED, SIGNS, UNKNOWN
from ktui.tui.screens.watch.columns import TIMELINE
from ktui.tui.screens.watch.list import PartitionList, PartitionPane
from support.views.screens import resize, screen_text
from support.views.situations import SITUATIONS, Situation, hundred_thousand, situation_of

SIZES = ((80, 24), (120, 40), (200, 60))
DRAWN = {
    *BARS,
    *(cell.glyph for cell in (*SIGNS.values(), *CANCEL_SIGNS.values())),
    *(cell.glyph for cell in (BATCH_BEGUN, COPYING, DROPPED, UNKNOWN)),
}
"""Everything that a timeline is drawn of."""
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
    situation: Situation,
) -> None:
    async with situation.enter() as pilot:
        for size in SIZES:
            await resize(pilot, size)
            text = screen_text(pilot.app)
            expected = (*situation.happens, *situation.wrong, *situation.helps)
            assert [words for words in expected if words not in text] == [], size
            assert "Nothing is being reassigned" not in text


@pytest.mark.parametrize("name", ["drain", "dead-target", "throttle-too-low"])
async def test_every_row_has_its_whole_timeline_whatever_else_it_says(name: str) -> None:
    async with situation_of(name).enter() as pilot:
        for (width, height), least in zip(SIZES, (24, 40, 70), strict=True):
            await resize(pilot, (width, height))
            rows = pilot.app.screen.query_one(PartitionList)
            shown = rows.layout_in_force
            start, cells = next((at, size) for c, at, size in shown.spans() if c is TIMELINE)
            assert cells >= least
            drawn = [rows.render_line(y).text for y in range(rows.size.height)]
            timelines = [line[start : start + cells] for line in drawn if line[2:3].isalpha()]
            assert len(timelines) > 3
            assert all(set(timeline) <= DRAWN for timeline in timelines), timelines
            assert max(len(timeline.lstrip()) for timeline in timelines) >= cells * 3 // 4


async def test_a_large_terminal_is_not_left_black_while_a_run_goes_on() -> None:
    async with situation_of("drain").enter() as pilot:
        await resize(pilot, SIZES[-1])
        lines = screen_text(pilot.app).splitlines()
        assert sum(not line.strip() for line in lines) <= 10
        await resize(pilot, SIZES[0])
        assert not pilot.app.screen.query_one(PartitionPane).display, "the list alone"
