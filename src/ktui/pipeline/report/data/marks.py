"""What happened to runs, as marks for the figures over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ktui.cluster.text import clean
from ktui.execution.run import events
from ktui.execution.run.event_text import event_sentence
from ktui.execution.run.pauses import Pauses
from ktui.pipeline.lake.records import Mark

PAUSE, LIMITS, THROTTLE, BROKER, OTHER = "pause", "limits", "throttle", "broker", "run"

_KINDS: dict[type[events.RunEvent], str] = {
    events.Paused: PAUSE,
    events.Continued: PAUSE,
    events.LimitsChanged: LIMITS,
    events.ThrottleChanged: THROTTLE,
    events.SettingChanged: THROTTLE,
    events.CancelAsked: OTHER,
    events.Added: OTHER,
    events.Noted: OTHER,
    events.EngineLeft: OTHER,
    events.Outage: OTHER,
}
_EVENTS: tuple[type[events.RunEvent], ...] = (*_KINDS, events.Started)
NEEDED = sorted(str(kind.__struct_config__.tag) for kind in _EVENTS)
"""The values of `kind` in `run_events` that marks and limits are made from."""


class RunEventRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `run_events`."""

    t: int
    event: str
    run: str = ""
    run_id: str = ""
    entry: int = 0


Happened = tuple[RunEventRecord, events.AnyRunEvent]


def decoded(rows: Iterable[RunEventRecord]) -> list[Happened]:
    """Decode the events of rows, in order; those of a newer ktui are left out."""
    found = []
    for row in sorted(rows, key=lambda one: (one.run_id, one.t, one.entry)):
        try:
            found.append((row, events.decode(row.event.encode())))
        except msgspec.DecodeError:
            continue
    return found


def run_marks(happened: Sequence[Happened], end: int, *, named: bool) -> list[Mark]:
    """Return what happened to one run; a pause of the whole run lasts until it is lifted.

    Args:
        happened: the run's events, in order.
        end: the last time of the report, ms.
        named: whether to name the run.
    """
    marks: list[Mark] = []
    pauses, began = Pauses(), 0
    for row, event in happened:
        was_paused = bool(pauses.whole)
        if isinstance(event, events.Paused | events.Continued):
            pauses.apply(event)
        if type(event) in _KINDS:
            says = event_sentence(event)
            marks.append(
                Mark(row.t, _KINDS[type(event)], f"{clean(row.run)}: {says}" if named else says)
            )
        if pauses.whole and not was_paused:
            began = len(marks) - 1
        elif was_paused and not pauses.whole:
            marks[began] = msgspec.structs.replace(marks[began], until=row.t)
    if pauses.whole:
        marks[began] = msgspec.structs.replace(marks[began], until=end)
    return marks
