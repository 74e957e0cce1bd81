"""Changes sent in several requests, with a result for each partition or resource."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

import msgspec

from ktui.cluster.clock import SystemClock
from ktui.cluster.errors import (
    ClusterError,
    KafkaError,
    Means,
    NotAuthorized,
    Refused,
    TimedOut,
    error_of,
    means,
)
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict, WriteResult, unread_answer
from ktui.cluster.text import clean
from ktui.kafka.transport.client import AnswerLost, RequestFactory, Wire
from ktui.kafka.transport.pool import ANY_TIME, SendDeadline
from ktui.kafka.transport.translate_errors import Purpose, most_informative, name_of, permission_fix

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_CLOCK = SystemClock()
Part = TypeVar("Part")
AnswerReader = Callable[[Any], Iterator[tuple[Part, int, str | None]]]
"""Reads an answer: yields each part with its error code and the broker's message."""


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Group partition numbers by topic, each once, in the order given."""
    grouped: dict[str, dict[int, None]] = {}
    for tp in partitions:
        grouped.setdefault(tp.topic, {})[tp.partition] = None
    return {topic: list(numbers) for topic, numbers in grouped.items()}


def chunks(items: Iterable[_T], size: int) -> Iterator[Sequence[_T]]:
    """Yield the items in chunks of at most `size`."""
    remaining = iter(items)
    while chunk := list(islice(remaining, size)):
        yield chunk


class BatchedRequest(msgspec.Struct, Generic[Part], frozen=True):
    """One request, with the partitions or resources it concerns."""

    parts: Collection[Part]
    build: RequestFactory
    broker: int | None = None  # None for any broker, which forwards it to the controller


class Sender(Generic[Part]):
    """Sends changes of one kind, each once; `needs` is the permission to change a part."""

    def __init__(
        self,
        wire: Wire,
        purpose: Purpose,
        read_answer: AnswerReader[Part],
        needs: Callable[[Part], str] | None = None,
    ) -> None:
        self._wire = wire
        self._purpose = purpose
        self._read_answer = read_answer
        self._needs = needs or (lambda _: purpose.needs)

    async def in_turn(
        self, changes: Sequence[BatchedRequest[Part]], deadline: SendDeadline = ANY_TIME
    ) -> dict[Part, WriteResult]:
        """Send the changes one after the other; raise only if nothing at all was sent."""
        until = _CLOCK.monotonic() + self._wire.timeout_s
        outcomes = []
        for change in changes:
            outcomes.append(await self._outcome(change, until - _CLOCK.monotonic(), deadline))
            if isinstance(outcomes[0], ClusterError):
                raise outcomes[0]
        return _joined(changes, outcomes)

    async def together(
        self, changes: Sequence[BatchedRequest[Part]], deadline: SendDeadline = ANY_TIME
    ) -> dict[Part, WriteResult]:
        """Send all changes at once; raise only if nothing at all was sent."""
        limit = self._wire.timeout_s
        outcomes = await asyncio.gather(*(self._outcome(each, limit, deadline) for each in changes))
        failures = [outcome for outcome in outcomes if isinstance(outcome, ClusterError)]
        if failures and len(failures) == len(outcomes):
            raise most_informative(failures)
        return _joined(changes, outcomes)

    async def _outcome(
        self, change: BatchedRequest[Part], limit_s: float, deadline: SendDeadline
    ) -> Mapping[Part, WriteResult] | ClusterError:
        if limit_s <= 0:
            return TimedOut(self._purpose.attempted, answer="no time was left to send it")
        try:
            answer = await self._wire.send(
                self._purpose, change.build, broker=change.broker, limit_s=limit_s, leave=deadline
            )
        except AnswerLost as lost:
            unknown = WriteResult(Verdict.UNKNOWN, message=str(lost), node=lost.node)
            return dict.fromkeys(change.parts, unknown)
        except (NotAuthorized, Refused) as refused:
            code = refused.answer.partition(":")[0]
            needs = refused.needs if isinstance(refused, NotAuthorized) else ""
            result = WriteResult(Verdict.REFUSED, code, str(refused), needs=needs)
            return dict.fromkeys(change.parts, result)
        except ClusterError as error:
            return error
        try:
            results = {
                part: _result(code, message, _needed(code, part, self._needs(part)))
                for part, code, message in self._read_answer(answer)
            }
        except Exception as error:  # it was sent: only a later read can show what came of it
            log.exception("the answer to a request cannot be read")
            return dict.fromkeys(change.parts, unread_answer(error))
        unmentioned = WriteResult(Verdict.UNKNOWN, message="the answer does not mention it")
        return {part: results.get(part, unmentioned) for part in change.parts}


def _needed(code: int, part: object, needs: str) -> str:
    """Return the missing permission: the topic's, if the denial is about a topic."""
    if error_of(code) is KafkaError.TOPIC_AUTHORIZATION_FAILED and isinstance(part, TopicPartition):
        return f"{needs.partition(' on ')[0]} on topic {part.topic}"
    return needs


def _result(code: int, message: str | None, needs: str) -> WriteResult:
    if not code:
        return WriteResult(Verdict.ACCEPTED)
    words = clean(message or "")
    if means(code, Means.DENIED):
        words = ". ".join(filter(None, (words.rstrip("."), permission_fix(needs))))
        return WriteResult(Verdict.REFUSED, name_of(code), words, needs=needs)
    if error_of(code) is KafkaError.ELECTION_NOT_NEEDED:
        return WriteResult(Verdict.ACCEPTED, name_of(code), words)
    verdict = Verdict.UNKNOWN if means(code, Means.UNDECIDED) else Verdict.REFUSED
    return WriteResult(verdict, name_of(code), words)


def _joined(
    changes: Sequence[BatchedRequest[Part]],
    outcomes: Sequence[Mapping[Part, WriteResult] | ClusterError],
) -> dict[Part, WriteResult]:
    results: dict[Part, WriteResult] = {}
    for change, outcome in zip(changes, outcomes, strict=True):
        if isinstance(outcome, ClusterError):
            not_sent = WriteResult(Verdict.REFUSED, message=f"not sent: {outcome}")
            results |= dict.fromkeys(change.parts, not_sent)
        else:
            results |= outcome
    return results
