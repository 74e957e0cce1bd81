"""The panels under the list, what `y` copies of a partition, and counts that agree everywhere."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from ktui.execution.forecast.progress_text import counts_text
from ktui.execution.forecast.run_progress import read_progress
from ktui.execution.host.state_dir import StateDir
from ktui.pacing.limits import Limits
from ktui.simulated import layout
from ktui.tui.screens.panels import BROKERS, PARTITION, SENT, PanelChoices, panel_heights
from ktui.tui.screens.questions import copy_text
from support.simulated.moving_clusters import a_cluster, move
from support.views.situations import SPARE, draining
from support.views.terminal import Terminal
from support.views.watching import (
    SMALL,
    RunWatched,
    Watching,
    a_new_run,
    a_quiet_cluster,
    moved,
    watching,
    watching_moves,
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


async def test_a_digit_gives_a_panel_the_keys_and_esc_the_list() -> None:
    async with watching_moves(*NAMES, size=HIGH) as watch:
        for digit in "1234":
            await watch.press(digit)
            assert "esc list" in watch.lines[-1], digit
            await watch.press("escape", "down")
            assert "esc list" not in watch.lines[-1]
            assert watch.cursor != "a-0"
            await watch.press("up")
            assert watch.cursor == "a-0"


async def test_a_panel_is_made_larger_smaller_hidden_and_shown_again() -> None:
    async with watching_moves(*NAMES, size=HIGH) as watch:
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


async def test_all_panels_are_hidden_and_shown_by_one_key() -> None:
    async with watching_moves(*NAMES, size=HIGH) as watch:
        await watch.press("vertical_line")
        assert heights(watch) == []
        await watch.press("vertical_line")
        assert len(heights(watch)) == 3


async def test_a_terminal_too_low_for_panels_says_so() -> None:
    async with watching_moves(*NAMES, size=SMALL) as watch:
        await watch.press("2")
        assert "The panels need a higher terminal" in watch.text


async def test_what_was_sent_stands_with_its_answer() -> None:
    async with watching_moves(*NAMES, throttle="10MB/s", size=HIGH) as watch:
        start = place(watch, "4 sent")
        assert start is not None
        sent = watch.lines[start:]
        assert any("✓ AlterPartitionReassignments a-0 [" in line for line in sent)
        assert any("✓ IncrementalAlterConfigs" in line and "topic a" in line for line in sent)


async def test_without_a_run_there_is_no_panel_of_what_was_sent() -> None:
    cluster = a_quiet_cluster(*NAMES)
    async with watching_runs(cluster, size=HIGH) as watch:
        await watch.do(move("a-0", 4, 5, 6))
        await watch.until(lambda: len(heights(watch)) == 2)
        await watch.press("4")
        assert "Nothing is sent: no run is shown" in watch.text


async def test_the_window_begins_with_the_run_whatever_was_moved_before() -> None:
    cluster = a_quiet_cluster(*NAMES)
    async with watching_runs(cluster, size=HIGH) as watch:
        await watch.do(move("a-0", 4, 5, 6))
        await watch.pass_time(60)
        run = await watch.engines.start(a_new_run(moved(*NAMES), Limits(replicas=1)))
        watch.app.attach_to(run)
        await watch.until(lambda: watch.app.attached is not None)
        await watch.pass_time(10)
        assert watch.partitions.layout_in_force.cell_s == 1.0


async def test_the_arrangement_of_a_cluster_is_kept(tmp_path: Path) -> None:
    cluster = a_quiet_cluster(*NAMES)
    async with watching_run(cluster, moved(*NAMES), size=HIGH, folder=tmp_path) as watch:
        await watch.press("s", "S", "z", "4", "greater_than_sign", "escape", "2", "vertical_line")
        kept = heights(watch)
        await watch.press("q")
    async with watching_runs(cluster, size=HIGH, folder=tmp_path) as watch:
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
    async with watching_run(cluster, moved(*NAMES), size=HIGH, folder=tmp_path) as watch:
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


async def test_the_trail_says_which_screens_are_below_the_one_that_is_shown() -> None:
    async with watching_moves(*NAMES, size=HIGH) as watch:
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


STAND_IN = """#!/bin/sh
printf '%s\\n' "$*" > {folder}/arguments
cat > {folder}/buffer
exit {status}
"""


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.delenv("TERM_PROGRAM", raising=False)


def in_tmux(folder: Path, monkeypatch: pytest.MonkeyPatch, *, status: int = 0) -> None:
    """Put the app into a tmux that keeps its buffer in a file."""
    tmux = folder / "tmux"
    tmux.write_text(STAND_IN.format(folder=folder, status=status))
    tmux.chmod(0o755)
    monkeypatch.setenv("TMUX", "/tmp/tmux-0/default,1,0")  # noqa: S108 - only its presence counts
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


async def test_each_form_of_a_moving_partition_is_sent_to_the_terminal() -> None:
    async with watching_moves("a-0", messages=100_000, size=SMALL) as watch:
        await watch.press("y")
        assert "copy a-0" in watch.text
        await watch.press("n")
        assert watch.app.clipboard == "a-0"
        assert "Sent to the terminal: 3 characters." in watch.text

        await watch.press("y", "j")
        copied = json.loads(watch.app.clipboard)
        assert copied["partition"] == 0
        assert copied["adding"] == [4]

        await watch.press("y", "down", "enter")
        assert watch.app.clipboard.split()[:3] == ["a-0", "step", "1/4"]

        await watch.press("enter", "y", "k")  # in the detail
        plan, command = watch.app.clipboard.splitlines()
        assert '"replicas": [4, 5, 6]' in plan
        assert command.startswith("kafka-reassign-partitions.sh --bootstrap-server ")
        assert command.endswith("--execute --reassignment-json-file move.json --additional")


async def test_a_settled_partition_has_no_command_and_y_says_so() -> None:
    async with watching(a_cluster(resting=["a-0"]), topics=["a"]) as watch:
        await watch.press("y", "k")
        assert "Nothing moves it" in watch.text
        await watch.press("escape")
        assert not watch.app.clipboard


async def test_in_tmux_the_text_becomes_its_newest_buffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_tmux(tmp_path, monkeypatch)
    async with watching(a_cluster(resting=["a-0"]), topics=["a"]) as watch:
        await watch.press("y", "n")
        await watch.until(lambda: "Sent to the terminal by tmux" in watch.text)
    assert (tmp_path / "arguments").read_text() == "load-buffer -w -\n"
    assert (tmp_path / "buffer").read_text() == "a-0"


async def test_what_would_drive_the_terminal_is_escaped_on_its_way_out() -> None:
    async with watching(a_cluster(resting=["a-0"])) as watch:
        await copy_text(watch.app, "a\x1b]0;b\u202e\nc")
        assert watch.app.clipboard == r"a\x1b]0;b\u202e" + "\nc"


async def test_an_old_tmux_without_that_option_is_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_tmux(tmp_path, monkeypatch, status=1)
    async with watching(a_cluster(resting=["a-0"]), topics=["a"]) as watch:
        await watch.press("y", "n")
        await watch.until(lambda: "Sent to the terminal: 3 characters." in watch.text)
        assert watch.app.clipboard == "a-0"


async def test_a_terminal_that_takes_no_copies_shows_the_text_to_select_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM_PROGRAM", "Apple_Terminal")
    async with watching(a_cluster(resting=["a-0"]), topics=["a"]) as watch:
        await watch.press("y", "j")
        assert "this terminal does not let programs copy" in watch.text
        assert '"topic": "a"' in watch.text
        await watch.press("escape")
        assert not watch.app.clipboard


def test_the_bytes_that_reach_the_terminal_are_one_osc_52() -> None:
    story = [sys.executable, "-m", "ktui", "demo"]
    with Terminal(story, env={"TMUX": "", "TERM_PROGRAM": ""}) as terminal:
        terminal.wait_for("↵ detail")
        terminal.wait_for("▌")
        terminal.send("y")
        name = terminal.wait_for("copy ").split("copy ", 1)[1].split()[0]
        terminal.send("n")
        terminal.wait_for("Sent to the terminal")
        sequence = b"\x1b]52;c;" + base64.b64encode(name.encode()) + b"\a"
        assert terminal.output.count(sequence) == 1


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
        state = word.split("  ")[0].replace("to roll back", "rolling back")
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


async def test_a_run_in_trouble_has_the_same_counts_everywhere_at_every_moment() -> None:
    async with draining(100) as watch:
        await watch.press("o")  # a row for every partition
        assert (await everywhere_the_same(watch))["stalled or held up"] == 0
        watch.cluster.do(layout.Kill(SPARE))
        for _ in range(12):
            await watch.pass_time(4)
            now = await everywhere_the_same(watch)
        assert now["stalled or held up"] == 4
        assert now["blocked"] == 17


async def test_a_rollback_has_the_same_counts_everywhere_at_every_moment() -> None:
    async with draining(200) as watch:
        await watch.press_and_see("o", "c", "up", "right")
        await watch.press("y")
        await watch.submit("drain-b3")
        await watch.pass_until("ROLLING BACK")
        for _ in range(8):
            await watch.pass_time(10)
            now = await everywhere_the_same(watch)
        assert now["rolled back"] > 8
