"""The JSON forms that verbs share: what the cluster reassigns, and the events of a run."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from ktui.cluster.errors import Failure
from ktui.cluster.observation import Observation
from ktui.execution.run.events import JournalEntry
from ktui.json_text import encode, shown_json, utc
from ktui.progress.partition_json import PartitionJson, partition_json
from ktui.progress.timeline import Timeline

__all__ = ["SCHEMA_VERSION", "ListJson", "encode", "event_line", "list_json", "shown_json", "utc"]

SCHEMA_VERSION = 1


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
        failures=tuple(failure_json(failure) for failure in observation.failures),
    )


def failure_json(failure: Failure) -> FailureJson:
    """Return the JSON form of a missing part of an answer."""
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
