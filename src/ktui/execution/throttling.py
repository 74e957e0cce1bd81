"""Throttles set before a step, taken off as soon as its replicas are in sync, and put back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ktui.cluster.clock import Clock
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Observations
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigScope,
    Setting,
    Verdict,
    Ways,
    WriteResult,
)
from ktui.cluster.resources import of_topic
from ktui.execution.configuring import SETTLE_S, Configuring, Record
from ktui.execution.run import Run
from ktui.execution.throttle_due import RATE_OF, Due
from ktui.execution.throttle_near import Near, Timelines
from ktui.execution.throttled import Key


class Throttling:
    """The throttles of a run, changed as its steps come and go.

    Every value that was there is in the journal before it is touched, and every change before it
    is sent. After a crash the fold of the journal tells all that may be left behind.

    Args:
        run: the fold of the journal.
        ways: tell settings as they stand, and change them.
        source: what is seen of the cluster, told to read anew what has changed.
        clock: time.
        record: writes events down and applies them.
    """

    def __init__(
        self, run: Run, ways: Ways, source: Observations, clock: Clock, record: Record
    ) -> None:
        self._run = run
        self._throttled = run.throttled
        self._clock = clock
        self._near = Near(run)
        self._settings = Configuring(run.throttled, ways, source, clock, record)

    def look(self, timelines: Timelines) -> None:
        """Take in how far the replicas are that are being added."""
        self._near.look(timelines)

    async def loosen(self, seen: Observation, *, leaving: bool = False) -> None:
        """Take off what is not wanted any more, and put back what is not needed any more.

        A broker that is down is left until it is back; so is, for a while, whoever would not take
        a change. Where an answer was lost, a list is emptied at once, and once more when what was
        lost cannot come any more; only then is anything put back.

        Args:
            seen: the last look at the cluster.
            leaving: whether the process goes, and only what is in flight still needs anything.
        """
        self._settings.look(seen.monotonic_s)
        if not self._throttled.ours:
            return
        removals = self._due(seen).removals(self._settings.late_by_now)
        await self._settings.change(self._left_out(self._settings.refusing, removals))
        await self._put_back(self._done_with(seen, leaving=leaving))
        if leaving and (rest := self._done_with(seen, leaving=True)):
            await self._clock.sleep(SETTLE_S)
            await self._put_back(rest)

    async def tighten(
        self, seen: Observation, adding: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, WriteResult]:
        """Throttle the replicas that steps are about to add; they are in the journal already.

        Args:
            seen: the look that led to the steps.
            adding: their partitions.

        Returns:
            The partitions that must not be sent, for their throttle is not in force, with why.
        """
        self._settings.denied = ""
        if not self._throttled.rates:
            return {}
        due = self._due(seen)
        unread = await self._settings.look_at_lists(due.counted_on() if adding else ())
        resting = self.resting
        await self._settings.find([key for key in due.unread() if key[0] not in resting])
        await self._settings.change(self._left_out(resting, due.rates()))
        await self._settings.change(self._left_out(resting, due.additions()))
        held = (tp for tp in adding if of_topic(tp.topic) in unread or not due.in_force(tp))
        return {tp: self._not_sent() for tp in held}

    @property
    def resting(self) -> frozenset[ConfigResource]:
        """The topics and brokers that are not asked again yet, while any is to be throttled.

        No step is begun that would need them.
        """
        if not self._throttled.rates:
            return frozenset()
        return frozenset((*self._settings.refusing, *self._settings.unanswered))

    @property
    def denied(self) -> str:
        """Why throttles may not be set: what permission is missing. Empty while none is."""
        return self._settings.denied

    def _left_out(
        self, resting: frozenset[ConfigResource], changes: Iterable[ConfigChange]
    ) -> list[ConfigChange]:
        return [change for change in changes if change.resource not in resting]

    def _done_with(self, seen: Observation, *, leaving: bool) -> list[Key]:
        ours = self._throttled.ours
        return [
            key
            for key in self._due(seen).done_with(leaving=leaving)
            if key not in self._settings.late
            and (not ours[key].touched or self._reachable(key[0], seen))
        ]

    async def _put_back(self, keys: Sequence[Key]) -> None:
        """Give settings back what stood there, unless someone has changed them since."""
        ours = self._throttled.ours
        for key in [key for key in keys if not ours[key].touched]:
            self._settings.let_go(key[0], [key[1]], "")
        changes = []
        for key, now in (await self._settings.read(key for key in keys if key in ours)).items():
            if change := self._putting_back(key, now):
                changes.append(change)
            elif self._settings.settled(key[0]):
                self._settings.let_go(key[0], [key[1]], self._why_left(key, now))
        await self._settings.change(changes, puts_back=True)

    def _putting_back(self, key: Key, now: Setting | None) -> ConfigChange | None:
        """Give the change that brings back what was; None where there is nothing of ours."""
        ours, own = self._throttled.ours[key], None if now is None else now.own
        before = None if ours.before is None else ours.before.own
        is_list = key[1] in RATE_OF
        if own == before or own is None or not (own == "" if is_list else own in ours.values):
            return None
        if before is None:
            return ConfigChange(key[0], key[1], ConfigOp.DELETE)
        return None if is_list else ConfigChange(key[0], key[1], ConfigOp.SET, before)

    def _why_left(self, key: Key, now: Setting | None) -> str:
        ours, own = self._throttled.ours[key], None if now is None else now.own
        was_there = ours.values and not ours.unsure and key[0] not in self._throttled.asked
        is_back = own == (None if ours.before is None else ours.before.own)
        if key[1] in RATE_OF or (is_back and not was_there):
            return ""
        return f"someone else set it to {own}" if own is not None else "someone else deleted it"

    def _due(self, seen: Observation) -> Due:
        settings, near = self._settings, self._near.replicas
        return Due(self._run, seen.partitions, settings.covered, settings.gone, near)

    def _reachable(self, resource: ConfigResource, seen: Observation) -> bool:
        if resource in self._settings.unanswered or resource in self._settings.refusing:
            return False
        return resource.scope is not ConfigScope.BROKER or seen.alive(int(resource.name))

    def _not_sent(self) -> WriteResult:
        why = self._throttled.refusal or "its broker or topic does not answer"
        return WriteResult(Verdict.REFUSED, message=f"its throttle could not be set: {why}")
