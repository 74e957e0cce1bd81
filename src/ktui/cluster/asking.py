"""Requests to many brokers at once, and reads of chosen partitions in their present state.

A slow broker never delays the others. Before a request, reassignments are listed once more:
metadata that waits to be fresh shows the partition as it was when the wait began, and others may
have begun to move it since.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Collection, Coroutine, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from ktui.cluster.clock import Clock, wait_at_most
from ktui.cluster.errors import (
    ClusterError,
    Failure,
    NotAuthorized,
    Operation,
    TimedOut,
    Unsupported,
    describe_unreadable,
)
from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, Reassignment, TopicPartition
from ktui.cluster.ports import ClusterDescription, ClusterReader, TopicConfigsAnswer, TopicsAnswer

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


LEAVES_WITHIN_S = 5.0
"""A request leaves within this time of the last read that it rests on, or not at all.

This is a promise of safety (docs/runs.md, what a request rests on). The longer it is, the more can
change between a read and its request. Shorter, slow brokers would keep requests from leaving.
"""
FRESH_AGAIN_S = 60.0  # before asking a cluster again that does not support it


FRESH_WITHIN_S = 2.0  # for which a request waits; it may rest on reads at most 5 s old


class FreshMetadata:
    """Metadata proven to be no older than the call, where the cluster supports that."""

    def __init__(self, reader: ClusterReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._from_s = -math.inf

    async def describe(
        self, names: Collection[str], *, fresh: bool = True, within_s: float = math.inf
    ) -> tuple[TopicsAnswer, bool]:
        if not names:
            return TopicsAnswer({}), fresh
        if fresh and self._clock.monotonic() >= self._from_s:
            try:
                return await self._fresh_within(within_s, names), True
            except Unsupported:
                self._from_s = self._clock.monotonic() + FRESH_AGAIN_S
            except TimedOut:
                pass
        return await self._reader.describe_topics(names), False

    async def _fresh_within(self, seconds: float, names: Collection[str]) -> TopicsAnswer:
        if seconds == math.inf:
            return await self._reader.describe_topics(names, fresh=True)
        asking = asyncio.ensure_future(self._reader.describe_topics(names, fresh=True))
        try:
            await wait_at_most(seconds, asking, self._clock)
            if asking.done():
                return asking.result()
        finally:
            asking.cancel()
        raise TimedOut("waiting for fresh metadata", answer=f"none within {seconds:.0f} s")


class FreshRead:
    """Reads made for one request, with its own timing: no poll delays them."""

    def __init__(self, reader: ClusterReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._metadata = FreshMetadata(reader, clock)

    async def read(
        self,
        partitions: Collection[TopicPartition],
        *,
        settings: bool = False,
        to_cancel: bool = False,
    ) -> Observation:
        """Read the state of some partitions, without figures.

        Partitions that others reassign are in the answer, undescribed. What either list has counts
        as being reassigned; for a null cancel (`to_cancel`) only what the last list has, so that it
        meets nothing begun since. `asked_s` is the second before the first list.
        """
        asked_s = self._clock.monotonic()
        cluster, listed = await read_cluster_and_reassignments(self._reader)
        names = frozenset(tp.topic for tp in partitions)
        (topics, fresh), configs = await asyncio.gather(
            self._metadata.describe(names, within_s=FRESH_WITHIN_S),
            self._configs(names if settings else frozenset()),
        )
        last = await self._reader.list_reassignments()
        listed = last if to_cancel else {**listed, **last}
        chosen = frozenset(partitions)
        wanted = {tp: state for tp, state in topics.partitions.items() if tp in chosen}
        hidden = {failure.topic for failure in topics.failures}
        missing = {tp for tp in chosen if tp not in wanted and tp.topic not in hidden}
        now_s = self._clock.monotonic()
        return Observation(
            cluster_id=cluster.cluster_id,
            controller=cluster.controller,
            brokers=cluster.brokers,
            waits_for_kept=cluster.waits_for_kept,
            refuses_cordoned=cluster.refuses_cordoned,
            partitions=with_reassignments(wanted, listed),
            absent=frozenset(missing - listed.keys()),
            fresh=fresh,
            topic_configs=configs.configs,
            at=self._clock.now(),
            monotonic_s=now_s,
            took_s=now_s - asked_s,
            failures=(*topics.failures, *configs.failures),
        )

    async def _configs(self, names: frozenset[str]) -> TopicConfigsAnswer:
        return await self._reader.topic_configs(names) if names else TopicConfigsAnswer({})


async def read_cluster_and_reassignments(
    reader: ClusterReader,
) -> tuple[ClusterDescription, Mapping[TopicPartition, Reassignment]]:
    """Read the cluster's brokers and its ongoing reassignments, both at once."""
    return await asyncio.gather(reader.describe_cluster(), reader.list_reassignments())


def with_reassignments(
    states: Mapping[TopicPartition, PartitionState], listed: Mapping[TopicPartition, Reassignment]
) -> dict[TopicPartition, PartitionState]:
    """Overlay the controller's list on metadata; `described=False` for partitions only it has."""
    merged = dict(states)
    for tp, reassignment in listed.items():
        state = merged.get(tp) or PartitionState(tp, None, (), (), None, described=False)
        merged[tp] = state.with_reassignment(reassignment)
    return merged
