"""The JSON forms that verbs share, with those of a run's events and notices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET

from ktui.cluster.errors import Failure
from ktui.cluster.observation import Observation
from ktui.execution.run.events import JournalEntry
from ktui.execution.run.notices import Notice, NoticeKind
from ktui.execution.run.run import Run
from ktui.execution.run.text import event_sentence
from ktui.json_text import encode, shown_json, utc
from ktui.planning.throttle_rates import Objective
from ktui.progress.row import partition_json
from ktui.progress.timeline import Timeline

__all__ = [
    "SCHEMA_VERSION",
    "encode",
    "encode_record",
    "list_json",
    "record_object",
    "shown_json",
    "utc",
]

SCHEMA_VERSION = 1


def list_json(observation: Observation, timelines: Iterable[Timeline]) -> dict[str, object]:
    """Return the JSON form of one poll of the cluster, as `ktui list --json` prints it."""
    return {
        "schema_version": SCHEMA_VERSION,
        "cluster_id": observation.cluster_id,
        "at": utc(observation.at),
        "partitions": [*map(partition_json, timelines)],
        "failures": [*map(failure_json, observation.failures)],
    }


def failure_json(failure: Failure) -> dict[str, object]:
    """Return the JSON form of a missing part of an answer."""
    fields = ("operation", "broker", "topic", "answer")
    return {field: getattr(failure, field) for field in fields}


def encode_record(record: Any) -> str:
    """Return a record as the JSON object that a verb prints, indented for readers.

    It has `schema_version`, then every field of the record, with times in UTC. The record itself
    is the contract: golden files hold it.
    """
    return encode({"schema_version": SCHEMA_VERSION} | record_object(record))


def record_object(value: Any) -> Any:
    """Return a record as plain JSON values: an object with every field, also those with defaults.

    An objective is its text ("p99<150ms"). A field that is unset is left out.
    """
    match value:
        case Objective():
            return str(value)
        case msgspec.Struct():
            names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
            values = ((name, getattr(value, field)) for name, field in names)
            return {name: record_object(each) for name, each in values if each is not UNSET}
        case datetime():
            return utc(value)
        case Mapping():
            return {str(key): record_object(each) for key, each in value.items()}
        case list() | tuple():
            return [record_object(each) for each in value]
    return value


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
    fields = {field: getattr(event, field) for field in event.__struct_fields__}
    own: dict[str, Any] = _in_utc(msgspec.to_builtins(fields, builtin_types=(datetime,)))
    return head | own


def _in_utc(value: Any) -> Any:
    match value:
        case datetime():
            return utc(value)
        case dict():
            return {key: _in_utc(item) for key, item in value.items()}
        case list() | tuple():
            return [_in_utc(item) for item in value]
    return value


MOST_EVENTS = 100  # events in one notice, at most; its `count` has all of them


def notice_json(run: Run, notice: Notice) -> bytes:
    """Return the JSON form of a notice, as one line."""
    first, *others = notice.entries
    more = f"; and {len(others):,} more" if others else ""
    return _line(
        run,
        notice.kind,
        first.at,
        f"run {run.name}: {event_sentence(first.event)}{more}",
        [event_object(run.name, entry) for entry in notice.entries[:MOST_EVENTS]],
        len(notice.entries),
    )


def engine_died_json(run: Run, at: datetime, reason: str) -> bytes:
    """Return the JSON form of the notice that the engine of a run has died."""
    text = f"the engine of run {run.name} has died: {reason}"
    return _line(run, NoticeKind.ENGINE_DIED, at, text, [], 0)


def _line(
    run: Run, kind: NoticeKind, at: datetime, text: str, events: list[dict[str, Any]], count: int
) -> bytes:
    notice = {
        "schema_version": SCHEMA_VERSION,
        "run": run.name,
        "cluster_id": None if run.started is None else run.started.cluster_id,
        "kind": kind,
        "at": utc(at),
        "text": text,  # one sentence for people, with control characters escaped
        "count": count,
        "events": events,  # as `ktui status RUN --events --json` prints them
    }
    return msgspec.json.encode(notice) + b"\n"
