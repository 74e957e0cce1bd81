"""The JSON form of a run's events, and of the notices of a run."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from ktui.cli.output.json_form import SCHEMA_VERSION
from ktui.execution.run.events import JournalEntry
from ktui.execution.run.notices import Notice, NoticeKind
from ktui.execution.run.run import Run
from ktui.execution.run.text import event_sentence
from ktui.json_text import shown_json, utc

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


class NoticeJson(msgspec.Struct, frozen=True, kw_only=True):
    """A notice of a run."""

    schema_version: int = SCHEMA_VERSION
    run: str
    cluster_id: str | None
    kind: NoticeKind
    at: str
    text: str  # one sentence for people, with control characters escaped
    count: int
    events: list[dict[str, Any]]  # the events as `ktui status RUN --events --json` prints them


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
    cluster_id = None if run.started is None else run.started.cluster_id
    notice = NoticeJson(
        run=run.name,
        cluster_id=cluster_id,
        kind=kind,
        at=utc(at),
        text=text,
        count=count,
        events=events,
    )
    return msgspec.json.encode(notice) + b"\n"
