"""The lanes of a partition's detail on one axis of time: boundaries, a cursor, the forecast."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from textual.app import ComposeResult
from textual.screen import Screen

from ktui.cluster.broker import TopicConfig
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.host.state_dir import StateDir
from ktui.pacing.limits import Limits
from ktui.progress.row import MOST_PARTITIONS, MOST_SAMPLES, OpenPartitions, RateMemory
from ktui.progress.timeline import LagHistory, Lane, Mark, Phase, Progress, Role, Timeline
from ktui.simulated import layout
from ktui.speed.answer import Span
from ktui.tui.screens.detail.screen import DetailPane, DetailScreen
from support.views.replays import Course, record_run, replaying
from support.views.screens import (
    BEGAN_S,
    SIZES,
    TP,
    history,
    hosted,
    line_with,
    observation,
    progress,
    resize,
    screen_text,
    text_of,
    timeline,
)
from support.views.situations import drain, production, situation_of
from support.views.watching import LARGE, a_new_run

LEFT = Span(60, 72, 110)


def moving(**changes: Any) -> Timeline:
    """Return a move under way for ten minutes that drops 3 for 4, seven eighths caught up."""
    copying = timeline().lanes[4]
    given: dict[str, Any] = {
        "phase": Phase.MOVING,
        "state": PartitionState(TP, None, (1, 2, 4, 3), (1, 2, 3), 1, 12, (4,), (3,)),
        "target": (1, 2, 4),
        "lanes": {b: timeline().lanes[b] for b in (1, 2, 3)} | {4: copying},
    }
    return timeline(**{**given, **changes})


async def seen_at(size: tuple[int, int], seen: Progress, *keys: str) -> str:
    return await text_of(DetailScreen(TP), seen, *keys, size=size)


@pytest.mark.parametrize("size", SIZES)
async def test_behind_now_the_forecast_shows_the_copy_caught_up_and_what_is_dropped(
    size: tuple[int, int],
) -> None:
    text = await seen_at(size, progress(moving()))
    now = line_with(text, "to leave").index("║")
    assert line_with(text, "forecas").index("now") < now
    assert "caught up" in text
    after = line_with(text, "adding")[now:]
    assert "━" in after
    gone = line_with(text, "to leave")[now:]
    assert gone.rstrip("━ ╎║") == ""
    assert gone.split("╎")[1].strip() == ""
    cells = line_with(text, "in sync").rstrip()
    began = cells.index("│")
    assert len(cells) - now <= (len(cells) - began) / 3  # never more than a quarter of the axis


@pytest.mark.parametrize(
    "seen",
    [timeline(), moving(phase=Phase.DONE, ended_at=observation(251).at)],
    ids=["stalled", "done"],
)
async def test_without_a_forecast_nothing_stands_behind_now(seen: Timeline) -> None:
    text = await seen_at((120, 34), progress(seen))
    assert "forecast" not in text
    assert "║" not in text


async def test_the_cursor_reads_every_lane_at_its_moment_and_esc_goes_back_to_now() -> None:
    async with hosted(DetailScreen(TP), size=(120, 34)) as view:
        now = await view.show(progress(moving()))
        await view.press("shift+left", "shift+left", "left")
        text = view.text
        at = line_with(text, "▼")
        assert "at 14:" in at
        assert line_with(text, "*1     ").endswith("leader")
        assert line_with(text, "in sync   ").endswith("in sync")
        assert line_with(text, "to leave").endswith("to leave")
        assert line_with(text, "adding").endswith("%")
        assert line_with(text, "adding").split()[-1] != "87%"
        assert "~" in line_with(text, "copied peak")  # nobody measured it then
        await view.press("right")
        assert line_with(view.text, "▼") != at
        for back in ("escape", "end"):
            await view.press("<", back)
            assert view.text == now
        await view.press("escape")
        assert view.left


async def test_the_cursor_stays_on_its_moment_while_time_goes_on_and_a_click_moves_it() -> None:
    async with hosted(DetailScreen(TP), progress(moving()), size=(120, 34)) as view:
        await view.press("shift+left")
        before = line_with(view.text, "▼").split()[-1]
        text = await view.show(progress(moving(), last=observation(660)))
        assert line_with(text, "▼").split()[-1][:5] == before[:5]
        lane = line_with(text, "*1     ")
        row = next(y for y, line in enumerate(text.splitlines()) if line == lane)
        await view.pilot.click(offset=(lane.index("═") + 3, row))
        await view.pilot.pause()
        assert line_with(view.text, "▼").index("▼") == lane.index("═") + 3


async def test_z_shows_the_last_minutes_and_keeps_that_for_the_next_partition() -> None:
    async with hosted(DetailScreen(TP), size=(120, 34)) as view:
        whole = await view.show(progress(moving()))
        assert "begun" in whole
        await view.press("z", "z")
        minute = view.text
        assert "begun" not in minute
        assert "last 1m (z)" in minute
        assert "(z)" not in whole
        assert ":30" in line_with(minute, "role")
        await view.press("z")
        assert view.text == whole


async def test_a_move_that_has_just_begun_has_most_of_the_width() -> None:
    young = await seen_at((120, 34), progress(moving(), last=observation(12)))
    lane = line_with(young, "*1     ").split("║")[0]
    assert lane.count("═") > 0.6 * (len(lane) - lane.index("eu-1b"))
    assert "begun" in young


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("ran_s", [0, 1, 3, 11, 40, 599])
async def test_a_move_of_any_age_is_drawn_in_any_width(width: int, ran_s: int) -> None:
    points = LagHistory.of((BEGAN_S + at, 1_000 * (ran_s + 1 - at)) for at in range(ran_s + 1))
    seen = progress(moving(lag_history=points), last=observation(ran_s))
    for keys in ((), ("<",), ("<", "z"), ("z", "z", "shift+left")):
        assert "adding" in await seen_at((width, 40), seen, *keys)


@pytest.mark.parametrize("size", [(20, 10), (40, 12), (70, 24), (300, 80)])
async def test_a_terminal_of_any_size_draws_any_partition(size: tuple[int, int]) -> None:
    nothing = PartitionState(TP, None, (), (), None, described=False)
    for seen in (timeline(), timeline(lanes={}), timeline(lanes={}, state=nothing)):
        assert "orders-1" in await seen_at(size, progress(seen), "<", "<")


async def test_fewer_replicas_in_sync_than_min_isr_stand_out_without_colour() -> None:
    lanes = {
        1: Lane(1, Role.LEADER, history=history((Mark.LEADER, 150))),
        2: Lane(2, Role.OUT_OF_SYNC, history=history((Mark.IN_SYNC, 75), (Mark.OUT_OF_SYNC, 75))),
        3: Lane(3, Role.OUT_OF_SYNC, history=history((Mark.IN_SYNC, 30), (Mark.OUT_OF_SYNC, 120))),
    }
    state = PartitionState(TP, None, (1, 2, 3), (1,), 1)
    seen = progress(
        timeline(
            phase=Phase.MOVING, state=state, lanes=lanes, lag_history=LagHistory(), target=(1, 2, 3)
        ),
        last=observation(topic_configs={"orders": TopicConfig(min_insync_replicas=2)}),
    )
    row = line_with(await seen_at((120, 34), seen), "ISR size")
    for part in ("3────", "2░░░", "1!!!", "1, min 2"):
        assert part in row


def ten_replicas() -> Progress:
    """Return a move from brokers 1 to 5 to five others, half caught up."""
    adding = {
        b: Lane(b, Role.ADDING, share=0.5, history=history((50, 150))) for b in (6, 7, 8, 10, 11)
    }
    retiring = {b: Lane(b, Role.RETIRING, history=history((105, 150))) for b in range(1, 6)}
    every = (*adding, *retiring)
    return progress(
        moving(
            lanes=retiring | adding, lag_history=LagHistory(),
            target=tuple(adding), original=tuple(retiring),
            state=PartitionState(TP, None, every, tuple(retiring), 1, 1, tuple(adding)),
        )
    )  # fmt: skip


class PanelScreen(Screen[None]):
    """Only the panel that stands under the list."""

    def compose(self) -> ComposeResult:
        yield DetailPane()

    def show_progress(self) -> None:
        self.query_one(DetailPane).show_partition(TP, again=True)


async def test_eight_lines_have_the_lanes_that_tell_most_and_count_the_others() -> None:
    async with hosted(PanelScreen(), size=(100, 8)) as view:
        await view.pilot.pause()
        view.app.show(ten_replicas())
        await view.pilot.pause()
        title, heading, *lanes = view.text.splitlines()
        assert "orders-1 · moving 50%" in title
        assert "now" in heading
        assert [lane.split()[1] for lane in lanes] == ["next", *["adding"] * 4, "5"]
        assert lanes[-1].strip() == "… 5 more (↵)"


async def test_each_of_ten_replicas_has_a_lane_in_a_small_terminal() -> None:
    seen = ten_replicas()
    async with hosted(DetailScreen(TP), seen, size=(80, 24)) as view:
        body = str(view.screen.query_one(".text").render())
        named = {line.split()[0].strip("*>+-!") for line in body.splitlines() if line.strip()}
        assert {"1", "2", "3", "4", "5", "6", "7", "8", "10", "11"} <= named
        assert "events, newest first" in body


async def test_steps_and_batches_cross_all_lanes_and_are_named_above_them() -> None:
    async with situation_of("detail").enter() as pilot:
        text = screen_text(pilot.app)
        named = line_with(text, "│ batch 4, step 1: adds 5")
        place = named.index("│")
        for lane in (
            "*-3     leader, leaves",
            "  4     in sync",
            ">+5     next leader",
            "lag peak",
            "copied",
        ):
            assert line_with(text, lane)[place] == "│", lane
        assert "drops 3" in named  # the step that the forecast expects
        _, lasting, then = re.split("[║╎]", line_with(text, ">+5     next leader"))
        assert "═" not in lasting
        assert "═" in then  # it leads once 3 is dropped
        assert "/40 MB/s per broker" in line_with(text, "copied peak")
        for words in ("with c or p", "c stop or roll back", "p pause", "no other begins"):
            assert words in text
        assert "trim" not in text  # it would do the same as a stop


async def test_the_panel_under_the_list_has_lanes_lag_and_rate_in_few_lines() -> None:
    async with situation_of("drain").enter() as pilot:
        assert ">+5 *-3" in line_with(screen_text(pilot.app), "clicks-6   ")  # as its lanes do
        await resize(pilot, (120, 33))
        panel = screen_text(pilot.app).split("─ 1 clicks-6 · ")[1]
        title, *lines = panel.splitlines()[:-1]
        for words in ("step 1/2", "adds 5, batch 4", "then drops 3", "left 1", "target 5 4 1"):
            assert words in title
        assert len(lines) <= 9
        for lane in ("*-3  ", " 4  ", " 1  ", ">+5  ", "lag peak", "copied peak", "forecast"):
            assert [line for line in lines if lane in line] != [], lane


async def test_a_rollback_shows_the_steps_before_it_when_it_was_requested_and_what_comes() -> None:
    async with situation_of("rollback-of-everything").enter() as pilot:
        await pilot.press("home", "enter")
        await resize(pilot, (128, 40))
        text = screen_text(pilot.app)
        assert "rollback requested ↩" in text
        assert "drops 5" in line_with(text, "rollback requested ↩")
        # the lanes go on from the move before, as its row does
        leaving = line_with(text, "to leave        eu-1c")
        copied, kept = leaving.index("█"), leaving.index("━━━")
        assert copied < kept < leaving.index("↩")
        assert "step 3: adds 3" in text or "3  1 2 5 3  adds 3" in text


async def test_without_an_answer_of_the_cluster_nothing_is_expected() -> None:
    async with situation_of("cluster-gone").enter() as pilot:
        await pilot.press("home", "enter")
        await resize(pilot, (120, 40))
        text = screen_text(pilot.app)
        assert "forecast" not in text
        assert "00:02:40" in line_with(text, "role")  # the last answer, in place of now
        assert "now" not in line_with(text, "role")


async def test_in_a_replay_the_arrows_seek_and_the_cursor_has_keys_of_its_own(
    tmp_path: Path,
) -> None:
    course = Course({60.0: [layout.Kill(5)]}, 100.0, 1.0, 10.0)
    wanted = a_new_run(drain("clicks"), Limits(replicas=1, partitions=5), "drain-b3")
    run = await record_run(StateDir(tmp_path / "state"), production(), wanted, course)
    async with replaying(run.recording, LARGE, at_s=50, name="drain-b3", speed=10.0) as replay:
        await replay.press("p")
        await replay.surveyed()
        await replay.say("run drain-b3")
        await replay.press("enter")
        await replay.press("<", "<")
        assert "▼" in screen_text(replay.app)
        await replay.press(">", ">")
        assert "▼" not in screen_text(replay.app)


def sample(memory: RateMemory, at_s: float, rate: float) -> None:
    lane = Lane(4, Role.ADDING, share=0.5, rate_bytes_s=rate)
    memory.note(moving(lanes={4: lane}), at_s)


def test_rates_are_kept_for_the_open_partitions_alone_within_a_bound() -> None:
    opened = OpenPartitions()
    first = opened.memory(TP)
    for second in range(10 * MOST_SAMPLES):
        sample(first, BEGAN_S + second, second)
    assert len(first._samples) <= MOST_SAMPLES
    assert opened.memory(TP) is first
    newest = first.last_before(BEGAN_S + 10 * MOST_SAMPLES, 2.0)
    assert newest is not None
    assert newest.copied_s == 10 * MOST_SAMPLES - 1
    old = first.last_before(BEGAN_S + 5 * MOST_SAMPLES, 60.0)
    assert old is not None
    for number in range(MOST_PARTITIONS):
        opened.memory(TopicPartition("orders", 100 + number))
    assert opened.memory(TP) is not first


def test_a_recording_that_goes_back_forgets_the_rates_of_later_moments() -> None:
    memory = RateMemory()
    for second in (10.0, 20.0, 30.0, 15.0):
        sample(memory, second, second)
    assert memory.last_before(100.0, 1_000.0) == memory.last_before(16.0, 1_000.0)
