"""The counts of a run's partitions: the same on every screen, and in `ktui status`."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from ktui.execution.forecast.progress_text import counts_text
from ktui.execution.forecast.run_progress import read_progress
from ktui.simulated import layout
from support.views.situations import SPARE, draining
from support.views.watching import RunWatched

_OF_A_STEP = ("step", "dropping", "electing")
_COUNTED = re.compile(
    r"([\d,]+) (done|failed|stalled|blocked|held up|copying|ready|waiting|queued"
    r"|rolling back|rolled back|not started|stopping|stopped)\b"
)
_NOT_ON_ITS_WAY = ("rolling back", "rolled back", "not started", "stopping", "stopped")


def counted(text: str) -> dict[str, int]:
    """Return the counts that a text names, by their words."""
    found = _COUNTED.findall(text.lower())
    return {words: number for count, words in found if (number := int(count.replace(",", "")))}


def in_the_header(watch: RunWatched) -> dict[str, int]:
    """Return what the lines above the list count."""
    lines = "  ".join(watch.lines[1:3])
    done = re.search(r"done ([\d,]+)/", lines)
    back = re.search(r"ROLLING BACK, ([\d,]+) of ([\d,]+) back", lines)
    found = counted(lines) | ({} if done is None or done[1] == "0" else {"done": int(done[1])})
    if back is not None:
        found |= {"rolled back": int(back[1]), "rolling back": int(back[2]) - int(back[1])}
    return found


def in_the_list(watch: RunWatched) -> dict[str, int]:
    """Return how many rows of the list are in each state."""
    states: Counter[str] = Counter()
    for name in watch.rows:
        word = re.sub(r"^[▌ ]*\S+ +", "", watch.row(name)).lower()
        state = word.split("  ")[0]
        copies = state.startswith(_OF_A_STEP)
        states["copying" if copies else re.sub(r"[ (]*\d.*", "", state).strip()] += 1
    return dict(states)


async def on_the_dashboard(watch: RunWatched) -> dict[str, int]:
    """Return what the title of the map counts."""
    await watch.press("d")
    found = counted(watch.line("partitions 35"))
    await watch.press("escape")
    return found


def in_status(watch: RunWatched) -> dict[str, int]:
    """Return what `ktui status` counts."""
    progress = read_progress(watch.attached.folder)
    text = counts_text(progress).replace(f" of {progress.partitions}", "")
    found = counted(text)
    stages = {stage.value: count for stage, count in progress.stages.items() if count}
    called_off = stages.pop("called off", 0)
    assert called_off == sum(found.get(words, 0) for words in _NOT_ON_ITS_WAY)
    assert {words: n for words, n in found.items() if words not in _NOT_ON_ITS_WAY} == stages
    return found


async def everywhere_the_same(watch: RunWatched) -> dict[str, int]:
    """Compare all counts of this moment, and return them."""
    header = in_the_header(watch)
    assert header == in_the_list(watch)
    assert header == await on_the_dashboard(watch)
    assert sum(header.values()) == 35
    status = in_status(watch)
    # the engine polls for itself: it may see one poll later that what waits has stalled
    for found in (header, status):
        found["stalled or held up"] = found.pop("stalled", 0) + found.pop("held up", 0)
    assert header == status
    return header


async def test_a_run_in_trouble_has_the_same_counts_everywhere_at_every_moment(
    tmp_path: Path,
) -> None:
    async with draining(tmp_path, 100) as watch:
        await watch.press("o")  # a row for every partition
        assert (await everywhere_the_same(watch))["stalled or held up"] == 0
        watch.cluster.do(layout.Kill(SPARE))
        for _ in range(12):
            await watch.pass_time(4)
            now = await everywhere_the_same(watch)
        assert now["stalled or held up"] == 4
        assert now["blocked"] == 17


async def test_a_rollback_has_the_same_counts_everywhere_at_every_moment(tmp_path: Path) -> None:
    async with draining(tmp_path, 200) as watch:
        await watch.press("o", "c", "up", "right")
        await watch.see()
        await watch.press("y")
        await watch.type("drain-b3")
        await watch.press("enter")
        await watch.pass_until("ROLLING BACK")
        for _ in range(8):
            await watch.pass_time(10)
            now = await everywhere_the_same(watch)
        assert now["rolled back"] > 8
