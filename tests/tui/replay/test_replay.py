from __future__ import annotations

from pathlib import Path

import pytest

from ktui.cluster.errors import Failure, Operation
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.pacing.limits import Limits
from ktui.recording.recorder import Recorder
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.tui.screens.detail.screen import DetailScreen
from support.recordings.recordings import a_recording, damaged, files_of
from support.simulated.moving_clusters import a_cluster
from support.simulated.observations import START, a_move, an_observation
from support.views.replays import Course, Replaying, recorded_run, replaying
from support.views.screens import resize
from support.views.watching import SMALL, a_new_run, moved

NAMES = ("orders-0", "orders-1", "orders-2")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """A run of some minutes, during which a broker dies and comes back."""
    return recorded_run(
        StateDir(tmp_path_factory.mktemp("state")),
        a_cluster(resting=NAMES, messages=20_000),
        a_new_run(moved(*NAMES), Limits(replicas=3, partitions=2)),
        Course({10.0: [layout.Kill(9)], 30.0: [layout.Start(9)]}),
        longest_s=20,
    )


def line(replay: Replaying) -> str:
    """Return the line with the position of the replay."""
    return replay.lines[2]


async def test_a_replay_shows_the_recorded_polls_and_is_marked_as_a_replay(run: RunDir) -> None:
    async with replaying(run.recording) as replay:
        assert "prod-eu   REPLAY" in replay.lines[0]
        assert line(replay).lstrip().startswith("0:00 / ")
        assert "2026-01-01" in line(replay)
        assert "x1 " in line(replay)
        await replay.pass_time(2)
        await replay.say("0:02 / ")
        await replay.say("run drain-3  RUNNING")
        assert "orders-0" in replay.text


async def test_in_a_wide_terminal_what_is_queued_is_drawn_as_waiting(run: RunDir) -> None:
    async with replaying(run.recording, (150, 60), at_s=20.0) as replay:
        await replay.say("queued (1)")
        (queued,) = (each for each in replay.lines if "queued (1)" in each)
        assert "┄┄" in queued
        assert "━" not in queued
        # the list of runs names the recording
        await replay.press("r", say="─ runs 1 · ")
        assert f"in the recording {run.recording} ─" in replay.line("─ runs 1 · ")
        assert "ktui-replay-" not in replay.text
        await replay.press("escape")
        # the line fits every terminal
        await replay.press("p", "shift+left")
        await replay.surveyed()
        for size in ((200, 60), SMALL):
            await resize(replay.pilot, size)
            assert "▕" in line(replay)
            assert "!" in line(replay)
            assert line(replay).endswith("▏")
            assert all(len(each) <= size[0] for each in replay.lines)


async def test_a_replay_pauses_and_resumes(run: RunDir) -> None:
    async with replaying(run.recording) as replay:
        await replay.press("p")
        assert "PAUSED" in line(replay)
        await replay.pass_time(3)
        assert replay.position_s < 0.5
        await replay.press("p")
        assert "PAUSED" not in line(replay)
        await replay.pass_time(3)
        assert 2.9 < replay.position_s < 4
        # a click on the line goes there
        await replay.press("p")
        await replay.surveyed()
        bar = line(replay)
        middle = (bar.index("▕") + bar.index("▏")) // 2
        await replay.pilot.click(offset=(middle, 2))
        await replay.at_rest()
        position = replay.playing.position
        share = (position.at_s - position.from_s) / (position.until_s - position.from_s)
        assert 0.45 < share < 0.55


async def test_a_replay_speeds_up_and_slows_down(run: RunDir) -> None:
    async with replaying(run.recording, speed=3.0) as replay:
        await replay.press("plus")
        assert "x5 " in line(replay)
        await replay.pass_time(2)
        assert 9.9 < replay.position_s < 12
        await replay.press("minus", "minus")
        assert "x1 " in line(replay)
        await replay.press(*["minus"] * 9)
        assert "x0.1 " in line(replay)
        await replay.press(*["plus"] * 20)
        assert "x1000 " in line(replay)


async def test_the_arrows_seek_back_and_forward_even_while_paused(run: RunDir) -> None:
    async with replaying(run.recording) as replay:
        await replay.press("p", "right", "right")
        assert line(replay).lstrip().startswith("0:2")
        assert "broker 9 down" in replay.lines[1]
        await replay.press("left", "left", "left")
        assert line(replay).lstrip().startswith("0:00")
        assert "9/9 brokers" in replay.lines[0]
        await replay.press("shift+right")
        assert line(replay).lstrip().startswith("1:00")
        assert "9/9 brokers" in replay.lines[0]
        await replay.press("shift+left")
        assert line(replay).lstrip().startswith("0:00")


