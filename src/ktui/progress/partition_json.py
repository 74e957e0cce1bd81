"""The JSON form of a partition: a contract, the same wherever one is printed or copied."""

from __future__ import annotations

import msgspec

from ktui.json_text import utc
from ktui.progress.states import state_word
from ktui.progress.timeline import Lane, Timeline


class LagJson(msgspec.Struct, frozen=True):
    """The lag of one replica behind its leader; null for unknown values."""

    broker: int
    messages: int | None
    bytes: int | None
    at: str | None


class PartitionJson(msgspec.Struct, frozen=True):
    """One partition. `batch` and `step` are null unless a run of ktui moves it."""

    topic: str
    topic_id: str | None
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...] | None
    leader: int | None
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    target: tuple[int, ...]
    original: tuple[int, ...]
    lag: tuple[LagJson, ...]
    rate_bytes_s: float | None
    left_s: float | None
    batch: int | None
    step: int | None
    state: str


def partition_json(timeline: Timeline) -> PartitionJson:
    """Return the JSON form of one partition."""
    state, left = timeline.state, timeline.left_s
    return PartitionJson(
        topic=state.tp.topic,
        topic_id=state.topic_id,
        partition=state.tp.partition,
        replicas=state.replicas,
        isr=state.isr if state.described else None,
        leader=state.leader,
        adding=state.adding,
        removing=state.removing,
        target=timeline.target,
        original=timeline.original,
        lag=tuple(_lag_json(lane) for lane in timeline.catching_up),
        rate_bytes_s=timeline.rate_bytes_s,
        left_s=None if left is None else left.middle,
        batch=None,
        step=None,
        state=state_word(timeline, None),
    )


def _lag_json(lane: Lane) -> LagJson:
    at = None if lane.lag_at is None else utc(lane.lag_at)
    return LagJson(lane.broker, lane.lag_messages, lane.lag_bytes, at)
