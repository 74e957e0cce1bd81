"""Answers to requests, and probes of brokers that gave none."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from ktui.cluster.clock import Clock
from ktui.cluster.errors import NotAuthorized, Refused
from ktui.cluster.kafka_error import Means, means
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterReader, Verdict, WriteResult
from ktui.execution.engine.working_state import (
    WorkingState,
    standing_events,
    state_event,
    step_over_event,
)
from ktui.execution.run.events import Answered, AnyRunEvent, Paused, PauseOrigin, Request
from ktui.execution.run.parts import (
    MOST_TRIES,
    cordoned_broker,
    counts_against,
    failure_reason,
    missing_permission,
    refusal_text,
)
from ktui.execution.run.run import nothing_was_sent, remains_not_begun
from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.pacing.limits import Shape
from ktui.pacing.situation import Blocked, Done

FIRST_RETRY_S, LAST_RETRY_S = 1.0, 60.0
"""Seconds until a retry. The wait doubles with each try."""


class AnswerHandler:
    """Processes answers, and tracks the partitions that must not be retried yet."""

    def __init__(self, memory: WorkingState) -> None:
        self._memory = memory
        self._retry_at: dict[TopicPartition, float] = {}
        self._not_sent: Counter[TopicPartition] = Counter()
        """How often in a row a partition's request was not sent."""

    def backing_off(self, now_s: float) -> AbstractSet[TopicPartition]:
        """Return the partitions whose last step was refused a moment ago. Each keeps its place."""
        self._retry_at = {tp: at_s for tp, at_s in self._retry_at.items() if at_s > now_s}
        return self._retry_at.keys()

    def process_answer(
        self, request: Request, results: Mapping[TopicPartition, WriteResult], now_s: float
    ) -> list[AnyRunEvent]:
        """Return the events that follow from the answer to one request.

        If a request was denied as a whole, the fault is not in its partitions. The run is then
        paused.
        """
        events: list[AnyRunEvent] = []
        missing = None if request is Request.CANCEL else missing_permission(results.values())
        for tp, result in results.items():
            events.append(
                Answered(
                    topic=tp.topic,
                    partition=tp.partition,
                    request=request,
                    verdict=result.verdict,
                    code=result.code,
                    message=result.message,
                    node=result.node,
                )
            )
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
        """Retry a step whose request was refused, after a while, unless that was the last try.

        Args:
            request: the first request of the step.
            last_try: whether the number of tries is limited.
        """
        words, cordoned = refusal_text(result), cordoned_broker(result)
        tries = track.refusals + counts_against(result)
        once = self._memory.run.limits.shape is Shape.WHOLE and track.cancel is None
        if last_try and (tries >= MOST_TRIES or (once and (tries or cordoned is not None))):
            return self._memory.fail(track, failure_reason(max(1, tries), result))
        situation = self._memory.roster.situation(track.tp)
        if cordoned is not None:
            self._memory.cordons.refused(cordoned, now_s)
            situation = replace(situation, closed=self._memory.cordons.closed)
        if remains_not_begun(request, result, track):
            self._memory.roster.not_begun(track.tp)
        following = self._memory.end_step(track, situation)
        self._back_off(track.tp, result, tries, now_s)
        again = "" if cordoned is not None else ", to be tried again"
        reason = f"refused{again}: {words}" if result.code else f"not sent: {words}"
        over = step_over_event(track, situation, reached=False, reason=reason)
        held = cordoned is not None
        # it is done if it was called off before it was sent, and is back already
        if isinstance(following, Done) or (held and isinstance(following, Blocked)):
            return [over, *standing_events(track, following)]
        return [over]

    def _back_off(self, tp: TopicPartition, result: WriteResult, tries: int, now_s: float) -> None:
        """Leave a partition alone for a while, longer each time."""
        if result.code is None:
            self._not_sent[tp] += 1
            tries = self._not_sent[tp]
        rest_s = min(LAST_RETRY_S, FIRST_RETRY_S * 2.0 ** max(0, tries - 1))
        self._retry_at[tp] = now_s + rest_s

    def _not_elected(self, track: Track, result: WriteResult, now_s: float) -> list[AnyRunEvent]:
        if nothing_was_sent(Request.ELECT, result, track):
            return self._refused(Request.ELECT, track, result, now_s, last_try=True)
        if track.refusals + 1 < MOST_TRIES or not counts_against(result):
            return []
        words = refusal_text(result)
        return self._memory.fail(track, f"its election was refused: {words}")


def _not_cancelled(track: Track, result: WriteResult) -> list[AnyRunEvent]:
    """Return why an operator's cancel has no effect; it is repeated as long as it has none."""
    if not track.step_cancelled_by_operator or means(result.code, Means.IN_FORCE):
        return []
    return [state_event(track, State.REFUSED, refusal_text(result))]


class NodeProbe:
    """Probes silent brokers, one question each at a time, and knows who has answered.

    A refusal is an answer too.
    """

    def __init__(self, reader: ClusterReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._open: dict[int, asyncio.Task[float | None]] = {}
        self._heard_s: dict[int, float] = {}

    def ask(self, brokers: Iterable[int]) -> None:
        """Send a question to each broker that has no open question."""
        for broker in brokers:
            if broker not in self._open:
                self._open[broker] = asyncio.create_task(self._answered(broker))

    def heard(self, broker: int) -> float:
        """Return when the last question was asked that the broker has answered.

        The time is in monotonic seconds. It is minus infinity if the broker has answered none.
        """
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
