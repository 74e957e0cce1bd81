"""The panels under the list: which there are, which has the keys, and what is kept of them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from ktui.execution.host.state_dir import StateDir
from ktui.pacing.limits import Limits
from ktui.tui.screens.panels import BROKERS, PARTITION, SENT, PanelChoices, panel_heights
from support.simulated.moving_clusters import move
from support.views.watching import (
    SMALL,
    Watching,
    a_new_run,
    a_quiet_cluster,
    moved,
    watching_run,
    watching_runs,
)

HIGH = (120, 50)
NAMES = ("a-0", "a-1", "b-0")


def place(watch: Watching, title: str) -> int | None:
    """Return the line of a panel's rule, by how its title begins; None where it is away."""
    found = (y for y, line in enumerate(watch.lines) if f"─ {title} " in line)
    return next(found, None)


def heights(watch: Watching) -> list[int]:
    starts = [place(watch, title) for title in ("1 a-0", "2 brokers", "4 sent")]
    ends = [*(start for start in starts if start is not None), len(watch.lines) - 1]
    return [end - start for start, end in pairwise(ends)]


async def test_a_digit_gives_a_panel_the_keys_and_esc_the_list(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster(*NAMES), tmp_path, moved(*NAMES), size=HIGH) as watch:
        for digit in "1234":
            await watch.press(digit)
            assert "esc list" in watch.lines[-1], digit
            await watch.press("escape", "down")
            assert "esc list" not in watch.lines[-1]
            assert watch.cursor != "a-0"
            await watch.press("up")
            assert watch.cursor == "a-0"


async def test_a_panel_is_made_larger_smaller_hidden_and_shown_again(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster(*NAMES), tmp_path, moved(*NAMES), size=HIGH) as watch:
        partition, below, sent = heights(watch)
        await watch.press("4", "greater_than_sign")
        assert heights(watch) == [partition - 2, below, sent + 2]
        await watch.press("less_than_sign", "escape", "3", "greater_than_sign")
        assert heights(watch) == [partition - 2, below + 2, sent]
        await watch.press("vertical_line")
        assert "3 events" not in watch.text
        assert "2 brokers" in watch.text
        await watch.press("2", "vertical_line")
        assert len(heights(watch)) == 2, "the row of both is away"
        await watch.press("3")
        assert "3 events" in watch.text
        assert "2 brokers" not in watch.text


async def test_all_panels_are_hidden_and_shown_by_one_key(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster(*NAMES), tmp_path, moved(*NAMES), size=HIGH) as watch:
        await watch.press("vertical_line")
        assert heights(watch) == []
        await watch.press("vertical_line")
        assert len(heights(watch)) == 3


async def test_a_terminal_too_low_for_panels_says_so(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster(*NAMES), tmp_path, moved(*NAMES), size=SMALL) as watch:
        await watch.press("2")
        assert "The panels need a higher terminal" in watch.text


async def test_what_was_sent_stands_with_its_answer(tmp_path: Path) -> None:
    async with watching_run(
        a_quiet_cluster(*NAMES), tmp_path, moved(*NAMES), throttle="10MB/s", size=HIGH
    ) as watch:
        start = place(watch, "4 sent")
        assert start is not None
        sent = watch.lines[start:]
        assert any("✓ AlterPartitionReassignments a-0 [" in line for line in sent)
        assert any("✓ IncrementalAlterConfigs" in line and "topic a" in line for line in sent)


async def test_without_a_run_there_is_no_panel_of_what_was_sent(tmp_path: Path) -> None:
    cluster = a_quiet_cluster(*NAMES)
    async with watching_runs(cluster, tmp_path, size=HIGH) as watch:
        await watch.do(move("a-0", 4, 5, 6))
        await watch.until(lambda: len(heights(watch)) == 2)
        await watch.press("4")
        assert "Nothing is sent: no run is shown" in watch.text


async def test_the_window_begins_with_the_run_whatever_was_moved_before(tmp_path: Path) -> None:
    cluster = a_quiet_cluster(*NAMES)
    async with watching_runs(cluster, tmp_path, size=HIGH) as watch:
        await watch.do(move("a-0", 4, 5, 6))
        await watch.pass_time(60)
        run = await watch.engines.start(a_new_run(moved(*NAMES), Limits(replicas=1)))
        watch.app.attach_to(run)
        await watch.until(lambda: watch.app.attached is not None)
        await watch.pass_time(10)
        assert watch.partitions.layout_in_force.cell_s == 1.0


async def test_the_arrangement_of_a_cluster_is_kept(tmp_path: Path) -> None:
    cluster = a_quiet_cluster(*NAMES)
    async with watching_run(cluster, tmp_path, moved(*NAMES), size=HIGH) as watch:
        await watch.press("s", "S", "z", "4", "greater_than_sign", "escape", "2", "vertical_line")
        kept = heights(watch)
        await watch.press("q")
    async with watching_runs(cluster, tmp_path, size=HIGH) as watch:
        watch.app.attach_to(watch.run)
        await watch.until(lambda: watch.app.attached is not None)
        await watch.see()
        assert "by partition ▼" in watch.text
        assert watch.partitions.zoom == 600.0
        assert heights(watch) == kept
        assert "2 brokers" not in watch.text


@pytest.mark.parametrize("text", ["", "{", '{"sort": 5}', '{"hidden": ["else"], "zoom_s": 7.0}'])
async def test_a_damaged_or_strange_arrangement_is_passed_over(tmp_path: Path, text: str) -> None:
    cluster = a_quiet_cluster(*NAMES)
    path = StateDir(tmp_path / "state").cluster_note("views", cluster.spec.name)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    async with watching_run(cluster, tmp_path, moved(*NAMES), size=HIGH) as watch:
        assert len(heights(watch)) == 3
        assert watch.partitions.zoom is None


@pytest.mark.parametrize("height", range(1, 60))
@pytest.mark.parametrize("brokers", [0, 3, 40])
def test_panels_share_all_lines_and_none_is_too_small_to_say_something(
    height: int, brokers: int
) -> None:
    heights = panel_heights(height, brokers, PanelChoices())
    assert sum(heights.values()) == height
    assert all(lines >= 3 for lines in heights.values()) or heights == {PARTITION: height}
    if height >= 11:
        assert {PARTITION, BROKERS} <= heights.keys()
    if height >= 24:
        assert SENT in heights
    first = panel_heights(height, brokers, PanelChoices(), SENT)
    assert SENT in first
    hidden = PanelChoices().hiding(PARTITION)
    assert sum(panel_heights(height, brokers, hidden).values()) == height


async def test_the_trail_says_which_screens_are_below_the_one_that_is_shown(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster(*NAMES), tmp_path, moved(*NAMES), size=HIGH) as watch:
        assert "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}" not in watch.text
        await watch.press("d", "enter")
        path = watch.lines[0].split("WRITE")[0].split()
        assert " ".join(path[2:]).replace(
            "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}", ">"
        ) == (f"> run {watch.run.name} > dashboard > a-0")
        await watch.press("right_square_bracket")
        assert "a-1" in watch.lines[0]
        await watch.press("escape", "escape")
        assert "dashboard" not in watch.lines[0]
