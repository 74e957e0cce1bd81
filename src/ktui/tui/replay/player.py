"""The loop of a replay: folds a recording up to the moment played, in place of polls."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec
from textual.message import Message

from ktui.cluster.clock import wait_for_first
from ktui.cluster.text import clean
from ktui.execution import RunProblem
from ktui.execution.host.state_dir import RunDir
from ktui.recording.replay_tape import RecordedPeriod, ReplayClock, Tape
from ktui.rehearsal.compare import BranchPoint
from ktui.tui.draw import format as figures
from ktui.tui.poll import Overview, PollLoop, overview
from ktui.tui.replay.walk import RunStage, Survey, SurveyMark, Walk


class ReplayPosition(msgspec.Struct, frozen=True):
    """The position of a replay, for the line on the screens."""

    from_s: float
    until_s: float
    at_s: float
    at: datetime
    surveyed_s: float
    stretches: Sequence[RecordedPeriod]
    marks: Sequence[SurveyMark]
    speed: float
    paused: bool
    goes_to_s: float | None = None
    reached_s: float = 0.0

    @property
    def ended(self) -> bool:
        return self.at_s >= self.until_s


@dataclass(kw_only=True)
class ReplayAdvanced(Message):
    """The replay has advanced; the player has the progress."""

    run: RunDir | None
    jumped: bool


class Surveyed(Message):
    """More events are known, or a seek has come further on its way."""


@dataclass
class ReplayNotice(Message):
    """A notice for the operator."""

    words: str
    severity: str = "information"
    instead: bool = False


NOTHING_POLLED = "Nothing was polled before this moment, so there is no twin of it."


def branch_point(recording: str, tape: Tape, survey: Survey, at_s: float) -> BranchPoint | None:
    """Return a moment of a fully surveyed recording; None if nothing was polled before it."""
    walk = Walk(tape, survey.before(at_s))
    walk.to(at_s)
    last = walk.progress.last
    if last is None:
        return None
    return BranchPoint(
        recording=recording,
        cluster=clean(tape.cluster or tape.cluster_id),
        at=last.at,
        at_s=walk.at_s - tape.from_s,
        clock_s=last.monotonic_s,
        progress=walk.progress,
        runs=tuple(run for run in survey.runs if run.entries[0].at <= last.at),
        happened=tuple(survey.happened),
        prior=survey.rates.prior,
    )


FRAME_S = 0.1
"""Real seconds between two frames; all that was recorded in between is in the second one."""
_GAP_S = 5.0  # seconds of a gap between two sessions that are still played; a longer gap is skipped
_REPORT_EVERY_S = 0.1  # real seconds of folding between two reports of how far it is
_AGAIN_S = 1.0  # real seconds within which going back once more goes to the mark before

log = logging.getLogger(__name__)


class SearchDirection(enum.Enum):
    """The direction in which to look for an event."""

    NEXT = enum.auto()
    PREVIOUS = enum.auto()


class Player(PollLoop):
    """Plays a tape by its clock from a second on, and goes to other places of the tape."""

    def __init__(self, tape: Tape, clock: ReplayClock, stage: RunStage, start_s: float) -> None:
        super().__init__()
        self.tape, self.clock, self._stage = tape, clock, stage
        self.first_s = tape.first_look_s
        self._walk, self._survey = Walk(tape), Survey(tape)
        self._surveying = asyncio.Lock()
        self._goal: float | SearchDirection | None = start_s
        self._goes_to_s: float | None = None
        self._reached_s = 0.0
        self._advancing = False
        self._wake = asyncio.Event()
        self._post: Callable[[Message], object] = lambda _message: None

    def post_to(self, post: Callable[[Message], object]) -> None:
        self._post = post

    @property
    def position(self) -> ReplayPosition:
        return ReplayPosition(
            from_s=self.tape.from_s,
            until_s=self.tape.until_s,
            at_s=self.clock.monotonic(),
            at=self.clock.now(),
            surveyed_s=self.tape.until_s if self._survey.over else self._survey.at_s,
            stretches=self.tape.stretches,
            marks=self._survey.marks,
            speed=self.clock.speed,
            paused=self.clock.paused,
            goes_to_s=self._goes_to_s,
            reached_s=self._reached_s,
        )

    @property
    def at_rest(self) -> bool:
        return self._goal is None and not self._advancing and not self._wake.is_set()

    def go_to(self, goal: float | SearchDirection) -> None:
        if isinstance(goal, float):
            goal = min(max(goal, self.first_s), self.tape.until_s)
        self._goal = goal
        self._wake.set()

    def go_by(self, seconds: float) -> None:
        goal = self._goal if isinstance(self._goal, float) else self._goes_to_s
        self.go_to((self.clock.monotonic() if goal is None else goal) + seconds)

    async def branch_point(self, recording: str) -> BranchPoint | None:
        """Pause, read the whole recording, and return the moment played, if anything was polled."""
        self.clock.pause()
        at_s = self.clock.monotonic()
        await self._survey_all()
        return await asyncio.to_thread(branch_point, recording, self.tape, self._survey, at_s)

    async def run(self) -> None:
        survey = asyncio.create_task(self._survey_all())
        try:
            while True:
                self._wake.clear()
                await self._advance()
                if self._goal is None:
                    await self._wait_for_frame()
        finally:
            survey.cancel()

    async def _advance(self) -> None:
        self._advancing = True
        try:
            if self._goal is None:
                await self._play_on()
            else:
                await self._go(self._goal)
        except Exception as error:  # a defect does not end the view, which reports it
            log.exception("the replay failed in a way that was not foreseen")
            self._goal = self._goes_to_s = None
            self.clock.pause()
            words = f"ktui's own error, and the replay stands: {type(error).__name__}: {error}"
            self._post(ReplayNotice(words, "error"))
        finally:
            self._advancing = False

    async def _wait_for_frame(self) -> None:
        frame = self.clock.sleep(FRAME_S * self.clock.speed)
        await wait_for_first(frame, self._wake.wait())

    async def _play_on(self) -> None:
        """Fold up to the clock's moment, or hold the clock where folding is behind."""
        walk, at_s = self._walk, self.clock.monotonic()
        following = walk.following
        if following is None:
            return
        gap = walk.place is not None and following.place.session != walk.place.session
        if gap and at_s < following.at_s - _GAP_S and at_s > walk.at_s:
            self._skip_gap(following.at_s)
        elif following.at_s <= at_s:
            if not await asyncio.to_thread(walk.to, at_s, _REPORT_EVERY_S):
                self.clock.hold_at(walk.at_s)
            if self._goal is None:
                await self._show(jumped=False)

    def _skip_gap(self, until_s: float) -> None:
        gap = figures.as_duration(until_s - self.clock.monotonic())
        self._post(ReplayNotice(f"Nothing was recorded for {gap}: it is passed over."))
        self.clock.move_to(until_s)
        self._wake.set()

    async def _show(self, *, jumped: bool) -> None:
        walk = self._walk
        sums, run = await asyncio.to_thread(self._put_on_stage)
        if walk.progress.last is not None:
            self.clock.set_wall(walk.at, walk.at_s)
        self.progress, self.overview, self.outages = walk.progress, sums, walk.outages
        self._post(ReplayAdvanced(run=run, jumped=jumped))
        self._report_damages()

    def _report_damages(self) -> None:
        damages, self._walk.damages = self._walk.damages, []
        if damages:
            more = f"; e shows {len(damages) - 1:,} more" if len(damages) > 1 else ""
            self._post(ReplayNotice(f"The recording is damaged: {damages[0]}{more}", "error"))

    def _put_on_stage(self) -> tuple[Overview, RunDir | None]:
        try:
            run = self._stage.show(self._walk.runs.values())
        except RunProblem as problem:
            self._post(ReplayNotice(str(problem), "error"))
            run = None
        return overview(self._walk.progress), run

    async def _go(self, requested: float | SearchDirection) -> None:
        goal = (
            await self._find_event(requested)
            if isinstance(requested, SearchDirection)
            else requested
        )
        if goal is not None and self._goal == requested:
            self._goes_to_s = goal
            await self._reach(goal, requested)
        if self._goal != requested:
            return
        self._goal = self._goes_to_s = None
        if goal is not None:
            self.clock.move_to(goal)
            await self._show(jumped=True)

    async def _find_event(self, way: SearchDirection) -> float | None:
        at_s, survey = self.clock.monotonic(), self._survey
        if way is SearchDirection.PREVIOUS:
            slack_s = 0.0 if self.clock.paused else _AGAIN_S * self.clock.speed
            mark = survey.mark_before(at_s - slack_s)
        else:
            while (mark := survey.mark_after(at_s)) is None and not survey.over:
                await self._survey_on()
                if self._goal is not way:
                    return None
        if mark is None:
            where = "before" if way is SearchDirection.PREVIOUS else "after"
            self._post(ReplayNotice(f"There is no event {where} this.", instead=True))
            return None
        severity = ("information", "warning", "error")[mark.severity]
        self._post(ReplayNotice(mark.words, severity, instead=True))
        return mark.at_s

    async def _reach(self, goal: float, requested: float | SearchDirection) -> None:
        near = self._walk.at_s if self._walk.at_s <= goal else self.tape.from_s
        while near < self._survey.at_s < goal and not self._survey.over:
            self._reached_s = self._survey.at_s
            await self._survey_on()
            if self._goal != requested:
                return
        checkpoint = self._survey.before(goal)
        if not checkpoint.at_s <= self._walk.at_s <= goal:
            self._walk = await asyncio.to_thread(Walk, self.tape, checkpoint)
        while not await asyncio.to_thread(self._walk.to, goal, _REPORT_EVERY_S):
            self._reached_s = self._walk.at_s
            self._post(Surveyed())
            if self._goal != requested:
                return

    async def _survey_all(self) -> None:
        while not self._survey.over:
            await self._survey_on()

    async def _survey_on(self) -> None:
        async with self._surveying:
            await asyncio.to_thread(self._survey.go_on)
        self._post(Surveyed())
