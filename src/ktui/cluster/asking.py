"""Concurrent requests to many brokers; a slow broker never delays the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine
from typing import Any, Generic, TypeVar

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.errors import ClusterError, Failure, NotAuthorized, Operation, describe_unreadable

log = logging.getLogger(__name__)

PATIENCE = 0.75  # of the poll interval, for a slow broker; then the poll goes on without
ONE_POLL_PATIENCE_S = 5.0  # for a slow broker where there is a single poll, and no later one
LONGEST_BACKOFF_S = 5.0  # seconds until the next poll, at most, while the cluster does not answer
K = TypeVar("K")
A = TypeVar("A")

DENIED_RETRY_S = 30.0  # seconds before a denied request is repeated; brokers log each denial


class TimedAnswer(msgspec.Struct, Generic[A], frozen=True):
    """An answer, with the monotonic seconds of its request and its arrival."""

    value: A
    asked_s: float
    at_s: float


class RequestsByKey(Generic[K, A]):
    """One kind of request, per key one at a time, and at most every `every_s` seconds.

    An answer is kept until the next; a request open for `late_after_s` is a failure.
    """

    def __init__(
        self, operation: Operation, clock: Clock, *, every_s: float = 0.0, late_after_s: float = 0.0
    ) -> None:
        self._operation = operation
        self._clock = clock
        self._every_s = every_s
        self._late_after_s = late_after_s
        self._open: dict[K, tuple[asyncio.Task[TimedAnswer[A]], float]] = {}
        self._failed: dict[K, tuple[ClusterError, float]] = {}
        self._expired: set[K] = set()
        self.answers: dict[K, TimedAnswer[A]] = {}

    def open(self, *, younger_than_s: float) -> set[asyncio.Task[TimedAnswer[A]]]:
        now = self._clock.monotonic()
        return {task for task, since in self._open.values() if now - since < younger_than_s}

    def due(self, key: K) -> bool:
        if key in self._open:
            return False
        if key in self._expired:
            return True
        now = self._clock.monotonic()
        if key in self._failed:
            error, since = self._failed[key]
            return now - since >= (DENIED_RETRY_S if _denied(error) else self._every_s)
        answer = self.answers.get(key)
        return answer is None or now - answer.at_s >= self._every_s

    def expired(self, key: K) -> bool:
        return key in self._expired

    def ask(self, key: K, call: Coroutine[Any, Any, A]) -> None:
        now = self._clock.monotonic()
        self._expired.discard(key)
        task = asyncio.create_task(self._timed(call, now))
        task.add_done_callback(lambda _: call.close())  # even if the call was never awaited
        self._open[key] = (task, now)

    async def _timed(self, call: Coroutine[Any, Any, A], asked_s: float) -> TimedAnswer[A]:
        return TimedAnswer(await call, asked_s, self._clock.monotonic())

    def harvest(self) -> None:
        now = self._clock.monotonic()
        for key, (task, _) in list(self._open.items()):
            if not task.done():
                continue
            del self._open[key]
            error = task.exception()
            if error is None:
                self.answers[key] = task.result()
                self._failed.pop(key, None)
            elif isinstance(error, ClusterError):
                self._failed[key] = (error, now)
            elif isinstance(error, Exception):
                log.error("an answer cannot be read", exc_info=error)
                words = describe_unreadable(error, "the answer")
                self._failed[key] = (ClusterError(f"reading {self._operation}", answer=words), now)
            else:
                raise error

    def keep(self, keys: Collection[K], *, younger_than_s: float) -> None:
        now = self._clock.monotonic()
        self.answers = {
            key: answer
            for key, answer in self.answers.items()
            if key in keys and now - answer.at_s < younger_than_s
        }

    def expire(self, key: K) -> None:
        self._expired.add(key)

    def forgive(self, concerned: Collection[K]) -> None:
        """Forget errors of keys no longer concerned: these errors would stay for good."""
        self._failed = {key: failed for key, failed in self._failed.items() if key in concerned}

    def failures(self) -> list[Failure]:
        now = self._clock.monotonic()
        failed = [
            Failure(self._operation, str(error), _broker(key), denied=_denied(error))
            for key, (error, _) in self._failed.items()
        ]
        late = [
            Failure(self._operation, f"no answer for {now - since:.1f} s", _broker(key))
            for key, (_, since) in self._open.items()
            if key not in self._failed and now - since >= self._late_after_s
        ]
        return failed + late

    async def aclose(self) -> None:
        tasks = [task for task, _ in self._open.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._open.clear()


def _broker(key: object) -> int | None:
    return key if isinstance(key, int) else None


def _denied(error: ClusterError) -> bool:
    return isinstance(error, NotAuthorized)
