"""Hand-made observations: what a poll would have seen, said in a line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import msgspec

from ktui.cluster.broker import Broker
from ktui.cluster.observation import Observation, Reading
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.progress.fold import fold
from ktui.progress.timeline import Progress

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
MESSAGE_BYTES = 1_000

T0 = TopicPartition("orders", 0)
T1 = TopicPartition("orders", 1)


def a_partition(
    tp: TopicPartition = T0,
    replicas: tuple[int, ...] = (1, 2, 3),
    *,
    isr: tuple[int, ...] | None = None,
    topic_id: str | None = "",
    **more: Any,
) -> PartitionState:
    """A partition; all in sync and led by its first replica unless said otherwise."""
    values: dict[str, Any] = {
        "isr": replicas if isr is None else isr,
        "leader": replicas[0] if replicas else None,
        "leader_epoch": 1,
    }
    named = f"id-of-{tp.topic}" if topic_id == "" else topic_id
    return PartitionState(tp, named, replicas, **{**values, **more})


def a_move(
    tp: TopicPartition = T0,
    original: tuple[int, ...] = (1, 2, 3),
    target: tuple[int, ...] = (4, 2, 3),
    **more: Any,
) -> PartitionState:
    """A partition that the controller lists as moving from `original` to `target`."""
    adding = tuple(b for b in target if b not in original)
    removing = tuple(b for b in original if b not in target)
    values: dict[str, Any] = {"isr": original, "leader": original[0]}
    return a_partition(
        tp, (*target, *removing), adding=adding, removing=removing, **{**values, **more}
    )


def an_observation(
    partitions: Iterable[PartitionState] = (),
    at_s: float = 0.0,
    *,
    brokers: Collection[int] = range(1, 10),
    down: Collection[int] = (),
    ends: Mapping[tuple[TopicPartition, int], int | Reading] | None = None,
    starts: Mapping[TopicPartition, int | Reading] | None = None,
    sizes: Mapping[tuple[TopicPartition, int], int | Reading] | None = None,
    **more: Any,
) -> Observation:
    """One poll at second `at_s` (also after START); plain figures were read at that moment."""
    values: dict[str, Any] = {
        "cluster_id": "a-cluster",
        "controller": min(brokers, default=None),
        "brokers": {b: Broker(b, "127.0.0.1", 9000 + b, alive=b not in down) for b in brokers},
        "partitions": {state.tp: state for state in partitions},
        "ends": {Replica(*key): _reading(value, at_s) for key, value in (ends or {}).items()},
        "starts": {tp: _reading(value, at_s) for tp, value in (starts or {}).items()},
        "sizes": {Replica(*key): _reading(value, at_s) for key, value in (sizes or {}).items()},
        "at": START + timedelta(seconds=at_s),
        "monotonic_s": at_s,
        "took_s": 0.01,
    }
    return Observation(**{**values, **more})


def _reading(value: int | Reading, at_s: float) -> Reading:
    return value if isinstance(value, Reading) else Reading(value, at_s)


def moving(
    states: Iterable[PartitionState] | None = None,
    *,
    seconds: float = 60.0,
    poll_s: float = 1.0,
    from_s: float = 0.0,
    messages: int = 100_000,
    inbound_s: float = 100.0,
    copied_s: float = 1_000.0,
    **more: Any,
) -> Iterator[Observation]:
    """Polls of a cluster in which every adding replica of the listed `states` copies steadily.

    Args:
        states: the partitions, a_move() unless given; those not moving are just shown.
        seconds: how long it goes on; the last poll is before it ends.
        poll_s: seconds between polls.
        from_s: the second of the first poll.
        messages: what each leader's log holds at the first poll, of MESSAGE_BYTES each.
        inbound_s: messages written to each leader a second.
        copied_s: messages that each adding replica copies a second, from nothing.
        more: further fields of each observation.
    """
    shown = [a_move()] if states is None else list(states)
    for poll in range(round(seconds / poll_s)):
        passed_s = poll * poll_s
        leader_end = round(messages + inbound_s * passed_s)
        ends = {}
        for state in shown:
            ends[state.tp, state.leader or -1] = leader_end
            for broker in state.catching_up:
                ends[state.tp, broker] = min(leader_end, round(copied_s * passed_s))
        yield an_observation(
            shown,
            from_s + passed_s,
            ends=ends,
            starts={state.tp: 0 for state in shown},
            sizes={key: end * MESSAGE_BYTES for key, end in ends.items()},
            **more,
        )


def folded(observations: Iterable[Observation], progress: Progress | None = None) -> Progress:
    """All observations, folded in order."""
    return reduce(fold, observations, progress or Progress())


def at(observation: Observation, at_s: float) -> Observation:
    """The same poll at another second; its figures keep the time at which they were read."""
    return msgspec.structs.replace(
        observation, at=START + timedelta(seconds=at_s), monotonic_s=at_s
    )
