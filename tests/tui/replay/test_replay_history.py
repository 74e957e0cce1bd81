"""A replay's history and promises."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from ktui.cluster.observation import Observation
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.pacing.limits import Limits
from ktui.progress.timeline import Progress
from ktui.recording.reading import find_sessions
from ktui.recording.replay_tape import Tape
from ktui.rehearsal.twins import RehearsedTwin, rehearse
from ktui.simulated import layout
from ktui.simulated.clock import FIRST_MOMENT, VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.tui.poll import load_history, merge_history
from support.recordings.drained_recordings import MB, driven
from support.recordings.recordings import files_of
from support.simulated.moving_clusters import ONTO_4, TWIN, a_cluster, rehearsal_of
from support.simulated.observations import T0, T1, a_move, a_partition, an_observation, folded
from support.views.replays import Course, record_run, replaying
from support.views.watching import a_new_run, moved, watching_runs

NAMES = ("orders-0", "orders-1")


async def interrupted_run(folder: Path) -> tuple[SimulatedCluster, RunDir]:
    """Interrupt a run between its steps, some time after a broker died and came back."""
    cluster = a_cluster(resting=NAMES, messages=60_000)
    run = await record_run(
        StateDir(folder / "state"),
        cluster,
        a_new_run(moved(*NAMES), Limits(replicas=3, partitions=2)),
        Course({10.0: [layout.Kill(9)], 30.0: [layout.Start(9)]}, most_s=60.0),
        longest_s=15,
    )
    return cluster, run


async def test_a_view_of_a_run_starts_with_the_history_its_engine_recorded(tmp_path: Path) -> None:
    cluster, run = await interrupted_run(tmp_path)
    async with watching_runs(cluster, run=run.path) as watch:
        await watch.until(lambda: watch.app.attached is not None)
        await watch.until(lambda: len(watch.app.progress.events) > 2)
        await watch.see()
        timeline = watch.app.progress.timelines[watch.partitions.arrangement.rows[0]]
        assert watch.clock.monotonic() - timeline.began_s > 50
        await watch.press("e")
        assert "broker 9 is down" in watch.text
        listed = [event.what for event in watch.app.progress.events]
        assert sum(words.startswith("reassignment ") for words in listed) == len(NAMES)
        await watch.press_and_see("escape")
        assert watch.app.progress.last is watch.looks.last


async def test_an_unreadable_recording_is_reported_and_the_view_keeps_running(
    tmp_path: Path,
) -> None:
    cluster, run = await interrupted_run(tmp_path)
    for file in files_of(run.recording):
        file.write_bytes(gzip.compress(b"no line\n"))
    async with watching_runs(cluster, run=run.path) as watch:
        await watch.until(lambda: "is not shown" in watch.text)
        assert watch.app.notification is not None
        words = watch.app.notification.words
        assert words.startswith("What was seen of run drain-3 before is not shown: ")
        assert f"{files_of(run.recording)[0]}:1" in words
        await watch.see()
        assert watch.app.attached is not None


async def test_the_loaded_history_equals_what_the_view_itself_would_have_seen(
    tmp_path: Path,
) -> None:
    cluster, run = await interrupted_run(tmp_path)
    past = load_history(run, cluster.clock)
    assert past is not None
    looks = [
        each.what
        for each in Tape(find_sessions(run.recording)).play()
        if isinstance(each.what, Observation)
    ]
    assert past.last == looks[-1]
    assert [event.what for event in past.events] == [event.what for event in folded(looks).events]


async def test_a_run_that_ended_after_its_last_poll_opens_with_the_replicas_that_it_left(
    tmp_path: Path,
) -> None:
    cluster = a_cluster(resting=NAMES, messages=10_000)
    run = await record_run(
        StateDir(tmp_path / "state"),
        cluster,
        a_new_run(moved(*NAMES), Limits(replicas=3, partitions=2)),
        Course(most_s=2_000.0),
    )
    (file,) = files_of(run.recording)
    lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    while not _last_poll(run).reassigning:
        lines.pop()
        file.write_bytes(gzip.compress(b"".join(lines)))

    past = load_history(run, cluster.clock)

    assert past is not None
    assert {timeline.state.replicas for timeline in past.timelines.values()} == {(4, 5, 6)}


def _last_poll(run: RunDir) -> Observation:
    played = Tape(find_sessions(run.recording)).play()
    return [each.what for each in played if isinstance(each.what, Observation)][-1]


async def test_only_the_newest_part_of_a_long_recording_is_folded(tmp_path: Path) -> None:
    cluster, run = await interrupted_run(tmp_path)
    past = load_history(run, cluster.clock, most=40)
    assert past is not None
    (began,) = {timeline.began_s for timeline in past.timelines.values()}
    assert cluster.clock.monotonic() - began <= 21
    assert "broker 9 is down" not in [event.what for event in past.events]


async def test_a_run_that_ended_long_ago_opens_with_the_lanes_and_lag_of_its_moves(
    tmp_path: Path,
) -> None:
    cluster = a_cluster(resting=NAMES, messages=30_000)
    new_run = a_new_run(moved(*NAMES), Limits(replicas=3, partitions=1))
    await record_run(
        StateDir(tmp_path / "state"), cluster, new_run, Course(most_s=2_000.0, tail_s=700.0)
    )
    assert isinstance(cluster.clock, VirtualClock)
    cluster.clock.pass_time(3_600)
    async with watching_runs(cluster, folder=tmp_path) as watch:
        await watch.press("r", say="ENDED")
        await watch.press("enter")
        await watch.until(lambda: watch.app.attached is not None)
        await watch.see()
        await watch.until(lambda: len(watch.app.progress.events) > 2)
        await watch.pass_time(5)
        for name in NAMES:  # up to the end of the run, whenever that was
            assert re.search("▏▁+.*█+★", watch.line(name))
        assert "lately" not in watch.text
        await watch.press("enter")
        assert re.search("▁+▂+▃+▄+▅+▆+▇+█+╎", watch.line("*4     leader"))
        assert re.search("█+▇+▆+▅+▄+▃+▂+▁", watch.text), "the lag, down to nothing"
        await watch.press("escape", "v", say="Nothing is being reassigned.")


async def test_a_run_without_a_recording_has_no_history(tmp_path: Path) -> None:
    cluster = a_cluster(resting=NAMES)
    assert load_history(RunDir(tmp_path / "drain-3"), cluster.clock) is None


def seen(*seconds: int) -> list[Observation]:
    return [an_observation([a_move()], float(n), down={9} if n == 5 else ()) for n in seconds]


def test_the_recorded_history_and_the_views_own_merge_into_one() -> None:
    own = seen(*range(20, 30))
    both = merge_history(folded(seen(*range(20))), folded(own), own[0])
    whole = folded(seen(*range(30)))
    assert [event.what for event in both.events] == [event.what for event in whole.events]
    assert both.timelines[T0].began_s == whole.timelines[T0].began_s
    assert both.timelines[T0].phase == whole.timelines[T0].phase
    assert both.last == own[-1]


def copying(*seconds: int) -> list[Observation]:
    """Return polls of a replica that copies 100 of its 1,000 messages a second."""
    end, size = (T0, 4), 1_000
    return [
        an_observation(
            [a_move()],
            float(n),
            ends={(T0, 1): size, end: min(size, n * 100)},
            starts={T0: 0},
        )
        for n in seconds
    ]


def test_what_was_seen_while_the_history_was_read_is_drawn_as_it_was() -> None:
    own = copying(*range(3, 9))
    both = merge_history(folded(copying(*range(3))), folded(own), own[0], own)
    whole = folded(copying(*range(9)))
    assert both.timelines[T0].lanes[4].history == whole.timelines[T0].lanes[4].history
    assert both.timelines[T0].lag_history == whole.timelines[T0].lag_history
    assert both.timelines[T0].lanes[4].rate_messages_s == pytest.approx(100)


def test_flows_go_on_from_those_that_were_seen_before_the_view() -> None:
    sized = [
        an_observation(
            [a_move()],
            float(n),
            ends={(T0, 1): 1_000, (T0, 4): n * 10},
            sizes={(T0, 1): 1_000_000, (T0, 4): n * 10_000},
            starts={T0: 0},
        )
        for n in range(12)
    ]
    own = folded(sized[10:])
    assert own.flows.of(4).in_s is None
    both = merge_history(folded(sized[:10]), own, sized[10], sized[10:])
    whole = folded(sized)
    assert both.flows.of(4).in_s == whole.flows.of(4).in_s
    assert both.flows.history == whole.flows.history


def test_a_move_that_ends_while_the_history_is_read_is_reported_once() -> None:
    moving = seen(0, 1, 2)
    over = [an_observation([a_partition(T0, (4, 2, 3))], float(n)) for n in range(3, 12)]
    both = merge_history(folded(moving), folded(over), over[0], over)
    assert [event.what for event in both.events] == [
        event.what for event in folded([*moving, *over]).events
    ]


def test_news_from_after_the_views_last_poll_are_kept() -> None:
    own = seen(3, 4)
    both = merge_history(folded(seen(*range(6))), folded(own), own[0], own)
    assert "broker 9 is down" in [event.what for event in both.events]


def test_a_merge_keeps_moves_seen_only_by_the_view() -> None:
    own = [an_observation([a_move(), a_move(T1)], float(n)) for n in range(20, 30)]
    both = merge_history(folded(seen(*range(25))), folded(own), own[0])
    assert both.timelines.keys() == {T0, T1}
    assert both.timelines[T0].began_s == 0
    assert both.timelines[T1].began_s == 20


@pytest.mark.parametrize("nothing", [Progress()])
def test_a_view_without_polls_starts_with_the_recorded_history(nothing: Progress) -> None:
    past = folded(seen(1, 2, 3))
    assert merge_history(past, nothing, None) == past
    assert merge_history(nothing, past, past.last) == past


@pytest.fixture
def rehearsed(tmp_path: Path) -> RehearsedTwin:
    rehearsal = rehearsal_of(ONTO_4, "kill 5 at 50%")
    (usual,) = rehearse(rehearsal, TWIN.at(50e6), start=FIRST_MOMENT, record=tmp_path)
    return usual


async def test_a_rehearsal_is_replayed_with_its_run_and_what_broke_it(
    rehearsed: RehearsedTwin,
) -> None:
    assert rehearsed.recording is not None
    recording, ended_s = Path(rehearsed.recording), rehearsed.summary.time_s
    async with replaying(recording, at_s=ended_s / 4) as replay:
        assert "prod.yaml (simulated)   REPLAY" in replay.lines[0]
        await replay.say("run moves  RUNNING")
        await replay.surveyed()
        await replay.press("full_stop")
        await replay.say("broker 5: log dirs")  # it does not answer, and is not fenced yet
        await replay.press("full_stop", say="broker 5 down")
    async with replaying(recording, at_s=ended_s + 1) as replay:
        await replay.say("moves ENDED")
        assert "done 2/2" in replay.text


SIZES = [90 * MB, 150 * MB, 120 * MB, 60 * MB, 180 * MB, 105 * MB]
WIDE = (200, 40)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that cannot keep its time, for its objective lets it go at 3.2 MB/s at most."""
    folder = tmp_path_factory.mktemp("driven")
    driven(folder, within_s=70, sizes=SIZES, name="driven")
    return folder / "driven"


async def test_a_replay_shows_a_promise_as_it_stood_at_the_moment_played(recording: Path) -> None:
    async with replaying(recording, WIDE, at_s=5.5) as replay:
        await replay.press("p", say="load<8 no figure")
        assert "throttle 1.0 MB/s into each broker" in replay.line("load<8")
        assert "kept" not in replay.line("load<8")

        await replay.press(*["right"] * 3, say="load<8 2 100% kept")
        assert "throttle 3.1 MB/s into each broker" in replay.line("load<8")

        await replay.press(*["right"] * 2, say="load<8 no figure 60% kept")
        assert "throttle 1.0 MB/s into each broker" in replay.line("load<8")
        assert "CANNOT BE DONE BY 00:01: 00:04 AT THE SOONEST" in replay.line("run driven")

        await replay.press(*["left"] * 2, say="load<8 2 100% kept")
