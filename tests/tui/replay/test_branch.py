"""Seeks in a replay, and branches from it."""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from bench.forecast.stored import RECORDINGS
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.message import Message

from ktui.cli.replay import branch_app
from ktui.cluster.observation import Observation
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.run.run import Run
from ktui.pacing.limits import Limits
from ktui.progress.fold import fold
from ktui.progress.timeline import Progress
from ktui.recording.reading import find_sessions
from ktui.recording.replay_tape import ReplayClock, Tape
from ktui.rehearsal.branch import twin_at
from ktui.rehearsal.compare import BranchPoint
from ktui.simulated.clock import VirtualClock
from ktui.simulated.scenario.file import RatesFrom, SnapshotRates
from ktui.tui.app.simulated import BranchApp
from ktui.tui.replay import walk
from ktui.tui.replay.player import Player, ReplayNotice, SearchDirection, branch_point
from ktui.tui.replay.walk import RunStage, Survey
from property.test_progress import histories
from support.recordings.recordings import a_recording
from support.simulated.moving_clusters import a_cluster
from support.simulated.observations import a_move, an_observation
from support.views.replays import Course, recorded_run, replaying, the_tape
from support.views.screens import RealTime
from support.views.watching import a_new_run, moved

NAMES = ("orders-0", "orders-1", "orders-2", "orders-3")
ASSUMED = SnapshotRates(slow=2e6, usual=5e6, fast=9e6, source=RatesFrom.ASSUMED)
WIDE = (120, 40)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """A run that moves one partition after the other."""
    cluster = a_cluster(resting=NAMES, messages=60_000)
    assert isinstance(cluster.clock, VirtualClock)
    cluster.clock.pass_time(100_000)  # a machine is up for longer than a test
    return recorded_run(
        StateDir(tmp_path_factory.mktemp("state")),
        cluster,
        a_new_run(
            {**moved(*NAMES[:2], target=(4, 2, 3)), **moved(*NAMES[2:], target=(5, 2, 3))},
            Limits(partitions=1),
        ),
        Course(most_s=400),
    )


@pytest.fixture(scope="module")
def real_point() -> BranchPoint:
    """The 20th second of a run on real brokers: most of its steps are under way, two are over."""
    tape = the_tape(RECORDINGS / "frozen-1" / "3-written-to")
    survey = Survey(tape)
    survey.go_on(math.inf)
    found = branch_point("a real run", tape, survey, tape.from_s + 20.0)
    assert found is not None
    return found


@pytest.fixture
async def point(run: RunDir) -> BranchPoint:
    async with replaying(run.recording, at_s=8.0) as replay:
        await replay.press("W")
        await replay.until(lambda: replay.app.branch)
        assert replay.app.branch is not None
        return replay.app.branch


class Branching(RealTime[BranchApp]):
    """A branch in the view, with real time and the keyboard."""

    @property
    def run(self) -> Run:
        assert self.app.attached is not None
        return self.app.attached.run


def seen(branch: Branching) -> dict[TopicPartition, Brokers]:
    """Return the replicas of each timeline."""
    return {tp: each.state.replicas for tp, each in branch.app.progress.timelines.items()}


def steps_of(run: Run) -> list[int]:
    """Return how many steps each partition has begun."""
    return [track.steps for track in run.tracks.values()]


@asynccontextmanager
async def branching(point: BranchPoint) -> AsyncIterator[Branching]:
    real = VirtualClock()
    async with (
        branch_app(point, twin_at(point, ASSUMED), 5.0, real=real) as app,
        app.run_test(size=WIDE, notifications=True) as pilot,
    ):
        branch = Branching(app, real, pilot)
        await branch.until(lambda: "as it was" in branch.text and app.attached)
        yield branch


async def test_the_run_goes_on_from_its_state_with_other_limits_beside_what_was(
    point: BranchPoint,
) -> None:
    (recorded,) = point.runs
    async with branching(point) as branch:
        # the partition under way goes on where it was, and what was polled before is still there
        await branch.until(lambda: branch.run.tracks_in_flight)
        assert "prod-eu   SIMULATED x5" in branch.text
        first = branch.app.progress.events[0].at
        assert first < point.at
        # nothing of the run's cluster is reached: the twin has an id of its own
        assert branch.run.started is not None
        assert branch.run.started.cluster_id.startswith("simulated-")
        # the operator raises the limit, and is done sooner than it was
        await branch.press("colon", *"limits", "space", *"P=4", "enter")
        await branch.until(lambda: branch.run.in_flight > 1)
        await branch.until(lambda: branch.run.ended)
        await branch.until(lambda: "ended after" in branch.line("here "))
        was = Run("was").fold(recorded.entries)
        assert was.ended_at is not None
        assert branch.run.ended_at is not None
        assert branch.run.ended_at < was.ended_at
        assert "4 of 4 at target" in branch.line("here ")
        assert "of 4 at target" in branch.line("as it was ")
        await branch.until(
            lambda: seen(branch) == {tp: t.target for tp, t in branch.run.tracks.items()}
        )
        assert [track.steps for track in branch.run.tracks.values()] == [1, 1, 1, 1]
        await branch.press("i")
        await branch.until(lambda: "IN THE BRANCH" in branch.text)
        assert "P 1 -> 4" in branch.text
        await branch.press("escape", "R")
        assert branch.app.plays_again


async def test_a_broker_dies_in_the_branch_that_lived(point: BranchPoint) -> None:
    async with branching(point) as branch:
        await branch.until(lambda: branch.run.tracks_in_flight)
        await branch.press("colon", *"event", "space", *"kill", "space", "1", "enter")
        await branch.until(lambda: "broker 1 down" in branch.text)
        await branch.press("i")
        await branch.until(lambda: "IN THE BRANCH" in branch.text)
        assert "kill 1" in branch.text.split("IN THE BRANCH")[1]


async def test_a_branch_of_a_real_run_in_which_nothing_is_changed_goes_as_it_went(
    real_point: BranchPoint,
) -> None:
    (recorded,) = real_point.runs
    was = Run("was").fold(recorded.entries)
    assert was.ended_at is not None
    async with branching(real_point) as branch:
        await branch.until(lambda: branch.run.ended)
        assert branch.run.ended_at is not None
        lasted_s = (branch.run.ended_at - real_point.at).total_seconds()
        assert lasted_s == pytest.approx((was.ended_at - real_point.at).total_seconds(), rel=0.25)
        assert branch.run.counts == was.counts  # nothing is found to be changed elsewhere
        assert steps_of(branch.run) == steps_of(was)
        await branch.press("i")
        await branch.until(lambda: "copies get 40% of a throttle" in branch.text)


async def test_a_real_run_is_cancelled_earlier_in_the_branch(real_point: BranchPoint) -> None:
    async with branching(real_point) as branch:
        await branch.until(lambda: branch.run.tracks_in_flight)
        await branch.press("c", "up", "right")
        await branch.until(lambda: "are rolled back" in branch.text)
        await branch.press("y", *("minus" if each == "-" else each for each in branch.run.name))
        await branch.press("enter")
        await branch.until(lambda: branch.run.ended)
        back = {tp: track.original for tp, track in branch.run.tracks.items()}
        await branch.until(lambda: seen(branch) == back)
        assert "0 of 18 at target" in branch.line("here ")
        await branch.press("i")
        await branch.until(lambda: "IN THE BRANCH" in branch.text)
        assert "cancel" in branch.text.split("IN THE BRANCH")[1]


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
