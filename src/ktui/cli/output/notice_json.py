"""The JSON form of a notice, as the command of `--on-event` gets it on its standard input."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from ktui.cli.output.json_form import SCHEMA_VERSION, event_object, utc
from ktui.execution.run.notices import Notice, NoticeKind
from ktui.execution.run.run import Run
from ktui.execution.run.text import event_sentence

MOST_EVENTS = 100
"""Events in one notice, at most; its `count` has all of them."""


class NoticeJson(msgspec.Struct, frozen=True, kw_only=True):
    """A notice of a run."""

    schema_version: int = SCHEMA_VERSION
    run: str
    cluster_id: str | None
    kind: NoticeKind
    at: str
    text: str
    """One sentence for people, with control characters escaped."""
    count: int
    events: list[dict[str, Any]]
    """The events as `ktui status RUN --events --json` prints them."""


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
