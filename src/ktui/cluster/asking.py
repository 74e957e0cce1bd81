"""Asks many brokers at once, and never lets a slow one hold up the rest."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine
from typing import Any, Generic, TypeVar

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.errors import ClusterError, Failure, NotAuthorized, Operation, unreadable

log = logging.getLogger(__name__)

K = TypeVar("K")
A = TypeVar("A")

DENIED_RETRY_S = 30.0
"""A permission rarely comes back sooner, and brokers log each denial."""


class TimedAnswer(msgspec.Struct, Generic[A], frozen=True):
    """An answer, and the monotonic seconds at which it was asked for and at which it came."""

    value: A
    asked_s: float
    at_s: float


class Asking(Generic[K, A]):
    """One kind of question, asked per key (a broker, mostly).

    A key is never asked while its last question is still open, nor more often than `every_s`.
    The last answer of each key is kept, so that a slow broker's figures are old, not lost; a
    question open for more than `late_after_s` is a failure.
    """

    def __init__(
        self,
        operation: Operation,
        clock: Clock,
        *,
        every_s: float = 0.0,
        late_after_s: float = 0.0,
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
        """Give the questions without an answer that have not waited for so long yet."""
        now = self._clock.monotonic()
        return {task for task, since in self._open.values() if now - since < younger_than_s}

    def due(self, key: K) -> bool:
        """Whether the key may be asked again now."""
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

    def ask(self, key: K, call: Coroutine[Any, Any, A]) -> None:
        """Start the call for `key`; the caller has made sure that it is due."""
        now = self._clock.monotonic()
        self._expired.discard(key)
        task = asyncio.create_task(self._answered(call, now))
        task.add_done_callback(lambda _: call.close())  # also where it never came to be awaited
        self._open[key] = (task, now)

    async def _answered(self, call: Coroutine[Any, Any, A], asked_s: float) -> TimedAnswer[A]:
        return TimedAnswer(await call, asked_s, self._clock.monotonic())

    def harvest(self) -> None:
        """Take in the answers and errors that have come."""
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
                words = unreadable(error, "the answer")
                self._failed[key] = (ClusterError(f"reading {self._operation}", answer=words), now)
            else:
                raise error

    def keep(self, keys: Collection[K], *, younger_than_s: float) -> None:
        """Forget answers of other keys, and those too old to mean anything."""
        now = self._clock.monotonic()
        self.answers = {
            key: answer
            for key, answer in self.answers.items()
            if key in keys and now - answer.at_s < younger_than_s
        }

    def expire(self, key: K) -> None:
        """Have the key asked again as soon as can be; its last answer stands until then."""
        self._expired.add(key)

    def forgive(self, concerned: Collection[K]) -> None:
        """Forget the errors of keys that nobody asks any more: they would stand for good."""
        self._failed = {key: failed for key, failed in self._failed.items() if key in concerned}

    def failures(self) -> list[Failure]:
        """Name the keys without a fresh answer, and why; a key that is an int is a broker."""
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
        """Cancel what is open."""
        tasks = [task for task, _ in self._open.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._open.clear()


def _broker(key: object) -> int | None:
    return key if isinstance(key, int) else None


def _denied(error: ClusterError) -> bool:
    return isinstance(error, NotAuthorized)
