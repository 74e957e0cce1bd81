"""The topics of a twin as they are on the real cluster, and what producers write: measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.partition import Brokers, PartitionState, Replica, TopicPartition
from ktui.cluster.ports import ClusterReader
from ktui.planning.check.snapshot import LogEnds, PlacementAnswer, read_log_ends
from ktui.planning.intents.layout import UNKNOWN_BYTES
from ktui.simulated.layout import TopicSpec, TopicStart
from ktui.simulated.scenario.topics import mean_rate

Sizes = Mapping[TopicPartition, int]


class Moment(msgspec.Struct, frozen=True):
    """The leaders' logs at one moment."""

    ends: Mapping[int, LogEnds]
    sizes: Sizes
    at_s: float  # the second of the sizes

    def offsets(self, state: PartitionState) -> LogEnds | None:
        return None if state.leader is None else self.ends.get(state.leader)

    def messages(self, state: PartitionState) -> int | None:
        read = self.offsets(state)
        end = None if read is None else read.offsets.ends.get(state.tp)
        start = None if read is None else read.offsets.starts.get(state.tp)
        return None if end is None or start is None else end - start


async def read_moment(
    reader: ClusterReader, states: Iterable[PartitionState], sizes: Sizes, clock: Clock
) -> Moment:
    """Read the log offsets of partitions from their leaders, all at once."""
    at_s = clock.monotonic()
    led: dict[int, list[TopicPartition]] = {}
    for state in states:
        if state.leader is not None:
            led.setdefault(state.leader, []).append(state.tp)
    ends, _ = await read_log_ends(reader, led, clock)  # where none answers, sizes tell
    return Moment(ends, sizes, at_s)


def message_size(states: Iterable[PartitionState], now: Moment) -> int | None:
    """Return the average bytes of a topic's messages on disk; None where nothing tells."""
    known = [(now.sizes.get(state.tp), now.messages(state)) for state in states]
    counted = [(size, messages) for size, messages in known if size and messages and messages > 0]
    total = sum(messages for _, messages in counted)
    return max(1, round(sum(size for size, _ in counted) / total)) if total else None


def inbound(
    states: Iterable[PartitionState], first: Moment, last: Moment, *, compacted: bool
) -> Iterator[float | None]:
    """Yield bytes a second written to each partition: by messages, else by growth, else None."""
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


_DIGITS = 3


class TopicRead(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a topic."""

    name: str  # the name that the topic has in the twin
    states: Sequence[PartitionState]
    message_size: int | None
    inbound: Sequence[float | None]
    configs: Mapping[str, str]


def topic_spec(read: TopicRead, answer: PlacementAnswer) -> TopicSpec:
    """Return a topic as a simulated cluster can begin with it."""
    known = (answer.leading_size(state) for state in read.states)
    sizes = tuple(UNKNOWN_BYTES if size is None else size for size in known)
    inbounds = tuple(float(round(float(f"{rate or 0.0:.{_DIGITS}g}"))) for rate in read.inbound)
    alike, steady = len({*sizes}) == 1, len({*inbounds}) == 1
    spec = TopicSpec(
        name=read.name,
        replicas=tuple(state.original for state in read.states),
        bytes_each=sizes[0] if alike else 0,
        sizes=() if alike else sizes,
        message_bytes=read.message_size or 1_000,
        inbound=inbounds[0] if steady else mean_rate(inbounds),
        inbounds=() if steady else inbounds,
        configs=read.configs,
    )
    return msgspec.structs.replace(spec, start=_start(read.name, read.states, sizes, answer))


def moves_nothing(state: PartitionState) -> bool:
    """Return whether a reassignment that is under way adds and removes the same replicas."""
    return state.reassigning and {*state.target} == {*state.original}


def led_by_nobody(state: PartitionState, online: frozenset[int]) -> bool:
    """Return whether a partition has no leader, though no broker of its replicas is down."""
    return state.leader is None and online.issuperset(state.replicas)


def _start(
    name: str, states: Sequence[PartitionState], sizes: Sequence[int], answer: PlacementAnswer
) -> TopicStart:
    leaders: dict[int, int] = {}
    isrs: dict[int, Brokers] = {}
    targets: dict[int, Brokers] = {}
    held: dict[Replica, int] = {}
    for number, (state, size) in enumerate(zip(states, sizes, strict=True)):
        if _healthy(state, answer.online):
            continue
        if state.reassigning and not moves_nothing(state):
            targets[number] = state.target
        members = (*state.original, *(b for b in state.target if b not in state.original))
        isr = _isr(state, members, answer.online)
        up = tuple(b for b in state.original if b in answer.online)
        if {*isr} != {*up}:
            isrs[number] = isr
        able = [b for b in (*state.original, *isr) if b in isr and b in answer.online]
        if state.leader in able and state.leader != able[0]:
            leaders[number] = state.leader
        for broker in members:
            if broker not in isr and (copied := _held(state, broker, size, answer)):
                held[Replica(TopicPartition(name, number), broker)] = copied
    return TopicStart(leaders=leaders, isr=isrs, reassigning=targets, held=held)


def _healthy(state: PartitionState, online: frozenset[int]) -> bool:
    return (
        not state.reassigning
        and state.isr == state.replicas
        and state.leader == state.replicas[0]
        and online.issuperset(state.replicas)
    )


def _isr(state: PartitionState, members: Brokers, online: frozenset[int]) -> Brokers:
    live = tuple(b for b in state.isr if b in members and b in online)
    if live:
        return live
    up = tuple(b for b in state.original if b in online)
    down = tuple(b for b in state.original if b not in online)
    last = tuple(b for b in (*state.isr, *(state.elr or ())) if b in down)
    return tuple(dict.fromkeys(last)) or down or up


def _held(state: PartitionState, broker: int, size: int, answer: PlacementAnswer) -> int:
    """Return the bytes of a replica out of sync. On a broker that is down, it had everything."""
    if broker not in answer.online:
        return size if broker in state.original else 0
    return min(size, answer.size(state.tp, broker) or 0)
