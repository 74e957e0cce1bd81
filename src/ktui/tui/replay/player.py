"""The loop of a replay: in place of polls, what a recording tells up to the moment played."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable, Collection

from textual.message import Message

from ktui.cluster.clock import wait_for_first
from ktui.execution.errors import RunProblem
from ktui.execution.host.state_dir import RunDir
from ktui.progress.timeline import Progress
from ktui.recording.replay_clock import ReplayClock
from ktui.recording.replay_tape import Tape
from ktui.tui.draw import format as figures
from ktui.tui.poll.overview import Overview, overview
from ktui.tui.replay.messages import Course, ReplayAdvanced, ReplayNotice, Surveyed
from ktui.tui.replay.run_stage import RunStage
from ktui.tui.replay.survey import Survey
from ktui.tui.replay.walk import Walk

FRAME_S = 0.1
"""Of our time between two frames; all that was recorded in between is in the second one."""
_GAP_S = 5.0
"""So long nothing at all was recorded: passed over."""
_AT_ONCE_S = 0.1
"""Of our time; then it is told how far it is."""
_AGAIN_S = 1.0
"""Of our time: going back once more within it goes to the mark before."""

log = logging.getLogger(__name__)


class Way(enum.Enum):
    """Where to look for an event."""

    NEXT = enum.auto()
    PREVIOUS = enum.auto()


class Playing:
    """Plays a tape as its clock tells, and goes to other places of it.

    Args:
        tape: the recording.
        clock: its time.
        stage: where its runs are put.
        start_s: the second to begin at.
    """

    def __init__(self, tape: Tape, clock: ReplayClock, stage: RunStage, start_s: float) -> None:
        self.tape = tape
        self.clock = clock
        self.first_s = tape.first_look_s
        """The second from which on there is anything to be shown."""
        self._stage = stage
        self._walk, self._survey = Walk(tape), Survey(tape)
        self._surveying = asyncio.Lock()
        self._goal: float | Way | None = start_s
        self._goes_to_s: float | None = None
        self._reached_s = 0.0
        self._turning = False
        self._wake = asyncio.Event()
        self._tell: Callable[[Message], object] = lambda _message: None

    # ------------------------------------------------------------- asked by the app

    def told_to(self, tell: Callable[[Message], object]) -> None:
        """Have everything told to somebody."""
        self._tell = tell

    def look_now(self) -> None:
        """Take no notice: what was looked at is in the recording."""

    def begin_with(self, past: Progress) -> None:
        """Take no notice: a replay begins where its recording does."""

    def settings_changed(self, topics: Collection[str], brokers: Collection[int]) -> None:
        """Take no notice: what was read is in the recording."""

    @property
    def course(self) -> Course:
        """How far it is."""
        return Course(
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
        """Whether nothing is under way until the next frame."""
        return self._goal is None and not self._turning and not self._wake.is_set()

    def go_to(self, goal: float | Way) -> None:
        """Go to a second, or to the next or previous event."""
        if isinstance(goal, float):
            goal = min(max(goal, self.first_s), self.tape.until_s)
        self._goal = goal
        self._wake.set()

    def go_by(self, seconds: float) -> None:
        """Go on or back by so many seconds, from where it is or is going to."""
        goal = self._goal if isinstance(self._goal, float) else self._goes_to_s
        self.go_to((self.clock.monotonic() if goal is None else goal) + seconds)

    # --------------------------------------------------------------------- the loop

    async def run(self) -> None:
        """Play until cancelled."""
        survey = asyncio.create_task(self._survey_all())
        try:
            while True:
                self._wake.clear()
                await self._turn()
                if self._goal is None:
                    await self._rest()
        finally:
            survey.cancel()

    async def _turn(self) -> None:
        self._turning = True
        try:
            if self._goal is None:
                await self._play_on()
            else:
                await self._go(self._goal)
        except Exception as error:  # the view outlives a defect, and names it
            log.exception("the replay failed in a way that was not foreseen")
            self._goal = self._goes_to_s = None
            self.clock.pause()
            words = f"ktui's own error, and the replay stands: {type(error).__name__}: {error}"
            self._tell(ReplayNotice(words, "error"))
        finally:
            self._turning = False

    async def _rest(self) -> None:
        frame = self.clock.sleep(FRAME_S * self.clock.speed)
        await wait_for_first(frame, self._wake.wait())

    async def _play_on(self) -> None:
        """Come to the moment that the clock shows, or have the clock wait."""
        walk, at_s = self._walk, self.clock.monotonic()
        following = walk.following
        if following is None:
            return
        gap = walk.place is not None and following.place.session != walk.place.session
        if gap and at_s < following.at_s - _GAP_S and at_s > walk.at_s:
            self._pass_over(following.at_s)
        elif following.at_s <= at_s:
            if not await asyncio.to_thread(walk.to, at_s, _AT_ONCE_S):
                self.clock.hold_at(walk.at_s)
            if self._goal is None:
                await self._show(jumped=False)

    def _pass_over(self, until_s: float) -> None:
        gap = figures.as_duration(until_s - self.clock.monotonic())
        self._tell(ReplayNotice(f"Nothing was recorded for {gap}: it is passed over."))
        self.clock.move_to(until_s)
        self._wake.set()

    async def _show(self, *, jumped: bool) -> None:
        walk = self._walk
        sums, run = await asyncio.to_thread(self._put_on_stage)
        if walk.progress.last is not None:
            self.clock.set_wall(walk.at, walk.at_s)
        self._tell(ReplayAdvanced(walk.progress, sums, walk.outages, run, jumped=jumped))
        self._tell_damages()

    def _tell_damages(self) -> None:
        damages, self._walk.damages = self._walk.damages, []
        if damages:
            more = f"; e tells of {len(damages) - 1:,} more" if len(damages) > 1 else ""
            self._tell(ReplayNotice(f"The recording is damaged: {damages[0]}{more}", "error"))

    def _put_on_stage(self) -> tuple[Overview, RunDir | None]:
        try:
            run = self._stage.show(self._walk.runs.values())
        except RunProblem as problem:
            self._tell(ReplayNotice(str(problem), "error"))
            run = None
        return overview(self._walk.progress), run

    # --------------------------------------------------------- going somewhere else

    async def _go(self, wanted: float | Way) -> None:
        """Go to where the goal is; a goal that comes meanwhile takes its place."""
        goal = await self._event(wanted) if isinstance(wanted, Way) else wanted
        if goal is not None and self._goal == wanted:
            self._goes_to_s = goal
            await self._reach(goal, wanted)
        if self._goal != wanted:
            return
        self._goal = self._goes_to_s = None
        if goal is not None:
            self.clock.move_to(goal)
            await self._show(jumped=True)

    async def _event(self, way: Way) -> float | None:
        """Find the event to go to, surveying as far as it takes."""
        at_s, survey = self.clock.monotonic(), self._survey
        if way is Way.PREVIOUS:
            slack_s = 0.0 if self.clock.paused else _AGAIN_S * self.clock.speed
            mark = survey.mark_before(at_s - slack_s)
        else:
            while (mark := survey.mark_after(at_s)) is None and not survey.over:
                await self._survey_on()
                if self._goal is not way:
                    return None
        if mark is None:
            where = "before" if way is Way.PREVIOUS else "after"
            self._tell(ReplayNotice(f"There is no event {where} this.", instead=True))
            return None
        severity = ("information", "warning", "error")[mark.severity]
        self._tell(ReplayNotice(mark.words, severity, instead=True))
        return mark.at_s

    async def _reach(self, goal: float, wanted: float | Way) -> None:
        """Fold up to a second from the nearest place at which all is known."""
        near = self._walk.at_s if self._walk.at_s <= goal else self.tape.from_s
        while near < self._survey.at_s < goal and not self._survey.over:
            self._reached_s = self._survey.at_s
            await self._survey_on()
            if self._goal != wanted:
                return
        stand = self._survey.before(goal)
        if not stand.at_s <= self._walk.at_s <= goal:
            self._walk = await asyncio.to_thread(Walk, self.tape, stand)
        while not await asyncio.to_thread(self._walk.to, goal, _AT_ONCE_S):
            self._reached_s = self._walk.at_s
            self._tell(Surveyed())
            if self._goal != wanted:
                return

    async def _survey_all(self) -> None:
        while not self._survey.over:
            await self._survey_on()

    async def _survey_on(self) -> None:
        async with self._surveying:
            await asyncio.to_thread(self._survey.go_on)
        self._tell(Surveyed())
