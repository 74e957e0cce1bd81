"""What happened in a run, as events among those of the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ktui.cluster.ports import Verdict
from ktui.execution.event_words import words
from ktui.execution.events import (
    Answered,
    Entry,
    Event,
    Gate,
    Left,
    NowIn,
    Outage,
    Paused,
    PlannedPart,
    Recovered,
    StepOver,
)
from ktui.execution.states import State
from ktui.progress import timeline
from ktui.progress.news import Severity

_TROUBLE = (State.FAILED, State.STALLED)
_WARNING = (State.BLOCKED, State.CHANGED_ELSEWHERE, State.FOREIGN, State.TOPIC_GONE)


def news(run: str, entries: Iterable[Entry]) -> Iterator[timeline.Event]:
    """Tell what there is to be told: not that Kafka has taken what it was sent."""
    for entry in entries:
        event = entry.event
        accepted = isinstance(event, Answered) and event.verdict is Verdict.ACCEPTED
        if not accepted and not isinstance(event, PlannedPart):
            tp = getattr(event, "tp", None)
            what = f"run {run}: {words(event)}"
            yield timeline.Event(entry.at, what, tp, severity=_severity(event))


def _severity(event: Event) -> Severity:
    match event:
        case NowIn(state=state) if state in _TROUBLE:
            return Severity.TROUBLE
        case NowIn(state=state) if state in _WARNING:
            return Severity.WARNING
        case Recovered():
            return Severity.TROUBLE
        case Paused() | Left() | Answered() | StepOver(reached=False):
            return Severity.WARNING
        case Gate(shut=True) | Outage(lost=True):
            return Severity.WARNING
    return Severity.NEWS
