"""What happened to runs, as marks for the figures over time."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from ktui.cluster.text import clean
from ktui.execution.run import events
from ktui.execution.run.parts import Pauses
from ktui.execution.run.text import event_sentence
from ktui.pipeline.lake.records import Mark, PollRecord, Span

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
    """Return what happened to one run; a pause of the whole run lasts until it is lifted."""
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


_LEAST_GAP_MS = 10_000
_MISSED_POLLS = 5  # a gap is at least so many times the usual time between two polls


def recording_gaps(times: Sequence[int], span: Span) -> list[Span]:
    """Return the times within a span, in ms, that no poll shows: at least 10 s and five polls."""
    began, ended = span
    within = [t for t in times if began <= t <= ended]
    if not within:
        return [span] if began < ended else []
    usual = statistics.median(after - t for t, after in pairwise(within)) if within[1:] else 0
    least = max(_LEAST_GAP_MS, _MISSED_POLLS * usual)
    known = [began, *within, ended]
    return [(t, after) for t, after in pairwise(known) if after - t > least]


def broker_marks(polls: Sequence[PollRecord], end: int) -> list[Mark]:
    """Return the times in which brokers were not alive, up to `end`, and when each came back."""
    marks: list[Mark] = []
    down: dict[int, tuple[int, str]] = {}
    alive: frozenset[int] = frozenset()
    for place, poll in enumerate(polls):
        now = frozenset(poll.alive)
        if now == alive and place:
            continue
        was = alive if place else frozenset(poll.brokers)
        when = "went down" if place else "was down when the recording began"
        down |= dict.fromkeys(was - now, (poll.t, when))
        marks += _returned(down, now, poll.t)
        alive = now
    marks += [_down(broker, *since, end) for broker, since in sorted(down.items())]
    return sorted(marks, key=lambda mark: (mark.t, mark.says))


def _returned(down: dict[int, tuple[int, str]], alive: Iterable[int], t: int) -> Iterable[Mark]:
    for broker in sorted(set(alive) & down.keys()):
        yield _down(broker, *down.pop(broker), t)
        yield Mark(t, BROKER, f"broker {broker} was back")


def _down(broker: int, since: int, how: str, until: int) -> Mark:
    return Mark(since, BROKER, f"broker {broker} {how}", until)


_LEAST_MS = 3_600_000
_LEAST_SHARE = 0.1
_EDGE_SHARE = 0.02
"""The share of the time with movement that is kept on both sides of what is left out."""


def idle_spans(active: Iterable[Span], span: Span) -> list[Span]:
    """Return long idle times of a span, in ms: over an hour and a tenth, but for their edges."""
    began, ended = span
    least = max(_LEAST_MS, int((ended - began) * _LEAST_SHARE))
    found: list[Span] = []
    known = began
    for start, end in [*sorted(active), (ended, ended)]:
        if min(start, ended) - known >= least:
            found.append((known, min(start, ended)))
        known = max(known, min(end, ended))
    busy = ended - began - sum(to - since for since, to in found)
    edge = min(max(1_000, int(busy * _EDGE_SHARE)), least // 4)
    return [(since + edge, to - edge) for since, to in found]
