"""A replay shows the same after a seek as when it was played to that point."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.message import Message

from ktui.cluster.observation import Observation
from ktui.progress.fold import fold
from ktui.progress.timeline import Progress
from ktui.recording.reading import find_sessions
from ktui.recording.replay_tape import ReplayClock, Tape
from ktui.simulated.clock import VirtualClock
from ktui.tui.replay import walk
from ktui.tui.replay.player import Player, ReplayNotice, SearchDirection
from ktui.tui.replay.walk import RunStage
from property.test_progress import histories
from support.recordings.recorded_history import a_recording
from support.simulated.observations import a_move, an_observation

SMALL = {"longest_s": 60, "whole_every_s": 20}
"""Many files, each with several complete polls."""


class Operator:
    """Drives a replay without a screen and collects its notices."""

    def __init__(self, tape: Tape, folder: Path) -> None:
        self.tape, self.real = tape, VirtualClock()
        self.clock = ReplayClock(tape.wall(tape.from_s), tape.from_s, tape.until_s, real=self.real)
        self.playing = Player(tape, self.clock, RunStage(folder), tape.from_s)
        self.playing.post_to(self._take)
        self.notices: list[str] = []

    def _take(self, message: Message) -> None:
        if isinstance(message, ReplayNotice):
            self.notices.append(message.words)

    @property
    def progress(self) -> Progress:
        return self.playing.progress

    async def at_rest(self) -> None:
        async with asyncio.timeout(30):
            while not self.playing.at_rest:
                await self.real.advance(0)

    def expected(self) -> Progress:
        """Fold every poll recorded up to the position of the replay."""
        progress = Progress()
        for passing in self.tape.play():
            if isinstance(passing.what, Observation) and passing.at_s <= self.clock.monotonic():
                progress = fold(progress, passing.what)
        return progress


async def seek_all(tape: Tape, folder: Path, shares: list[float], *, hurried: bool) -> None:
    """Seek to several places in turn; if hurried, without waiting for the last seek."""
    operator = Operator(tape, folder)
    running = asyncio.create_task(operator.playing.run())
    for share in shares:
        goal_s = tape.first_look_s + share * (tape.until_s - tape.first_look_s)
        operator.playing.go_to(goal_s)
        if hurried:
            await asyncio.sleep(0)
            continue
        await operator.at_rest()
        assert operator.clock.monotonic() == pytest.approx(goal_s)
        assert operator.progress == operator.expected()
    await operator.at_rest()
    assert operator.progress == operator.expected()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert operator.notices == []


@settings(max_examples=25)
@given(
    history=histories(),
    shares=st.lists(st.floats(0, 1), max_size=6),
    hurried=st.booleans(),
    spacing=st.integers(1, 9),
)
def test_a_replay_shows_the_same_after_any_seeks_as_when_played_to_that_point(
    *, history: list[Observation], shares: list[float], hurried: bool, spacing: int
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(walk, "SPACING", spacing)
        patch.setattr(walk, "MOST_CHECKPOINTS", 4)
        tape = Tape(find_sessions(a_recording(Path(folder, "recorded"), history, **SMALL)))
        asyncio.run(seek_all(tape, Path(folder, "state"), shares, hurried=hurried))


def two_losses_of_a_broker() -> list[Observation]:
    return [
        an_observation([a_move()], float(n), down={9} if n in (20, 21, 40, 41) else ())
        for n in range(60)
    ]


async def test_a_replay_seeks_events_in_both_directions(tmp_path: Path) -> None:
    tape = Tape(find_sessions(a_recording(tmp_path / "recorded", two_losses_of_a_broker())))
    operator = Operator(tape, tmp_path / "state")
    running = asyncio.create_task(operator.playing.run())

    async def at(way: SearchDirection) -> float:
        operator.playing.go_to(way)
        await operator.at_rest()
        assert operator.progress == operator.expected()
        return operator.clock.monotonic()

    assert [await at(SearchDirection.NEXT) for _ in range(4)] == [20, 22, 40, 42]
    assert await at(SearchDirection.NEXT) == 42
    assert operator.notices[0] == "broker 9 is down"
    assert operator.notices[1] == "broker 9 is back"
    assert operator.notices[-1] == "There is no event after this."
    assert [await at(SearchDirection.PREVIOUS) for _ in range(3)] == [40, 22, 20]
    assert await at(SearchDirection.PREVIOUS) == 20
    assert operator.notices[-1] == "There is no event before this."
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_every_poll_is_folded_at_any_speed(tmp_path: Path) -> None:
    tape = Tape(find_sessions(a_recording(tmp_path / "recorded", two_losses_of_a_broker())))
    operator = Operator(tape, tmp_path / "state")
    operator.clock.run_at(1_000)
    running = asyncio.create_task(operator.playing.run())
    await operator.at_rest()
    operator.clock.run()
    async with asyncio.timeout(30):
        while operator.clock.running or operator.progress != operator.expected():
            await operator.real.advance(0.05)
    assert [event.what for event in operator.progress.events].count("broker 9 is down") == 2
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_gap_in_the_recording_is_skipped(tmp_path: Path) -> None:
    history = two_losses_of_a_broker()
    a_recording(tmp_path / "recorded", history[:10])
    a_recording(tmp_path / "recorded", history[40:])
    operator = Operator(Tape(find_sessions(tmp_path / "recorded")), tmp_path / "state")
    running = asyncio.create_task(operator.playing.run())
    await operator.at_rest()
    operator.clock.run()
    async with asyncio.timeout(30):
        while operator.clock.monotonic() < 45:
            await operator.real.advance(0.1)
            await operator.at_rest()
    assert operator.notices == ["Nothing was recorded for 31 s: it is passed over."]
    assert operator.real.monotonic() < 16
    assert operator.progress == operator.expected()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
