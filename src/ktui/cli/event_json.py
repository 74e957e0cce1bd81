"""The JSON form of an event of a run: a contract, one line each."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from ktui.cli.partition_json import SCHEMA_VERSION, shown_json, utc
from ktui.execution.events import Entry

_ENCODER = msgspec.json.Encoder()


def event_line(run: str, entry: Entry) -> str:
    """Give an event as one line: schema_version, at, run, seq, event, then what is its own.

    Every field of the event is there, also where it says nothing out of the ordinary.
    """
    event = entry.event
    head = {
        "schema_version": SCHEMA_VERSION,
        "at": utc(entry.at),
        "run": run,
        "seq": entry.seq,
        "event": event.__struct_config__.tag,
    }
    own = {field: _plain(getattr(event, field)) for field in event.__struct_fields__}
    return shown_json(_ENCODER.encode(head | own).decode())


def _plain(value: Any) -> Any:
    """Give a field as JSON has it, its times in UTC."""
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
