"""Events that belong together, as one line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import NamedTuple

from ktui.progress.timeline import Event
from ktui.tui.screens.event_kinds import BROKER_DOWN, EventKind, Topic, event_kind

FEWEST = 3
"""Fewer events stand alone: one line would save nothing."""
_SPAN = timedelta(seconds=5)
"""The time from the first event of a group to its last."""
_MOST_NAMED = 4
_BLOCK = 1_024


class Splice(NamedTuple):
    """How a sequence of events follows from an earlier one."""

    dropped: int
    """The events that fell off the front."""
    kept: int
    """The events that stay, from there on; all others are new."""


def splice(old: Sequence[Event], new: Sequence[Event]) -> Splice:
    """Find the longest part of the old events that the new ones begin with."""
    if not old or not new:
        return Splice(len(old), 0)
    first = new[0]
    dropped = next((i for i, event in enumerate(old) if event is first), None)
    if dropped is None:
        return Splice(len(old), 0)
    most, kept = min(len(old) - dropped, len(new)), 0
    while kept < most and _same(old, new, dropped, kept, block := min(_BLOCK, most - kept)):
        kept += block
    while kept < most and old[dropped + kept] is new[kept]:
        kept += 1
    return Splice(dropped, kept)


def _same(old: Sequence[Event], new: Sequence[Event], dropped: int, start: int, block: int) -> bool:
    before = old[dropped + start : dropped + start + block]
    return all(map(_is, before, new[start : start + block]))


def _is(one: Event, other: Event) -> bool:
    return one is other


def extend_groups(groups: list[list[Event]], events: Iterable[Event]) -> None:
    """Add events to groups. Each event joins the last group if it belongs there.

    The groups have every event once and in order, so that the groups of more events are those of
    fewer with the others added.
    """
    for event in events:
        if groups and _belongs(event, groups[-1][0]):
            groups[-1].append(event)
        else:
            groups.append([event])


def _belongs(event: Event, first: Event) -> bool:
    """Return whether an event is about the same as the first one of a group, at the same time."""
    if not timedelta(0) <= event.at - first.at <= _SPAN:
        return False
    topic = event_kind(first).topic
    return topic is not Topic.OTHER and event_kind(event).topic is topic


def group_words(events: Sequence[Event]) -> str:
    """Summarise a group: what caused it, then how many of each kind, the worst first."""
    causes = [event for event in events if event.tp is None and event.broker is not None]
    down = [event for event in causes if event_kind(event) == BROKER_DOWN]
    cause = f"{_down(down)}: " if down and len(down) < len(events) else ""
    counted = [event for event in events if not (cause and event in down)]
    worst: dict[EventKind, int] = {}
    for event in counted:
        kind = event_kind(event)
        worst[kind] = max(worst.get(kind, 0), event.severity)
    counts = Counter(map(event_kind, counted))
    kinds = sorted(counts, key=lambda kind: -worst[kind])
    named = [kind.counted(counts[kind]) for kind in kinds[:_MOST_NAMED]]
    rest = sum(counts[kind] for kind in kinds[_MOST_NAMED:])
    return cause + ", ".join([*named, *([f"{rest:,} more"] if rest else [])])


def _down(events: Sequence[Event]) -> str:
    brokers = sorted({event.broker for event in events if event.broker is not None})
    noun = "broker" if len(brokers) == 1 else "brokers"
    return f"{noun} {', '.join(map(str, brokers))} down"


def group_severity(events: Sequence[Event]) -> int:
    """Return the severity of the worst event."""
    return max(event.severity for event in events)


def group_subject(events: Sequence[Event]) -> str:
    """Return what a group is about: its only partition, topic or broker; else how many there are.

    Empty where the events are about nothing of these.
    """
    partitions = {event.tp for event in events if event.tp is not None}
    if len(partitions) == 1:
        return str(next(iter(partitions)))
    if partitions:
        topics = {tp.topic for tp in partitions}
        return next(iter(topics)) if len(topics) == 1 else f"{len(partitions):,} partitions"
    brokers = {event.broker for event in events}
    if brokers == {None}:
        return "cluster"
    return f"broker {brokers.pop()}" if len(brokers) == 1 else f"{len(brokers):,} brokers"
