"""The events that pass the filters of the Events screen, kept while events come and go."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Sequence

from ktui.progress.timeline import Event
from ktui.tui.screens.event_groups import splice
from ktui.tui.screens.event_kinds import Topic, event_kind


class Choice(enum.StrEnum):
    """The events that a key chooses."""

    ALL = "all"
    STEPS = "steps"
    SETTINGS = "settings"
    TROUBLE = "trouble"
    """Warnings and trouble, whatever they are about."""

    def takes(self, event: Event) -> bool:
        """Return whether an event is one of these."""
        match self:
            case Choice.ALL:
                return True
            case Choice.STEPS:
                return event_kind(event).topic is Topic.STEP
            case Choice.SETTINGS:
                return event_kind(event).topic is Topic.SETTING
            case Choice.TROUBLE:
                return event.severity > 0


class EventFilter:
    """Applies a choice and words. It looks at each event once, unless the filter changes.

    Args:
        text: returns the text of an event in which words are looked for.
    """

    def __init__(self, text: Callable[[Event], str]) -> None:
        self._text = text
        self._events: Sequence[Event] = ()
        self._shown: list[Event] = []
        self.choice = Choice.ALL
        self._words: tuple[str, ...] = ()
        self.counts: Counter[Choice] = Counter()
        """The events of each choice, whatever the words."""

    @property
    def shown(self) -> Sequence[Event]:
        """The events that pass, oldest first."""
        return self._events if self._passes_all else tuple(self._shown)

    @property
    def _passes_all(self) -> bool:
        return self.choice is Choice.ALL and not self._words

    def choose(self, choice: Choice) -> None:
        """Show only the events of a choice."""
        self.choice = choice
        self._filter_again()

    def look_for(self, text: str) -> None:
        """Show only the events that have all these words in them."""
        self._words = tuple(text.casefold().split())
        self._filter_again()

    def _filter_again(self) -> None:
        self._shown = [] if self._passes_all else list(filter(self._passes, self._events))

    def update(self, events: Sequence[Event]) -> None:
        """Take the present events."""
        dropped, kept = splice(self._events, events)
        front, back = self._events[:dropped], self._events[dropped + kept :]
        added = events[kept:]
        self._events = events
        for event in (*front, *back):
            self.counts.subtract(choice for choice in Choice if choice.takes(event))
        for event in added:
            self.counts.update(choice for choice in Choice if choice.takes(event))
        if not self._passes_all:
            del self._shown[: sum(map(self._passes, front))]
            self._shown[len(self._shown) - sum(map(self._passes, back)) :] = []
            self._shown += filter(self._passes, added)

    def _passes(self, event: Event) -> bool:
        if not self.choice.takes(event):
            return False
        if not self._words:
            return True
        text = self._text(event).casefold()
        return all(word in text for word in self._words)
