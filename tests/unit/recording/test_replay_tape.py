"""A replay's tape and clock."""

import asyncio
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from ktui.cluster.errors import Unreachable
from ktui.cluster.observation import Observation
from ktui.cluster.observer import NO_INTEREST, Interest
from ktui.cluster.ports import ConfigChange, ConfigOp
from ktui.cluster.settings import topic_resource
from ktui.recording.reading import Damage, PlayedPoll, find_sessions
from ktui.recording.recorder import Recorder
from ktui.recording.replay_tape import (
    FASTEST,
    SLOWEST,
    Axis,
    RecordingSource,
    ReplayClock,
    Tape,
    TapeItem,
    parse_second,
)
from ktui.recording.segments import LostPollLine, RunLine, to_ms, wall_ms
from ktui.simulated import layout
from ktui.simulated.clock import FIRST_MOMENT, VirtualClock
from support.recordings.recordings import (
    a_recording,
    all_to_the_millisecond,
    damaged,
    files_of,
    happenings,
    seen_in,
)
from support.simulated.observations import (
    EVERYONE,
    START,
    T0,
    Looking,
    a_move,
    an_observation,
    looking_at_a_move,
)


def a_history(first_s: float = 100.0, polls: int = 60, step_s: float = 10.0) -> list[Observation]:
    """Return polls of a move that copies without an end."""
    return [
        an_observation([a_move()], first_s + n * step_s, ends={(T0, 1): 10_000, (T0, 4): 10 * n})
        for n in range(polls)
    ]


def polls(passings: list[TapeItem]) -> list[Observation]:
    return [each.what for each in passings if isinstance(each.what, Observation)]


def test_a_tape_plays_the_polls_in_order(tmp_path: Path) -> None:
    history = a_history()
    tape = Tape(find_sessions(a_recording(tmp_path, history)))
    passings = list(tape.play())
    assert polls(passings) == history
    assert all(a.at_s <= b.at_s and a.place <= b.place for a, b in pairwise(passings))
    assert (tape.first_look_s, tape.until_s) == (100.0, 690.0)
    assert tape.wall(tape.until_s) == START + timedelta(seconds=690)
    assert tape.second(START + timedelta(seconds=400)) == pytest.approx(400.0)


def test_a_tape_plays_on_from_any_place(tmp_path: Path) -> None:
    tape = Tape(find_sessions(a_recording(tmp_path, a_history(polls=25), longest_s=60)))
    whole = list(tape.play())
    assert len(files_of(tmp_path)) > 3
    for number, passing in enumerate(whole):
        assert list(tape.play(passing.place)) == whole[number + 1 :]


def test_events_of_a_run_have_the_time_of_their_place_also_where_a_tape_is_played_on(
    tmp_path: Path,
) -> None:
    clock = VirtualClock(START)
    recorder = Recorder(tmp_path, clock, program="a test")
    for poll in an_hour_of_polls_by(clock):
        recorder.poll(poll)
    for entry in (1, 2):
        recorder.run_event("drain", "drain@1", entry, START, b"{}")
    recorder.close()
    tape = Tape(find_sessions(tmp_path))
    first, second = (each for each in tape.play() if isinstance(each.what, RunLine))
    assert first.at == second.at == START + timedelta(hours=1)
    assert next(tape.play(first.place)).at == second.at


def an_hour_of_polls_by(clock: VirtualClock) -> Iterator[Observation]:
    for passed_s in (0, 3600):
        clock.pass_time(passed_s)
        yield an_observation([a_move()], clock.monotonic())


def test_sessions_on_the_same_clock_keep_their_seconds(tmp_path: Path) -> None:
    a_recording(tmp_path, a_history(polls=5))
    a_recording(tmp_path, a_history(900.0, polls=5))
    tape = Tape(find_sessions(tmp_path))
    assert [each.monotonic_s for each in polls(list(tape.play()))][5:] == [
        900 + 10 * n for n in range(5)
    ]
    assert [(s.from_s, s.until_s) for s in tape.stretches] == [(100, 140), (900, 940)]


def restarted(history: list[Observation], by_s: float) -> list[Observation]:
    """Return the same polls with a monotonic clock that started that much later."""
    shifted = []
    for seen in history:
        ends = {key: msgspec.structs.replace(r, at_s=r.at_s - by_s) for key, r in seen.ends.items()}
        shifted.append(
            msgspec.structs.replace(seen, monotonic_s=seen.monotonic_s - by_s, ends=ends)
        )
    return shifted


def test_sessions_around_a_restart_are_aligned_by_wall_time(tmp_path: Path) -> None:
    first, second = a_history(polls=5), a_history(900.0, polls=5)
    a_recording(tmp_path, first)
    a_recording(tmp_path, restarted(second, 850.0), monotonic_from_s=-850.0)
    assert polls(list(Tape(find_sessions(tmp_path)).play())) == [*first, *second]


