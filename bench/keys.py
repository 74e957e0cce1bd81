"""CPU time from a key to the frame that shows its effect, in the whole app."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections.abc import Awaitable, Callable, Iterable

from textual.pilot import Pilot
from textual.widgets import Static

from bench.checks import check_count, check_left_out
from bench.cockpit import Cockpit, PreparedPolls, cockpit, cpu_to_frame, next_poll, settled
from bench.recording import moving_polls
from bench.timing import percentile
from ktui.cluster.observation import Observation
from ktui.tui.screens.dashboard.map import PartitionMap
from ktui.tui.screens.detail.screen import DetailPane

SIZES = (150, 60), (200, 60)
"""Terminals; all panels are below the list in both."""
POLLS = 3
CURSOR = ("down", "down", "pagedown", "up", "end", "home", "pagedown", "pageup", "down", "down")
FILTER = "orders-017"
MAP = ("right", "down", "right", "up", "left", "end", "home", "down", "right", "left")
KEYS = 100
AIM = "aim: at most 30 ms"

Figures = list[float | None]


def run() -> None:
    """Print the figures. CPU time: a terminal and a frame's turn in the 60 a second are beside."""
    for rows in (1_000, 10_000, 100_000):
        polls = list(moving_polls(rows, POLLS))
        for size in SIZES:
            asyncio.run(_list(rows, polls, size))
        asyncio.run(_dashboard(rows, polls))


async def _list(rows: int, polls: list[Observation], size: tuple[int, int]) -> None:
    source = PreparedPolls(polls)
    async with cockpit(source, size) as (app, pilot):
        listed = app.watch_screen.partition_list
        check_count("rows", len(listed.arrangement.rows), rows)
        what = f"{rows:,} rows, {size[0]}x{size[1]}"
        gc.collect()
        drawn, panel = await _cursor_keys(app, pilot)
        _print(f"{what}: cursor", drawn)
        _print(f"{what}: the panel of its partition", panel)
        named, whole = await _sort_keys(app, pilot)
        _print(f"{what}: order named", named)
        _print(f"{what}: rows in that order", whole, aim="")
        named, whole = await _filter_keys(app, pilot, rows)
        _print(f"{what}: filter shown", named)
        _print(f"{what}: rows filtered", whole, aim="")
        keys = await _beside_polls(app, source, CURSOR, lambda: listed.row)
        _print(f"{what}: cursor, during polls", keys, aim="with what a poll takes meanwhile")


async def _cursor_keys(app: Cockpit, pilot: Pilot[None]) -> tuple[Figures, Figures]:
    """Return the CPU time to the frame with the cursor, and to that with its panel.

    The bench waits for nothing else in between: what it does itself would count.
    """
    listed, drawn, panel = app.watch_screen.partition_list, Figures(), Figures()
    title = app.watch_screen.query_one(DetailPane).query_one(".rule", Static)
    for key in itertools.islice(itertools.cycle(CURSOR), KEYS):
        await settled(app, pilot)  # a late frame of the key before is no frame of this one
        row, moved_cpu_s = listed.row, None

        def shown(row: int = row) -> bool:
            nonlocal moved_cpu_s
            if listed.row != row and moved_cpu_s is None:
                moved_cpu_s = app.painted_cpu_s - app.pressed_cpu_s
            return listed.row != row and str(listed.cursor) in str(title.visual)

        panel.append(await cpu_to_frame(app, key, shown))
        drawn.append(moved_cpu_s)
    return drawn, panel


async def _sort_keys(app: Cockpit, pilot: Pilot[None]) -> tuple[Figures, Figures]:
    listed = app.watch_screen.partition_list

    async def press() -> float | None:
        before = listed.ordering
        return await cpu_to_frame(app, "s", lambda: listed.ordering != before)

    named, whole = await _in_two_frames(app, pilot, itertools.repeat(press, 18))
    check_count("rows in the new order", listed.arrangement.ordering == listed.ordering, expected=1)
    return named, whole


