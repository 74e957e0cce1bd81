"""The JSON form of a partition: a contract, the same in every verb that prints one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from ktui.cluster.errors import Failure
from ktui.cluster.observation import Observation
from ktui.execution.run.events import JournalEntry
from ktui.progress.states import state_word
from ktui.progress.timeline import Lane, Timeline

SCHEMA_VERSION = 1


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


class FailureJson(msgspec.Struct, frozen=True):
    """A missing part of the answer."""

    operation: str
    broker: int | None
    topic: str | None
    answer: str


class ListJson(msgspec.Struct, frozen=True):
    """The output of `ktui list --json`."""

    schema_version: int
    cluster_id: str
    at: str
    partitions: tuple[PartitionJson, ...]
    failures: tuple[FailureJson, ...]


def list_json(observation: Observation, timelines: Iterable[Timeline]) -> ListJson:
    """Return the JSON form of one poll of the cluster."""
    return ListJson(
        schema_version=SCHEMA_VERSION,
        cluster_id=observation.cluster_id,
        at=utc(observation.at),
        partitions=tuple(partition_json(timeline) for timeline in timelines),
        failures=tuple(_failure_json(failure) for failure in observation.failures),
    )


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


def utc(moment: datetime) -> str:
    """Format a moment as ISO 8601 in UTC, to the millisecond."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def encode(value: Any) -> str:
    """Return a value as JSON, indented for readers."""
    return shown_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def shown_json(text: str) -> str:
    r"""Escape characters that could drive or deceive a terminal, in JSON's notation: `\u202e`.

    JSON itself must escape only the first 32 characters. Parsed values stay the same.
    """
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def _lag_json(lane: Lane) -> LagJson:
    at = None if lane.lag_at is None else utc(lane.lag_at)
    return LagJson(lane.broker, lane.lag_messages, lane.lag_bytes, at)


def _failure_json(failure: Failure) -> FailureJson:
    return FailureJson(failure.operation.value, failure.broker, failure.topic, failure.answer)


_ENCODER = msgspec.json.Encoder()


def event_line(run: str, entry: JournalEntry) -> str:
    """Return an event as one line: schema_version, at, run, seq, event, then its own fields.

    The line has every field of the event, also those with default values.
    """
    return shown_json(_ENCODER.encode(event_object(run, entry)).decode())


def event_object(run: str, entry: JournalEntry) -> dict[str, Any]:
    """Return an event as a JSON object: that of its line."""
    event = entry.event
    head = {
        "schema_version": SCHEMA_VERSION,
        "at": utc(entry.at),
        "run": run,
        "seq": entry.seq,
        "event": event.__struct_config__.tag,
    }
    own = {field: _plain(getattr(event, field)) for field in event.__struct_fields__}
    return head | own


def _plain(value: Any) -> Any:
    """Convert a field to plain JSON values, with its times in UTC."""
    return _in_utc(msgspec.to_builtins(value, builtin_types=(datetime,)))


def _in_utc(value: Any) -> Any:
    match value:
        case datetime():
            return utc(value)
        case dict():
            return {key: _in_utc(item) for key, item in value.items()}
        case list() | tuple():
            return [_in_utc(item) for item in value]
    return value