async def test_the_arrows_move_the_cursor_in_a_text_field(run: RunDir) -> None:
    async with replaying(run.recording) as replay:
        await replay.press("p", "slash", *"ordrs", "left", "left", "e", "enter")
        assert "/orders" in replay.text.replace("filter ", "/")
        assert replay.position_s < 0.5
        # a chosen view stays when it goes somewhere else
        await replay.press("escape", say="run drain-3  RUNNING")
        await replay.press("v")
        assert "reassigning" in replay.text
        await replay.press("shift+right", "left", "shift+left")
        assert "reassigning" in replay.text


async def test_every_screen_shows_the_replay_position_and_follows_it(run: RunDir) -> None:
    async with replaying(run.recording) as replay:
        await replay.press("p", say="run drain-3  RUNNING")
        for key in ("b", "e", "l", "t", "r", "enter"):
            await replay.press(key)
            assert "PAUSED" in replay.text
            assert "0:00 / " in replay.text
            await replay.press("right")
            assert "0:10 / " in replay.text
            await replay.press("left", "escape")


async def test_the_keys_of_a_replay_work_in_the_dialogs_of_a_run(run: RunDir) -> None:
    async with replaying(run.recording) as replay:
        await replay.press("p", say="run drain-3  RUNNING")
        for key in ("l", "t"):
            await replay.press(key)
            assert "PAUSED" in replay.text
            await replay.press("p")
            assert "PAUSED" not in replay.text
            await replay.press("p", "escape")


async def test_a_replay_jumps_from_event_to_event_and_shows_each(run: RunDir) -> None:
    async with replaying(run.recording) as replay:
        await replay.press("p", "full_stop")
        assert replay.message == "broker 9 is down"
        at_s = replay.position_s
        await replay.press("full_stop")
        assert replay.message == "broker 9 is back"
        await replay.press("comma")
        assert replay.message == "broker 9 is down"
        assert replay.position_s == at_s


async def test_a_replay_jumps_to_a_typed_time(run: RunDir) -> None:
    async with replaying(run.recording) as replay:
        await replay.press("p", "a", say="The recording goes from 2026-01-01")
        await replay.press(*"soon", "enter", say="'soon' is not a moment. Use 14:02:31")
        await replay.press(*["backspace"] * 4, "plus", *"25s", "enter")
        assert line(replay).lstrip().startswith("0:25")
        await replay.press("a", "escape")
        assert line(replay).lstrip().startswith("0:25")


async def test_a_replay_stops_at_its_end_and_starts_over_on_play(run: RunDir) -> None:
    async with replaying(run.recording, speed=100.0) as replay:
        await replay.pass_time(3)
        assert "END" in line(replay)
        assert "drain-3 ENDED" in replay.text
        await replay.press("p")
        assert "END" not in line(replay)
        await replay.say("run drain-3  RUNNING")


async def test_a_replayed_run_shows_its_state_at_that_moment_and_offers_no_actions(
    run: RunDir,
) -> None:
    async with replaying(run.recording) as replay:
        await replay.press("p", say="run drain-3  RUNNING")
        assert "done 0/3" in replay.line("run drain-3")
        assert "step 1/" in replay.line("orders-0")
        await replay.press("right", "right")
        assert " 0 B of" not in replay.line("run drain-3")
        await replay.press(*["shift+right"] * 20, say="drain-3 ENDED")
        assert "done 3/3" in replay.lines[1]
        await replay.press(*["shift+left"] * 20, say="run drain-3  RUNNING")
        assert "done 0/3" in replay.line("run drain-3")
        assert "resume" not in replay.text
        assert len(replay.app.screen_stack) == 1


async def test_nothing_can_be_changed_in_a_replay(run: RunDir) -> None:
    async with replaying(run.recording) as replay:
        await replay.press("p", say="run drain-3  RUNNING")
        await replay.press("n", "c", "X", "O")
        assert len(replay.app.screen_stack) == 1
        await replay.press("P")
        assert replay.message == "A replay is read-only: nothing can be changed in it."
        await replay.press("l")
        assert "A replay is read-only" in replay.text
        await replay.press("escape", "r", say="engine: ")
        assert "A replay is read-only" not in replay.text
        await replay.press("R")
        assert "A replay is read-only: nothing can be changed in it." in replay.text


