"""Debounce surprising metadata: a broker's metadata lags behind the controller."""

from __future__ import annotations

import asyncio
import enum
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from ktui.cluster.clock import Clock
from ktui.cluster.errors import Means, NotAuthorized, Operation, Refused, means
from ktui.cluster.figures import SIZES_EVERY_S
from ktui.cluster.observation import Observation
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import ClusterReader, Verdict, WriteResult
from ktui.execution.run import parts, unanswered
from ktui.execution.run.events import (
    Answered,
    AnyRunEvent,
    Paused,
    PauseOrigin,
    Request,
    StateEntered,
    StepOver,
    UrgencyChanged,
)
from ktui.execution.run.run import Run, nothing_was_sent, remains_not_begun
from ktui.execution.run.states import CancelKind, State, state_when_cancelled
from ktui.execution.run.track import Track, goal_text
from ktui.pacing.limits import Shape
from ktui.pacing.roster import Roster
from ktui.pacing.situation import Blocked, BlockReason, Done, Next, Situation, Step
from ktui.progress.timeline import Progress

_FRESH_POLLS = 2
_POLLS, _SECONDS = 3, 2.0  # how long a surprise has to last where metadata may be old
_AS_SENT_S = 60.0
"""How long the list of a request of ours that is not listed any more has to last, to be no echo.

While an alter is under way, metadata lists the replicas before it with those asked for. A broker
that lags behind the controller shows that after the alter was cancelled, too.
"""


class Debounce:
    """Partitions in an unexpected state, each with the first time and the number of polls."""

    def __init__(self) -> None:
        self._since: dict[TopicPartition, tuple[object, float, int]] = {}

    def confirmed(
        self, tp: TopicPartition, what: object, seen: Observation, *, echo: bool = False
    ) -> bool:
        """Record a surprise; return whether it is certain, `what` being the same each time.

        It takes longer where it may be an `echo`: what an alter of ours looks like under way.
        """
        before = self._since.get(tp)
        same = before is not None and before[0] == what
        since, polls = (before[1], before[2] + 1) if before and same else (seen.monotonic_s, 1)
        self._since[tp] = (what, since, polls)
        if seen.fresh:
            return polls >= _FRESH_POLLS
        return polls >= _POLLS and seen.monotonic_s - since >= (_AS_SENT_S if echo else _SECONDS)

    def clear(self, tp: TopicPartition) -> None:
        self._since.pop(tp, None)


HOLDS_S = 2 * SIZES_EVERY_S  # a refusal counts more than log dirs, which may be older


class Cordons:
    """Knows the cordoned brokers that no target may name; a refusal shows it, too."""

    def __init__(self) -> None:
        self.closed: frozenset[int] = frozenset()
        self.to_read = True  # log dirs, for this
        self._cordoned: frozenset[int] = frozenset()  # all their log dirs were, when last read
        self._refuses = False  # a target, because of a cordon
        self._refused_s: dict[int, float] = {}  # until the cordon is seen to be gone

    def update(self, seen: Observation) -> None:
        """Update from a poll.

        A broker that is no longer read stays as it was: the controller keeps the cordon of one that
        is down. Nor does a reading lift a refusal while the next one fails: it may be the older.
        """
        late = {f.broker for f in seen.failures if f.operation is Operation.LOG_DIRS}
        uncordoned = seen.log_dirs.keys() - seen.cordoned
        self._cordoned = (self._cordoned - uncordoned) | seen.cordoned
        self._refused_s = {
            broker: at_s
            for broker, at_s in self._refused_s.items()
            if broker not in uncordoned - late or seen.monotonic_s - at_s < HOLDS_S
        }
        refuses = self._refuses if seen.refuses_cordoned is None else seen.refuses_cordoned
        self.closed = (self._cordoned if refuses else frozenset()).union(self._refused_s)
        self.to_read = seen.refuses_cordoned is not False or bool(self._refused_s)

    def refused(self, broker: int, now_s: float) -> None:
        self._refuses = self.to_read = True
        self._refused_s[broker] = now_s
        self.closed |= {broker}