def test_a_tape_is_aligned_to_another_clock_by_wall_time(tmp_path: Path) -> None:
    history = a_history(polls=5)
    a_recording(tmp_path, restarted(history, 70.0), monotonic_from_s=-70.0)
    axis = Axis(wall_ms(START), to_ms(0.0))
    assert polls(list(Tape(find_sessions(tmp_path), axis).play())) == history


def test_a_damaged_line_is_reported_with_its_place_and_the_rest_is_played(tmp_path: Path) -> None:
    history = a_history(polls=40)
    file = a_recording(tmp_path, history, whole_every_s=100)
    damaged(files_of(file)[0], line=13)
    passings = list(Tape(find_sessions(tmp_path)).play())
    seen = polls(passings)
    damage = next(each.what for each in passings if isinstance(each.what, Damage))
    assert damage.number == 13
    assert seen[:11] == history[:11]
    assert seen[-10:] == history[-10:]
    assert all(each in history for each in seen)


def test_a_file_that_is_cut_off_plays_up_to_its_cut(tmp_path: Path) -> None:
    history = a_history(polls=40)
    (file,) = files_of(a_recording(tmp_path, history))
    file.write_bytes(file.read_bytes()[:-200])
    passings = list(Tape(find_sessions(tmp_path)).play())
    seen = polls(passings)
    assert seen == history[: len(seen)]
    assert len(seen) > 20
    assert isinstance(passings[-1].what, Damage)


def test_a_tape_can_play_only_the_newest_polls(tmp_path: Path) -> None:
    history = a_history(polls=25)
    tape = Tape(find_sessions(a_recording(tmp_path, history, longest_s=60)))
    assert polls(list(tape.play(tape.last_polls(7)))) == history[-7:]
    assert tape.last_polls(25) is None


