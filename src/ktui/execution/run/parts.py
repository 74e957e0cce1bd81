"""Parts of a run, folded from their events: extra plans, pauses, and the refusals that count."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar

import msgspec

from ktui.cluster.errors import KafkaError, Means, means, what_helps
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict, WriteResult
from ktui.execution.run import events
from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.planning.plan import join_some

_OTHERS = (State.CHANGED_ELSEWHERE, State.TOPIC_GONE)


EventT = TypeVar("EventT", events.LimitsChanged, events.ThrottleChanged, events.Noted, events.Added)


class Remembered(msgspec.Struct, Generic[EventT], frozen=True):
    """An event that a run remembers as it is, as an entry of the journal."""

    seq: int
    at: datetime
    event: EventT


class ExtraPlans(msgspec.Struct):
    """The extra plans that have joined a run, and the partitions that wait for an earlier move."""

    plans: list[Remembered[events.Added]] = []
    waiting: dict[TopicPartition, Track] = {}  # not queued with their new targets yet
    coming: Remembered[events.Added] | None = None  # its partitions have not all been read
    received: list[events.Planned] = []  # the partitions of it that have been read
    numbered: int = 0  # places in the run's plans that have been assigned

    def number(self) -> int:
        self.numbered += 1
        return self.numbered - 1

    def expect(self, added: Remembered[events.Added]) -> None:
        self.coming, self.received = added, []

    def take(self, partitions: Sequence[events.Planned]) -> Sequence[events.Planned]:
        """Return the partitions that join now; an extra plan's once all of them are there."""
        if self.coming is None:
            return partitions
        self.received += partitions
        if len(self.received) < self.coming.event.partitions:
            return ()
        self.plans.append(self.coming)
        whole, self.received, self.coming = self.received, [], None
        return whole

    def wait(self, track: Track, planned: events.Planned) -> None:
        """Make a partition wait for its target of an extra plan until its move is over."""
        track.then = planned
        track.under_way = track.under_way and not track.state.ended
        self.waiting[track.tp] = track

    def join(self, track: Track) -> None:
        """Queue a partition for its target of an extra plan, behind all others of the run."""
        _retarget(track)
        self.forget(track)
        track.number = self.number()

    def forget(self, track: Track) -> None:
        track.then = None
        self.waiting.pop(track.tp, None)

    def overrule(self, asked: events.CancelAsked) -> None:
        if asked.command is not None and self.added_by(asked.command):
            return  # cancelled for an extra plan
        for tp in self.waiting.keys() & {*asked.partitions}:
            self.forget(self.waiting[tp])

    def added_by(self, command: int) -> events.Added | None:
        """Return the extra plan that a command has added; None if it was not carried out."""
        return next((each.event for each in self.plans if each.event.command == command), None)


def _retarget(track: Track) -> None:
    """Replace the plan of a partition at rest by that of an extra plan.

    Its original replicas stay those from before the run. Where others have changed it since, or no
    step of it was ever begun, they are the ones that the extra plan found.
    """
    then = track.then
    if then is None:
        return
    if not track.begun or track.state in _OTHERS or then.topic_id != track.planned.topic_id:
        track.planned, track.replicas, track.original = then, then.original, then.original
        track.led = then.leader if then.leader in then.original else None
        track.steps, track.sent, track.intermediate = 0, None, ()
    else:
        track.intermediate = _intermediate(track, then)
        had, size = track.planned, then.size or track.planned.size
        track.planned = msgspec.structs.replace(
            then, original=had.original, leader=had.leader, size=size
        )
    track.then = track.cancel = None
    track.refusals, track.turned, track.taken = 0, True, False
    track.under_way = track.under_way and track.state is State.STOPPED  # still on its way


def _intermediate(track: Track, then: events.Planned) -> tuple[int, ...]:
    """Return the replicas that only the earlier target wanted (KIP-236), unless it was reached."""
    if track.state is State.DONE:
        return ()
    kept = (*track.original, *then.target)
    return tuple(broker for broker in track.replicas if broker not in kept)