class Hold(enum.Enum):
    """Why nothing is submitted for a partition that could step."""

    PAUSED = "paused"
    TOO_LATE = "too late"  # not expected to end in time
    UNSEEN = "unseen"  # the cluster does not describe it
    THROTTLE = "throttle"  # it cannot be set now
    UNANSWERED = "unanswered"  # a silent broker has a request for it, which may still take effect
    SHUT = "shut"  # nothing new is submitted; called-off ones get its place


class WorkingState:
    """The run, the pacing state of each of its partitions, and what is not certain yet."""

    def __init__(self, run: Run, heard: unanswered.LastHeard = unanswered.always_heard) -> None:
        self.run = run
        self.roster = Roster(run.limits, urgent_first=run.options.urgent_first, racks=run.racks)
        self.doubts = Debounce()
        self.cordons = Cordons()
        self.unanswered = unanswered.Unanswered(unanswered.left_open(run), heard)
        self.progress = Progress()
        self._held: dict[Hold, set[TopicPartition]] = {why: set() for why in Hold}

    def hold(self, tp: TopicPartition, why: Hold) -> None:
        if tp in self.roster:
            self._held[why].add(tp)
            self.roster.hold(tp)

    def release(self, tp: TopicPartition, why: Hold) -> None:
        if tp in self._held[why]:
            self._held[why].discard(tp)
            if tp in self.roster and not any(tp in held for held in self._held.values()):
                self.roster.release(tp)

    def release_all(self, why: Hold, may_go: Callable[[TopicPartition], bool]) -> None:
        """Lift a reason from all that may go, in rank order: places may be few."""
        held = self._held[why]
        held -= {tp for tp in held if tp not in self.roster}
        for tp in sorted(filter(may_go, held), key=self.roster.rank):
            self.release(tp, why)

    def held(self, why: Hold) -> AbstractSet[TopicPartition]:
        return self._held[why]

    def give_up(
        self, track: Track, state: State, reason: str, replicas: Brokers | None = None
    ) -> AnyRunEvent:
        self.forget(track.tp)
        return state_event(track, state, reason, replicas)

    def keep_waiting(self, track: Track) -> list[AnyRunEvent]:
        """Return why, once. Meanwhile no other waits to be cut with this one."""
        self.roster.stall(track.tp, stalled=True)
        why = unanswered.open_request_text(self.unanswered.node(track.tp))
        stalls = track.step is not None and not track.step_cancelled_by_operator
        return state_change(track, State.STALLED if stalls else track.state, why)

    def awaits_answer(self, track: Track, now_s: float) -> bool:
        """A stop waits only for a while: the end of the run names the request."""
        if track.tp not in self.unanswered:
            return False
        silent_s = self.unanswered.silent_for(track.tp, now_s)
        return track.cancel is not CancelKind.STOP or silent_s < unanswered.GIVEN_UP_S

    def yields_place(self, track: Track, now_s: float) -> bool:
        silent_s = self.unanswered.silent_for(track.tp, now_s)
        return track.cancel is not CancelKind.STOP and silent_s >= unanswered.SILENT_S

    def hold_unanswered(self, track: Track) -> list[AnyRunEvent]:
        """Hold it until its open request cannot take effect any more, and return why."""
        self.hold(track.tp, Hold.UNANSWERED)
        why = unanswered.open_request_text(self.unanswered.node(track.tp))
        return state_change(track, state_when_cancelled(State.BLOCKED, track.cancel), why)

    def forget(self, tp: TopicPartition) -> None:
        if tp in self.roster:
            self.roster.withdraw(tp)
        for held in self._held.values():
            held.discard(tp)
        self.doubts.clear(tp)

    def end_step(self, track: Track, situation: Situation) -> Next | None:
        """Return what comes next; None if nothing is to follow."""
        if track.cancel is CancelKind.STOP:
            self.roster.withdraw(track.tp)
            return None
        return self.roster.over(track.tp, situation)

    def fail(self, track: Track, reason: str) -> list[AnyRunEvent]:
        events = [self.give_up(track, State.FAILED, reason)]
        stops = self.run.options.stop_on_failure and track.cancel is None
        if stops and PauseOrigin.FAILURE not in self.run.pauses.whole:
            events.append(Paused(by=PauseOrigin.FAILURE, reason=f"{track.tp} has failed"))
        return events

    def note_situation(self, track: Track, situation: Situation) -> list[AnyRunEvent]:
        following = self.roster.seen(track.tp, situation)
        return [
            *standing_events(track, following, situation.replicas),
            *self._urgency_change(track, following, situation),
        ]

    def _urgency_change(
        self, track: Track, following: Next, situation: Situation
    ) -> list[AnyRunEvent]:
        goes_first = self.roster.urgent_first and isinstance(following, Step)
        why = situation.urgency if goes_first else None
        if why is track.urgency or isinstance(following, Done):
            return []
        tp = track.tp
        return [UrgencyChanged(tp.topic, tp.partition, why=why)]