@pytest.fixture
def two_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tape]:
    """A tape of 36 hours from 12:01:40, in UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield Tape(find_sessions(a_recording(tmp_path, a_history(polls=37, step_s=3_600))))
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "second"),
    [
        ("+0s", 100.0),
        ("+1h30m", 5_500.0),
        ("+ 90s", 190.0),
        ("12:01:40", 100.0),
        ("13:00", 3_600.0),
        ("12:01", 86_460.0),
        ("2026-01-02 01:00", 46_800.0),
        ("2026-01-02T02:00+01:00", 46_800.0),
    ],
)
def test_a_moment_can_be_written_in_several_ways(two_days: Tape, text: str, second: float) -> None:
    assert parse_second(text, two_days) == pytest.approx(second)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("soon", "'soon' is not a moment. Use 14:02:31, 2026-11-21 14:02, or"),
        ("2026-01-02", "is not a moment"),
        ("+3d", "not in the recording, which runs from 2026-01-01 12:01:40 to 2026-01-03 00:01:40"),
        ("+soon", "expected a time such as 90s, 5m, 1h30m"),
        ("2025-01-02 01:00", "is not in the recording"),
        ("", "is not a moment"),
        ("25:00", "is not a moment"),
    ],
)
def test_an_invalid_moment_is_refused_with_the_valid_forms(
    two_days: Tape, text: str, problem: str
) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        parse_second(text, two_days)
    assert problem in str(raised.value)


def test_an_open_session_is_played_as_far_as_it_goes(tmp_path: Path) -> None:
    history, clock = a_history(polls=5), VirtualClock(START)
    recorder = Recorder(tmp_path, clock, program="a test")
    for seen in history:
        recorder.poll(seen)
    passings = list(Tape(find_sessions(tmp_path)).play())
    assert polls(passings) == history
    assert not any(isinstance(each.what, Damage) for each in passings)
    recorder.close()


FROM_S, UNTIL_S = 500.0, 600.0


def a_clock(speed: float = 1.0) -> tuple[ReplayClock, VirtualClock]:
    real = VirtualClock()
    return ReplayClock(FIRST_MOMENT, FROM_S, UNTIL_S, speed=speed, real=real), real


async def asleep(clock: ReplayClock, seconds: float) -> asyncio.Task[None]:
    """Start a task that sleeps, and wait until it does."""
    sleeper = asyncio.create_task(clock.sleep(seconds))
    for _ in range(10):
        await asyncio.sleep(0)
    return sleeper


async def test_the_clock_stands_until_it_is_run() -> None:
    clock, real = a_clock()
    await real.advance(7)
    assert (clock.monotonic(), clock.running, clock.paused) == (FROM_S, False, True)
    clock.run()
    await real.advance(7)
    assert clock.monotonic() == FROM_S + 7
    assert clock.now() == FIRST_MOMENT.replace(second=7)


@pytest.mark.parametrize("speed", [0.5, 1.0, 20.0])
async def test_the_clock_runs_at_its_speed(speed: float) -> None:
    clock, real = a_clock(speed)
    clock.run()
    await real.advance(4)
    assert clock.monotonic() == FROM_S + 4 * speed


async def test_the_clock_stands_at_the_end_of_the_recording() -> None:
    clock, real = a_clock()
    clock.run()
    await real.advance(1_000)
    assert (clock.monotonic(), clock.running) == (UNTIL_S, False)
    clock.move_to(UNTIL_S + 50)
    assert clock.monotonic() == UNTIL_S
    clock.move_to(0)
    assert (clock.monotonic(), clock.running) == (FROM_S, True)


async def test_a_sleeper_wakes_after_that_much_of_the_recording() -> None:
    clock, real = a_clock(speed=10)
    clock.run()
    sleeper = await asleep(clock, 30)
    await real.advance(2.9)
    assert not sleeper.done()
    await real.advance(0.2)
    assert sleeper.done()


async def test_a_sleeper_beyond_the_end_wakes_at_the_end() -> None:
    clock, real = a_clock()
    clock.run()
    sleeper = await asleep(clock, 300)
    await real.advance(UNTIL_S - FROM_S + 1)
    assert sleeper.done()
    sleeper = await asleep(clock, 1)
    await real.advance(10)
    assert not sleeper.done()
    clock.move_to(FROM_S)
    await real.advance(0)
    assert sleeper.done()


async def test_a_pause_does_not_count_as_sleep() -> None:
    clock, real = a_clock()
    clock.run()
    sleeper = await asleep(clock, 5)
    await real.advance(3)
    clock.pause()
    await real.advance(100)
    assert not sleeper.done()
    clock.run()
    await real.advance(1.9)
    assert not sleeper.done()
    await real.advance(0.2)
    assert sleeper.done()


async def test_another_speed_changes_the_rest_of_a_sleep() -> None:
    clock, real = a_clock()
    clock.run()
    sleeper = await asleep(clock, 50)
    await real.advance(10)
    clock.run_at(20)
    await real.advance(1.9)
    assert not sleeper.done()
    await real.advance(0.2)
    assert sleeper.done()


async def test_a_jump_wakes_a_sleeper() -> None:
    clock, real = a_clock()
    sleeper = await asleep(clock, 50)
    clock.move_to(FROM_S + 1)
    await real.advance(0)
    assert sleeper.done()


async def test_the_clock_runs_on_from_where_it_is_held() -> None:
    clock, real = a_clock(speed=100)
    clock.run()
    await real.advance(0.5)
    clock.hold_at(FROM_S + 20)
    await real.advance(0.1)
    assert clock.monotonic() == pytest.approx(FROM_S + 30)


def test_the_speed_is_limited_to_a_range() -> None:
    clock, _ = a_clock()
    clock.run_at(0)
    assert clock.speed == SLOWEST
    clock.run_at(1e9)
    assert clock.speed == FASTEST


def test_wall_time_follows_the_last_set_value() -> None:
    clock, _ = a_clock()
    clock.set_wall(FIRST_MOMENT.replace(hour=3), FROM_S)
    assert clock.now() == FIRST_MOMENT.replace(hour=3)


EVERYTHING = Interest(topics=frozenset({"orders"}), fresh=True, unhealthy=True, census=True)


class RecordedPolls:
    """The recorded polls of a simulated cluster."""

    def __init__(self, polled: Looking, folder: Path) -> None:
        self._clock = polled.clock
        recorder = Recorder(folder, polled.clock, program="ktui of a test")
        self.source = RecordingSource(polled.observer, recorder)

    async def poll(self, interest: Interest = NO_INTEREST) -> Observation:
        polling = asyncio.create_task(self.source.poll(interest))
        await self._clock.advance(1.0)
        return await polling


async def test_every_poll_of_a_cluster_is_in_the_recording(tmp_path: Path) -> None:
    async with looking_at_a_move() as polled:
        polls = RecordedPolls(polled, tmp_path)
        seen = [await polls.poll() for _ in range(10)]
        seen += [await polls.poll(EVERYTHING) for _ in range(40)]
        await polled.do(layout.Hang(4))
        seen += [await polls.poll(EVERYTHING) for _ in range(5)]

    assert seen[-1].failures
    assert seen[-1].census is not None
    assert seen_in(tmp_path) == all_to_the_millisecond(seen)


async def test_a_poll_that_fails_is_recorded_with_the_reason_and_fails_as_before(
    tmp_path: Path,
) -> None:
    async with looking_at_a_move() as polled:
        polls = RecordedPolls(polled, tmp_path)
        await polls.poll()
        await polled.do(*map(layout.Kill, EVERYONE))
        with pytest.raises(Unreachable) as raised:
            await polls.poll()

    seen, lost = happenings(tmp_path)
    assert isinstance(seen, PlayedPoll)
    assert isinstance(lost, LostPollLine)
    assert lost.reason == str(raised.value)


async def test_settings_reported_as_changed_are_read_in_the_next_poll(tmp_path: Path) -> None:
    change = ConfigChange(topic_resource("orders"), "min.insync.replicas", ConfigOp.SET, "2")
    async with looking_at_a_move() as polled:
        polls = RecordedPolls(polled, tmp_path)
        await polls.poll()
        await polled.do(layout.AlterConfigs((change,)))
        polls.source.settings_changed({"orders"}, ())
        await polls.poll()

    before, after = seen_in(tmp_path)
    assert before.topic_configs["orders"].min_insync_replicas == 1
    assert after.topic_configs["orders"].min_insync_replicas == 2