class Pauses(msgspec.Struct):
    """The pauses in force: of the whole run with origin and reason, of topics and partitions."""

    whole: dict[events.PauseOrigin, str] = {}
    topics: set[str] = set()
    partitions: set[TopicPartition] = set()
    freed: set[TopicPartition] = set()  # since the last pause: who rolls back means now

    @property
    def reason(self) -> str | None:
        return "; ".join(why or _unexplained(by) for by, why in self.whole.items()) or None

    def holds(self, tp: TopicPartition) -> bool:
        return tp not in self.freed and self._paused(tp)

    def stops(self, tp: TopicPartition) -> bool:
        """Whether any pause, also one of the whole run, stops requests for a partition."""
        return self.holds(tp) or (bool(self.whole) and tp not in self.freed)

    def apply(self, event: events.Paused | events.Continued | events.CancelAsked) -> None:
        """Only an operator's continue of everything ends pauses of every origin."""
        if isinstance(event, events.Paused):
            self._pause(event)
        elif isinstance(event, events.CancelAsked):
            self.freed.update(event.partitions)
        elif event.topics or event.partitions:
            self.topics -= set(event.topics)
            lifted = (tp for tp in self.partitions if tp.topic in event.topics)
            self.partitions -= {*event.partitions, *lifted}
        elif event.by is events.PauseOrigin.OPERATOR:
            self.whole.clear()
            self.topics.clear()
            self.partitions.clear()
        else:
            self.whole.pop(event.by, None)

    def _pause(self, event: events.Paused) -> None:
        if event.topics or event.partitions:
            self.topics |= set(event.topics)
            self.partitions |= set(event.partitions)
            self.freed = {tp for tp in self.freed if not self._paused(tp)}
        else:
            self.whole[event.by] = event.reason
            self.freed.clear()

    def _paused(self, tp: TopicPartition) -> bool:
        return tp in self.partitions or tp.topic in self.topics


def _unexplained(by: events.PauseOrigin) -> str:
    return "by the operator" if by is events.PauseOrigin.OPERATOR else f"by {by.words}"


_CORDONED = re.compile(r"broker (\d+), but all its log directories are cordoned")
"""Kafka's words, from 4.4, where all log dirs of a target's broker are cordoned."""

MOST_TRIES = 5  # after so many refusals in a row, a partition is `failed`


class Outcome(enum.Enum):
    """What becomes of a partition's step after a refusal."""

    AGAIN = "again"
    BLOCKED = "blocked"  # its target names a cordoned broker: it waits for the end of the cordon
    FAILED = "failed"


class Judgement(NamedTuple):
    """A refusal as it is judged, with the refusals of the partition in a row."""

    outcome: Outcome
    counts: bool
    tries: int
    cordoned: int | None


def judge_refusal(
    result: events.Answered | WriteResult,
    before: int = 0,
    *,
    once: bool = False,
    may_fail: bool = True,
) -> Judgement:
    """Judge a refusal after `before` others in a row; `once`: whether the run asks only once."""
    cordoned, counts = _cordoned_broker(result), counts_against(result)
    tries = before + counts
    over = tries >= MOST_TRIES or means(result.code, Means.FINAL)
    if may_fail and (over or (once and (tries or cordoned is not None))):
        return Judgement(Outcome.FAILED, counts, tries, cordoned)
    outcome = Outcome.AGAIN if cordoned is None else Outcome.BLOCKED
    return Judgement(outcome, counts, tries, cordoned)


def counts_against(result: events.Answered | WriteResult) -> bool:
    """Whether Kafka refused it, and not ktui before it was sent."""
    if result.verdict is Verdict.UNKNOWN:
        return result.code == KafkaError.UNKNOWN_SERVER_ERROR  # the controller failed over it
    refused = result.verdict is Verdict.REFUSED and result.code is not None
    waits = means(result.code, Means.NOT_IN_SYNC) or _cordoned_broker(result) is not None
    denied = result.code == KafkaError.CLUSTER_AUTHORIZATION_FAILED  # no partition's own fault
    return refused and not (waits or denied)


def _cordoned_broker(result: events.Answered | WriteResult) -> int | None:
    """Return the first cordoned broker of a target that made Kafka refuse it, if any."""
    refused = result.verdict is Verdict.REFUSED
    if not refused or result.code != KafkaError.INVALID_REPLICA_ASSIGNMENT:
        return None
    named = _CORDONED.search(result.message)
    return None if named is None else int(named[1])


def missing_permission(results: Iterable[WriteResult]) -> str | None:
    """Name the permission whose lack made Kafka refuse all of a request; None if it did not."""
    results = list(results)
    codes = {result.code for result in results}
    if not codes or not all(means(code, Means.DENIED) for code in codes):
        return None
    named = ", ".join(sorted(filter(None, codes)))
    missing = join_some(sorted({result.needs for result in results} - {""}))
    if not missing:
        return f"a permission is missing ({named}): grant what `ktui doctor` names, then resume"
    return f"the permission {missing} is missing ({named}): grant it, then resume"


def failure_reason(
    tries: int, result: events.Answered | WriteResult, request: events.Request
) -> str:
    """Return why a partition failed: the number of tries, the last refusal, and what helps."""
    times = "" if tries <= 1 else f" {tries} times"
    return f"refused{times}: {refusal_text(result)}{what_helps(result.code, request)}"


def refusal_text(result: events.Answered | WriteResult) -> str:
    """Return the broker's message, with Kafka's name of the error if the message lacks it."""
    named = not result.code or result.code in result.message
    return result.message if named else f"{result.message} ({result.code})"
