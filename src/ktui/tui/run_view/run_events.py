"""The events of a run, to show among the events of the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict
from ktui.execution.run.events import (
    Answered,
    AnyRunEvent,
    CancelAsked,
    CancelGate,
    Configured,
    EngineLeft,
    EventCommandFailed,
    JournalEntry,
    Outage,
    Paused,
    PlannedPart,
    Recording,
    Recovered,
    SettingChanged,
    SettingsGivenUp,
    StateEntered,
    StepGate,
    StepOver,
)
from ktui.execution.run.states import State
from ktui.execution.run.text import describe_event
from ktui.progress import timeline
from ktui.progress.news import EventSeverity

_STATES = {
    **dict.fromkeys((State.FAILED, State.STALLED), EventSeverity.TROUBLE),
    **dict.fromkeys(
        (State.BLOCKED, State.REFUSED, State.CHANGED_ELSEWHERE, State.FOREIGN, State.TOPIC_GONE),
        EventSeverity.WARNING,
    ),
}


def shown_events(run: str, entries: Iterable[JournalEntry]) -> Iterator[timeline.Event]:
    """Yield the events worth showing: no requests that Kafka accepted, and no parts of the plan."""
    for entry in entries:
        event = entry.event
        answer = event.verdict if isinstance(event, Answered | Configured) else None
        if answer is not Verdict.ACCEPTED and not isinstance(event, PlannedPart):
            tp = getattr(event, "tp", None)
            what = f"run {run}: {describe_event(event)}"
            yield timeline.Event(entry.at, what, tp, severity=_severity(event))


def cancel_events(
    run: str, entries: Iterable[JournalEntry]
) -> Iterator[tuple[frozenset[TopicPartition], timeline.Event]]:
    """Yield the partitions of each cancel, with the event that reports it."""
    for entry in entries:
        if isinstance(entry.event, CancelAsked):
            (event,) = shown_events(run, [entry])
            yield frozenset(entry.event.partitions), event


def _severity(event: AnyRunEvent) -> EventSeverity:
    match event:
        case StateEntered(state=state):
            return _STATES.get(state, EventSeverity.NEWS)
        case Recovered():
            return EventSeverity.TROUBLE
        case SettingsGivenUp(reason="") | Recording(reason=""):
            return EventSeverity.NEWS
        case (
            CancelAsked()
            | Paused()
            | EngineLeft()
            | EventCommandFailed()
            | Answered()
            | Configured()
            | SettingsGivenUp()
            | SettingChanged()
        ):
            return EventSeverity.WARNING
        case (
            StepOver(reached=False)
            | StepGate(shut=True)
            | CancelGate(shut=True)
            | Outage(lost=True)
            | Recording()
        ):
            return EventSeverity.WARNING
    return EventSeverity.NEWS
