"""The engine: observe, decide, journal the intents, act, journal the outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ktui.cluster.clock import Clock, first_of
from ktui.cluster.errors import ClusterError
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Observations
from ktui.cluster.ports import Ways
from ktui.execution.decider import Decider
from ktui.execution.event_words import who_paused
from ktui.execution.events import By, Continued, Event, Left, Outage, Owned, Paused
from ktui.execution.journal import Journal
from ktui.execution.obeying import Obeying
from ktui.execution.run import Run
from ktui.execution.sending import not_sent, send
from ktui.execution.throttling import Throttling
from ktui.execution.turn import Turn

LOOKS_A_TURN = 4
"""Where what is about to begin turns out otherwise, others are looked at, so often at most."""
LONGEST_BACKOFF_S = 5.0
STALE_S = 5.0
"""Nothing is sent on the grounds of an older look."""

_GOES = (By.SIGNAL, By.UNTIL, By.FAILURE)
"""Whose pause ends the process once nothing is in flight: only `resume` lifts it."""


class Engine:
    """Carries one run on until it has ended, or is to be left.

    Args:
        run: the fold of the journal so far.
        journal: the run's; this process owns it.
        source: what is seen of the cluster.
        cluster: the ways to read its settings, and to change it.
        clock: time.
        check_throttle: raises RunRefused where the run may not have a throttle, for another has.
    """

    def __init__(
        self,
        run: Run,
        journal: Journal,
        source: Observations,
        cluster: Ways,
        clock: Clock,
        check_throttle: Callable[[], None] = lambda: None,
    ) -> None:
        self._run = run
        self._journal = journal
        self._source = source
        self._writer = cluster.writer
        self._clock = clock
        self._throttling = Throttling(run, cluster, source, clock, self._record)
        self._check_throttle = check_throttle
        self._failures = 0
        self._leaving = asyncio.Event()
        self._reason = ""

    async def carry_on(self, owner: Owned) -> None:
        """Take the run up, and go on until it has ended or is left; `Run.ended` tells which.

        Raises:
            JournalProblem: the journal cannot be written: nothing is sent that is not in it.
        """
        if self._run.ended:
            return
        self._record([owner, *self._lifted()])
        decider = Decider(self._run)
        obeying = Obeying(self._run, self._journal, decider, self._record, self._check_throttle)
        while not self._leaving.is_set() and not self._run.ended:
            obeying.take_commands()
            if reason := obeying.leave_reason or self._goes():
                self.leave(reason)
                break
            await self._turn(decider, obeying)
            await self._pause(decider.pause_s)
        if not self._run.ended:
            await self._tidy(decider)
            self._record([Left(reason=self._reason)])

    def leave(self, reason: str) -> None:
        """Have the run left at the next moment that allows it; what is in flight goes on."""
        self._reason = self._reason or reason
        self._leaving.set()

    def _lifted(self) -> list[Event]:
        """Lift the pauses that are about the process before: not those of an operator."""
        return [Continued(by=by) for by in _GOES if by in self._run.pauses.whole]

    def _goes(self) -> str | None:
        if self._run.in_flight:
            return None
        whole = self._run.pauses.whole
        reasons = (whole[by] or f"paused by {who_paused(by)}" for by in _GOES if by in whole)
        return next(reasons, None)

    async def _turn(self, decider: Decider, obeying: Obeying) -> None:
        """Look, decide, write the intents down, act, write the outcomes down."""
        for left in reversed(range(LOOKS_A_TURN + 1)):
            if not await self._look(decider):
                return
            obeying.take_commands()  # what was asked meanwhile binds this decision
            if obeying.leave_reason:
                self.leave(obeying.leave_reason)
                return
            self._throttling.look(decider.timelines)
            await self._throttling.loosen(decider.seen)  # before any cut, or election
            resting = self._throttling.resting
            decided = decider.decide(may_look_again=left > 0, resting=resting)
            if not decided.look_again:
                break
        self._record(decided.intents)
        await self._act(decided, decider)
        await self._throttling.loosen(decider.seen)  # a refused alter leaves none
        self._record(decider.end())

    async def _look(self, decider: Decider) -> bool:
        """Take in a look; say whether anything may be decided by it."""
        seen = await self._seen(decider)
        if seen is not None:
            self._record(decider.look(seen))
        return seen is not None and not self._leaving.is_set()

    async def _seen(self, decider: Decider) -> Observation | None:
        """Look at the cluster; while it is lost nothing is decided, and nothing is given up."""
        try:
            seen = await self._source.poll(decider.interest)
        except ClusterError as error:
            self._failures += 1
            if self._run.outage is None:
                self._record([Outage(lost=True, reason=str(error))])
            return None
        self._failures = 0
        if self._run.outage is not None:
            self._record([Outage(lost=False)])
        return seen

    async def _act(self, decided: Turn, decider: Decider) -> None:
        """Send one request after the other, as long as the look that led to them is recent."""
        held = await self._throttling.tighten(decider.seen, decided.adding)
        if self._throttling.denied and By.FAILURE not in self._run.pauses.whole:
            reason = f"the throttle may not be set: {self._throttling.denied}"
            self._record([Paused(by=By.FAILURE, reason=reason)])
        for sending in decided.sendings:
            kept = sending.without(held)
            results = {tp: held[tp] for tp in sending.partitions.keys() & held.keys()}
            if self._clock.monotonic() - decider.looked_at_s >= STALE_S:
                results |= not_sent(kept, "the request before it took too long")
            elif kept.partitions:
                results |= await send(self._writer, kept)
            self._record(decider.answered(sending.request, results))

    async def _tidy(self, decider: Decider) -> None:
        """Leave no throttle behind that nothing in flight needs, where the cluster answers."""
        if self._run.outage is None and decider.has_looked:
            await self._throttling.loosen(decider.seen, leaving=True)

    async def _pause(self, seconds: float) -> None:
        if self._failures:
            seconds = max(seconds, min(LONGEST_BACKOFF_S, 0.5 * 2.0 ** min(self._failures, 8)))
        if not (self._run.ended or self._leaving.is_set()):
            await first_of(self._clock.sleep(seconds), self._leaving.wait())

    def _record(self, events: Sequence[Event]) -> None:
        """Write events down, for good, and only then go by them."""
        for entry in self._journal.append(events):
            self._run.apply(entry)
