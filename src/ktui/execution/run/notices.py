"""The few events of a run that its operator wants to hear of, wherever they are: notices."""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigScope
from ktui.cluster.settings import SettingKey
from ktui.execution.run import events
from ktui.execution.run.states import State

GIVEN_UP = (State.FAILED, State.CHANGED_ELSEWHERE, State.TOPIC_GONE)  # given up by the run


class NoticeKind(enum.StrEnum):
    """What a notice is about."""

    STALL = "stall"
    FAILURE = "failure"
    GATE = "gate"  # the health gate or the cancel gate was shut, or opened again
    LATE = "late"  # the run cannot end by the time of --by, or can again
    THROTTLE = "throttle"  # somebody else changed a throttle, or set a rate that the run replaces
    PAUSE = "pause"
    CONTINUE = "continue"
    OUTAGE = "outage"  # the cluster was lost, or answers again
    LEFT = "left"  # the engine exited before the end, as it was asked to
    END = "end"
    ENGINE_DIED = "engine_died"  # it is gone without a word: another process reports it


class Notice(msgspec.Struct, frozen=True):
    """Events of one kind that happened at once."""

    kind: NoticeKind
    entries: tuple[events.JournalEntry, ...]


_KINDS: dict[type[events.AnyRunEvent], NoticeKind] = {
    events.StepGate: NoticeKind.GATE,
    events.CancelGate: NoticeKind.GATE,
    events.RateChosen: NoticeKind.LATE,
    events.SettingChanged: NoticeKind.THROTTLE,
    events.Paused: NoticeKind.PAUSE,
    events.Continued: NoticeKind.CONTINUE,
    events.Outage: NoticeKind.OUTAGE,
    events.EngineLeft: NoticeKind.LEFT,
    events.Ended: NoticeKind.END,
}


def notice_kind(event: events.AnyRunEvent) -> NoticeKind | None:
    """Return what a notice of an event is about; None for an event without notice."""
    match event:
        case events.StateEntered(state=State.STALLED):
            return NoticeKind.STALL
        case events.StateEntered() if event.state in GIVEN_UP:
            return NoticeKind.FAILURE
        case events.SettingsFound() if _rates_found(event):
            return NoticeKind.THROTTLE
    return _KINDS.get(type(event))


def _rates_found(event: events.SettingsFound) -> dict[SettingKey, str | None]:
    return {
        (each.resource, each.key): each.before.own
        for each in event.found
        if each.resource.scope is ConfigScope.BROKER and each.before and each.before.own is not None
    }


class NoticeFilter:
    """Groups events into notices, and leaves out those that only give another reason."""

    def __init__(self) -> None:
        self._stalled: set[TopicPartition] = set()
        self._bad: dict[type[events.RateChosen | events.StepGate | events.CancelGate], bool] = {}
        self._rates: dict[SettingKey, str | None] = {}  # the rates of others, as last reported

    def take(self, entries: Iterable[events.JournalEntry]) -> list[Notice]:
        """Return the notices of events that were journalled at once, one for each kind."""
        groups: dict[NoticeKind, list[events.JournalEntry]] = {}
        for entry in entries:
            kind = notice_kind(entry.event)
            if self._is_new(entry.event) and kind is not None:
                groups.setdefault(kind, []).append(entry)
        return [Notice(kind, tuple(group)) for kind, group in groups.items()]

    def _is_new(self, event: events.AnyRunEvent) -> bool:
        match event:
            case events.StateEntered(state=State.STALLED):
                known = event.tp in self._stalled
                self._stalled.add(event.tp)
                return not known
            case events.StateEntered() | events.StepOver():
                self._stalled.discard(event.tp)
            case events.SettingsFound():
                found = _rates_found(event)
                known = found.items() <= self._rates.items()
                self._rates |= found
                return not known
            case events.SettingChanged():
                self._rates[event.resource, event.key] = event.found
            case (
                events.RateChosen(late=bad)
                | events.StepGate(shut=bad)
                | events.CancelGate(shut=bad)
            ):
                known = self._bad.get(type(event), False) is bad
                self._bad[type(event)] = bad
                return not known
        return True
