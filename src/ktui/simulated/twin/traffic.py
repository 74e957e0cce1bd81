"""What producers write to each partition, and how large their messages are: measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import ClusterReader, OffsetsAnswer
from ktui.planning.check.ask_brokers import call_each_broker

Sizes = Mapping[TopicPartition, int]


class LogEnds(msgspec.Struct, frozen=True):
    """The log offsets of the partitions that a broker leads, and the second of the answer."""

    leader: int
    offsets: OffsetsAnswer
    at_s: float


class Moment(msgspec.Struct, frozen=True):
    """The leaders' logs at one moment."""

    ends: Mapping[int, LogEnds]
    """By leader, as far as they answered."""
    sizes: Sizes
    """Bytes of each partition, as far as they are reported."""
    at_s: float
    """The second of the sizes."""
    failures: tuple[Failure, ...] = ()

    def offsets(self, state: PartitionState) -> LogEnds | None:
        return None if state.leader is None else self.ends.get(state.leader)

    def messages(self, state: PartitionState) -> int | None:
        """Return how many messages the leader's log has; None where that is not known."""
        read = self.offsets(state)
        end = None if read is None else read.offsets.ends.get(state.tp)
        start = None if read is None else read.offsets.starts.get(state.tp)
        return None if end is None or start is None else end - start


async def read_moment(
    reader: ClusterReader, states: Iterable[PartitionState], sizes: Sizes, clock: Clock
) -> Moment:
    """Read the log offsets of partitions from their leaders, all at once.

    Args:
        sizes: bytes of each partition, which have just been read.
        clock: measures the time between two moments.
    """
    at_s = clock.monotonic()
    led: dict[int, list[TopicPartition]] = {}
    for state in states:
        if state.leader is not None:
            led.setdefault(state.leader, []).append(state.tp)

    async def read(broker: int) -> LogEnds:
        answer = await reader.log_offsets(broker, ends=led[broker], starts=led[broker])
        return LogEnds(broker, answer, clock.monotonic())

    ends, failures = await call_each_broker(
        Operation.LOG_ENDS, {broker: read(broker) for broker in sorted(led)}
    )
    return Moment(ends, sizes, at_s, tuple(failures))


def message_size(states: Iterable[PartitionState], now: Moment) -> int | None:
    """Return the average bytes of a topic's messages on disk; None where nothing tells.

    Args:
        states: the partitions of a topic that is not compacted.
    """
    known = [(now.sizes.get(state.tp), now.messages(state)) for state in states]
    counted = [(size, messages) for size, messages in known if size and messages and messages > 0]
    total = sum(messages for _, messages in counted)
    return max(1, round(sum(size for size, _ in counted) / total)) if total else None


def inbound(
    states: Iterable[PartitionState], first: Moment, last: Moment, *, compacted: bool
) -> Iterator[float | None]:
    """Yield what producers write to each partition, in bytes a second.

    New messages count with the bytes of those on the disk. Where these tell nothing, the growth on
    the disk counts. Yields None where neither is known.
    """
    for state in states:
        messages = _messages_s(state, first, last)
        if messages == 0:
            yield 0.0
            continue
        each = None if compacted else _bytes_each(state, first)
        yield (
            _growth(state.tp, first, last) if messages is None or each is None else messages * each
        )


def _messages_s(state: PartitionState, first: Moment, last: Moment) -> float | None:
    before, after = first.offsets(state), last.offsets(state)
    if before is None or after is None or after.at_s <= before.at_s:
        return None
    was, now = before.offsets.ends.get(state.tp), after.offsets.ends.get(state.tp)
    if was is None or now is None or now < was:
        return None
    return (now - was) / (after.at_s - before.at_s)


def _bytes_each(state: PartitionState, first: Moment) -> float | None:
    size, messages = first.sizes.get(state.tp), first.messages(state)
    return size / messages if size and messages and messages > 0 else None


def _growth(tp: TopicPartition, first: Moment, last: Moment) -> float | None:
    before, after = first.sizes.get(tp), last.sizes.get(tp)
    if before is None or after is None or after < before or last.at_s <= first.at_s:
        return None
    return (after - before) / (last.at_s - first.at_s)