def state_event(
    track: Track, state: State, reason: str = "", replicas: Brokers | None = None
) -> StateEntered:
    """Return its event; `replicas` are those that someone else gave it, or None."""
    tp = track.tp
    return StateEntered(tp.topic, tp.partition, state=state, reason=reason, replicas=replicas)


def state_change(track: Track, state: State, reason: str) -> list[AnyRunEvent]:
    """Return the event of a new state or reason; none if the journal has both already."""
    same = (track.state, track.reason) == (state, reason)
    return [] if same else [state_event(track, state, reason)]


def step_over_event(
    track: Track, situation: Situation, *, reached: bool = True, reason: str = ""
) -> StepOver:
    """Return the event that the step in flight of a partition has ended."""
    return StepOver(
        track.tp.topic,
        track.tp.partition,
        replicas=situation.replicas,
        leader=situation.leader,
        reached=reached,
        reason=reason,
    )


def standing_events(track: Track, step: Next, replicas: Brokers | None = None) -> list[AnyRunEvent]:
    """Return the state of a waiting partition, if it differs from the recorded one.

    A partition that waits for its turn keeps its reason. The event of an ended partition has its
    replicas if they differ from those that the run knew: somebody else or a late request changed
    them.
    """
    state, reason = _standing(step, goal_text(track.cancel))
    named = state_when_cancelled(state, track.cancel)
    if named is track.state and (not reason or reason == track.reason):
        return []
    elsewhere = named.ended and replicas != track.replicas
    return [state_event(track, named, reason, replicas if elsewhere else None)]


def _standing(step: Next, goal: str) -> tuple[State, str]:
    if isinstance(step, Done):
        return State.DONE, ""
    if isinstance(step, Blocked):
        foreign = step.why is BlockReason.REASSIGNING
        return (State.FOREIGN if foreign else State.BLOCKED), step.sentence_of(goal)
    return (State.READY if step.cut else State.QUEUED), ""


FIRST_RETRY_S, LAST_RETRY_S = 1.0, 60.0  # seconds until a retry; they double with each try