async def _filter_keys(app: Cockpit, pilot: Pilot[None], rows: int) -> tuple[Figures, Figures]:
    listed = app.watch_screen.partition_list
    await pilot.press("slash")

    def typing(letter: str) -> Callable[[], Awaitable[float | None]]:
        async def press() -> float | None:
            before = listed.rowfilter.text
            return await cpu_to_frame(app, letter, lambda: listed.rowfilter.text != before)

        return press

    named, whole = await _in_two_frames(app, pilot, map(typing, FILTER))
    found = sum(FILTER in str(tp) for tp in app.progress.timelines)
    check_count("filtered rows", len(listed.arrangement.rows), found)
    await pilot.press("escape")
    await settled(app, pilot)
    check_count("rows without the filter", len(listed.arrangement.rows), rows)
    return named, whole


async def _in_two_frames(
    app: Cockpit, pilot: Pilot[None], presses: Iterable[Callable[[], Awaitable[float | None]]]
) -> tuple[Figures, Figures]:
    """Return the CPU time to the frame that answers each key, and to that with the rows."""
    named, whole = Figures(), Figures()
    for press in presses:
        await settled(app, pilot)
        named.append(await press())
        await settled(app, pilot)
        whole.append(None if named[-1] is None else app.painted_cpu_s - app.pressed_cpu_s)
    return named, whole


async def _dashboard(rows: int, polls: list[Observation]) -> None:
    source = PreparedPolls(polls)
    async with cockpit(source, SIZES[-1]) as (app, pilot):
        await pilot.press("d")
        await settled(app, pilot)
        shown = app.screen.query_one(PartitionMap)
        check_count("partitions on the map", sum(shown.model.counts.values()), rows)
        _check_cells(shown, rows)
        taken = Figures()
        for key in itertools.islice(itertools.cycle(MAP), KEYS):
            await settled(app, pilot)
            at = shown.at
            taken.append(await cpu_to_frame(app, key, _elsewhere(lambda: shown.at, at)))
        _print(f"{rows:,} on the dashboard", taken)
        keys = await _beside_polls(app, source, MAP, lambda: shown.at)
        _print(f"{rows:,} on the dashboard, during polls", keys, aim="with what a poll takes")
        check_count("partitions on the map", sum(shown.model.counts.values()), rows)


def _elsewhere(place: Callable[[], object], before: object) -> Callable[[], bool]:
    return lambda: place() != before


def _check_cells(shown: PartitionMap, rows: int) -> None:
    model = shown.model
    covered = sum(len(model.codes(group)) for group in range(len(model.groups)))
    check_count("partitions in the cells of the map", covered, rows)


async def _beside_polls(
    app: Cockpit, source: PreparedPolls, keys: tuple[str, ...], place: Callable[[], object]
) -> Figures:
    """Press keys while polls are folded and shown, one after the other."""
    polls = asyncio.create_task(_poll_on(app, source))
    taken = Figures()
    for key in itertools.islice(itertools.cycle(keys), KEYS):
        before = place()
        taken.append(await cpu_to_frame(app, key, _elsewhere(place, before)))
    polls.cancel()
    return taken


async def _poll_on(app: Cockpit, source: PreparedPolls) -> None:
    while True:
        await next_poll(app, source)


def _print(what: str, taken: Figures, aim: str = AIM) -> None:
    drawn = [seconds for seconds in taken if seconds is not None]
    left_out = len(taken) - len(drawn)
    check_left_out("keys, which drew nothing", left_out, len(taken))
    middle, most = percentile(drawn, 0.5) * 1000, percentile(drawn, 0.95) * 1000
    print(
        f"key to frame, {what}: median {middle:.1f} ms, p95 {most:.1f} ms"
        + (f" ({aim})" if aim else "")
        + f", worst {max(drawn) * 1000:.1f} ms; "
        f"left out of {len(taken)} keys: {left_out} that drew nothing",
        flush=True,
    )