async def test_the_detail_of_a_partition_follows_the_replay_backwards(run: RunDir) -> None:
    async with replaying(run.recording) as replay:
        await replay.press("p", "shift+right", say="drain-3")
        await replay.press("enter")
        assert isinstance(replay.app.screen, DetailScreen)
        later = replay.text.count("joined the ISR")
        await replay.press("shift+left")
        assert replay.text.count("joined the ISR") < later


async def test_the_footer_and_the_help_list_the_replay_keys(run: RunDir) -> None:
    async with replaying(run.recording) as replay:
        footer = replay.lines[-1]
        for words in ("play/pause", "←→ 10 s", "-+ speed", ". next event", "a go to", "q quit"):
            assert words in footer
        for words in ("start plan", "cancel", "mark"):
            assert words not in footer
        await replay.press("question_mark", "slash", *"recording")
        assert "Pause the recording, or go on" in replay.text
        assert "shift+→" in replay.text


async def test_closing_a_replay_prints_the_command_to_resume_it(
    run: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    async with replaying(
        run.recording, again=lambda at: f"ktui replay drain-3 --at {at}"
    ) as replay:
        await replay.press("p", "right", "right", "q")
    words = capsys.readouterr().err
    assert "ktui: replay closed at 0:20. " in words
    assert "To go on from there: ktui replay drain-3 --at +20s" in words


# ------------------------------------------------------------- gaps in the recording


async def test_a_replay_shows_the_cluster_as_lost_and_found_again(tmp_path: Path) -> None:
    clock = VirtualClock(START)
    recorder = Recorder(tmp_path, clock, program="a test")
    for second in range(30):
        if 10 <= second < 20:
            recorder.lost("connection refused")
        else:
            recorder.poll(an_observation([a_move()], float(second)))
        clock.pass_time(1)
    recorder.close()
    async with replaying(tmp_path, at_s=5) as replay:
        await replay.press("p", "right")
        assert "does not answer, last" in replay.text
        assert "connection refused" in replay.text
        await replay.press("right")
        assert "does not answer, last" not in replay.text
        await replay.press("e")
        assert "cluster lost: connection refused" in replay.text
        assert "cluster answers again after 11 s" in replay.text
        await replay.press("left")
        assert "cluster answers again" not in replay.text
        assert "does not answer, last" in replay.text


async def test_a_replay_shows_the_failures_of_a_recorded_poll(
    tmp_path: Path,
) -> None:
    failure = Failure(Operation.LOG_ENDS, "no answer for 12 s", broker=3)
    polls = [an_observation([a_move()], float(n), failures=(failure,)) for n in range(10)]
    async with replaying(a_recording(tmp_path, polls)) as replay:
        assert "! broker 3: log ends" in replay.text


async def test_damage_is_reported_with_its_file_and_line_and_listed_in_the_events(
    tmp_path: Path,
) -> None:
    polls = [an_observation([a_move()], float(n)) for n in range(60)]
    (file,) = files_of(a_recording(tmp_path, polls, whole_every_s=30))
    damaged(file, line=12)
    async with replaying(tmp_path, speed=10.0) as replay:
        await replay.pass_time(2)
        assert replay.message.startswith("The recording is damaged: ")
        assert f"{file.name}:12: its checksum is missing or wrong" in replay.message
        await replay.press("p", "e")
        assert "the recording is damaged:" in replay.text
        await replay.press("shift+right")
        assert "END" in replay.text


async def test_a_replay_notes_partitions_missing_from_the_recording(tmp_path: Path) -> None:
    polls = [an_observation([], float(n)) for n in range(10)]
    async with replaying(a_recording(tmp_path, polls)) as replay:
        assert "Nothing is being reassigned." in replay.text
        await replay.press("v")
        assert "The recording does not have these" in replay.text


async def test_a_run_with_a_missing_beginning_is_reported_as_not_shown(
    run: RunDir, tmp_path: Path
) -> None:
    for file in files_of(run.recording)[1:]:
        (tmp_path / file.name).write_bytes(file.read_bytes())
    async with replaying(tmp_path, speed=100.0) as replay:
        await replay.pass_time(3)
        await replay.press("e")
        assert "of run drain-3 are not in the recording: the run is not shown" in replay.text