class AnswerHandler:
    """Processes answers, and tracks the partitions that must not be retried yet."""

    def __init__(self, memory: WorkingState) -> None:
        self._memory = memory
        self._retry_at: dict[TopicPartition, float] = {}
        self._not_sent: Counter[TopicPartition] = Counter()  # in a row

    def backing_off(self, now_s: float) -> AbstractSet[TopicPartition]:
        self._retry_at = {tp: at_s for tp, at_s in self._retry_at.items() if at_s > now_s}
        return self._retry_at.keys()

    def process_answer(
        self, request: Request, results: Mapping[TopicPartition, WriteResult], now_s: float
    ) -> list[AnyRunEvent]:
        """A request denied as a whole pauses the run: no partition is at fault."""
        events: list[AnyRunEvent] = []
        missing = None if request is Request.CANCEL else parts.missing_permission(results.values())
        for tp, result in results.items():
            answered = Answered(
                tp.topic,
                tp.partition,
                request=request,
                verdict=result.verdict,
                code=result.code,
                message=result.message,
                node=result.node,
            )
            events.append(answered)
            if result.verdict is not Verdict.REFUSED or result.code is not None:
                self._not_sent.pop(tp, None)
            if result.verdict is Verdict.UNKNOWN and request is not Request.ELECT:
                self._memory.unanswered.add(tp, result.node)
            track = self._memory.run.tracks[tp]
            if request is Request.ALTER and result.verdict is Verdict.REFUSED:
                events += self._refused(request, track, result, now_s, last_try=missing is None)
            elif request is Request.ELECT and result.verdict is Verdict.REFUSED and not missing:
                events += self._not_elected(track, result, now_s)
            elif request is Request.CANCEL and result.verdict is Verdict.REFUSED:
                events += _not_cancelled(track, result)
        if missing and PauseOrigin.FAILURE not in self._memory.run.pauses.whole:
            events.append(Paused(by=PauseOrigin.FAILURE, reason=missing))
        return events

    def _refused(
        self, request: Request, track: Track, result: WriteResult, now_s: float, *, last_try: bool
    ) -> list[AnyRunEvent]:
        """Retry after a while, unless that was the last try; `request` is the first of the step."""
        once = self._memory.run.limits.shape is Shape.WHOLE and track.cancel is None
        judged = parts.judge_refusal(result, track.refusals, once=once, may_fail=last_try)
        if judged.outcome is parts.Outcome.FAILED:
            return self._memory.fail(track, parts.failure_reason(judged.tries, result, request))
        situation = self._memory.roster.situation(track.tp)
        if judged.cordoned is not None:
            self._memory.cordons.refused(judged.cordoned, now_s)
            situation = replace(situation, closed=self._memory.cordons.closed)
        if remains_not_begun(request, result, track):
            self._memory.roster.not_begun(track.tp)
        following = self._memory.end_step(track, situation)
        self._back_off(track.tp, result, judged.tries, now_s)
        held, words = judged.outcome is parts.Outcome.BLOCKED, parts.refusal_text(result)
        again = "" if held else ", to be tried again"
        reason = f"refused{again}: {words}" if result.code else f"not sent: {words}"
        over = step_over_event(track, situation, reached=False, reason=reason)
        # it is done if it was called off before it was sent, and is back already
        if isinstance(following, Done) or (held and isinstance(following, Blocked)):
            return [over, *standing_events(track, following)]
        return [over]

    def _back_off(self, tp: TopicPartition, result: WriteResult, tries: int, now_s: float) -> None:
        if result.code is None:
            self._not_sent[tp] += 1
            tries = self._not_sent[tp]
        rest_s = min(LAST_RETRY_S, FIRST_RETRY_S * 2.0 ** max(0, tries - 1))
        self._retry_at[tp] = now_s + rest_s

    def _not_elected(self, track: Track, result: WriteResult, now_s: float) -> list[AnyRunEvent]:
        if nothing_was_sent(Request.ELECT, result, track):
            return self._refused(Request.ELECT, track, result, now_s, last_try=True)
        judged = parts.judge_refusal(result, track.refusals)
        if judged.outcome is not parts.Outcome.FAILED or not judged.counts:
            return []
        words = parts.refusal_text(result)
        return self._memory.fail(track, f"its election was refused: {words}")


def _not_cancelled(track: Track, result: WriteResult) -> list[AnyRunEvent]:
    """It is repeated as long as it has no effect."""
    if not track.step_cancelled_by_operator or means(result.code, Means.IN_FORCE):
        return []
    return [state_event(track, State.REFUSED, parts.refusal_text(result))]


class NodeProbe:
    """Probes silent brokers, one question each at a time; a refusal is an answer too."""

    def __init__(self, reader: ClusterReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._open: dict[int, asyncio.Task[float | None]] = {}
        self._heard_s: dict[int, float] = {}

    def ask(self, brokers: Iterable[int]) -> None:
        for broker in brokers:
            if broker not in self._open:
                self._open[broker] = asyncio.create_task(self._answered(broker))

    def heard(self, broker: int) -> float:
        """In monotonic seconds; minus infinity if the broker has answered nothing."""
        task = self._open.get(broker)
        if task is not None and task.done():
            del self._open[broker]
            if (asked_s := task.result()) is not None:
                self._heard_s[broker] = asked_s
        return self._heard_s.get(broker, -math.inf)

    async def _answered(self, broker: int) -> float | None:
        asked_s = self._clock.monotonic()
        try:
            await self._reader.broker_config(broker)
        except (NotAuthorized, Refused):
            return asked_s
        except Exception:  # noqa: BLE001 - any failure means that the broker did not answer
            return None
        return asked_s

    async def aclose(self) -> None:
        tasks = list(self._open.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._open.clear()
