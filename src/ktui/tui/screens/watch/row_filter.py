"""The filter of the partition list: words and `key:value` terms, all of which must match."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ktui.execution.run.states import State
from ktui.progress.health import Health, health
from ktui.progress.timeline import Phase, StallKind, Timeline
from ktui.tui.screens.watch.row_context import RowContext

Test = Callable[[Timeline, RowContext], bool]

BEHIND, OFFLINE, UNDER_REPLICATED = "behind", "offline", "under-replicated"
STATES = tuple(
    dict.fromkeys(
        (
            *(phase.value for phase in Phase if phase is not Phase.SETTLED),
            *(state.value for state in State),
            BEHIND, OFFLINE, UNDER_REPLICATED,
        )
    )
)  # fmt: skip
TERMS = ("topic", "broker", "state", "partition")
HINT = "words of the topic, topic:x, broker:3, state:stalled, partition:0"


class BadFilter(Exception):
    """An invalid term; the text of the error says which are valid."""


class RowFilter:
    """A filter as it was typed; an empty one matches everything.

    Raises:
        BadFilter: a `broker:` or `partition:` without a number, an unknown `state:`, or no value.
    """

    def __init__(self, text: str = "") -> None:
        self.text = " ".join(text.split())
        self._tests = [_test(term) for term in self.text.split()]

    def __bool__(self) -> bool:
        """Return whether the filter has any term."""
        return bool(self._tests)

    def __eq__(self, other: object) -> bool:
        """Return whether the other filter has the same text."""
        return isinstance(other, RowFilter) and other.text == self.text

    def __hash__(self) -> int:
        """Hash the text."""
        return hash(self.text)

    def matches(self, timeline: Timeline, moment: RowContext) -> bool:
        """Return whether all terms hold for a partition."""
        return all(test(timeline, moment) for test in self._tests)


def _test(term: str) -> Test:
    key, colon, value = term.partition(":")
    if not colon or key not in TERMS:
        return _named(term)
    if not value:
        raise BadFilter(f"{key}: wants a value, as in {HINT}")
    if key == "topic":
        return _of_topic(value)
    if key == "state":
        return _in_state(value)
    if not value.isdecimal():
        raise BadFilter(f"{key}:{value} is not a number, as in {key}:3")
    return _on_broker(int(value)) if key == "broker" else _numbered(int(value))


def _named(text: str) -> Test:
    sought = text.casefold()
    return lambda timeline, _: sought in str(timeline.tp).casefold()


def _of_topic(text: str) -> Test:
    sought = text.casefold()
    return lambda timeline, _: sought in timeline.tp.topic.casefold()


def _on_broker(broker: int) -> Test:
    return lambda timeline, _: (
        broker in timeline.state.replicas or broker in timeline.target or broker in timeline.lanes
    )


def _numbered(number: int) -> Test:
    return lambda timeline, _: timeline.tp.partition == number


def _in_state(text: str) -> Test:
    sought = {state for state in STATES if state.startswith(text.casefold())}
    if not sought:
        raise BadFilter(f"no state {text!r}; there are {', '.join(STATES)}")
    return lambda timeline, moment: not sought.isdisjoint(_states(timeline, moment))


def _states(timeline: Timeline, moment: RowContext) -> Iterator[str]:
    """Yield every state word that holds for a partition; the run's word replaces its move's."""
    track = moment.track(timeline)
    if track is None or track.step is not None:
        yield timeline.phase.value
    if track is not None:
        yield track.state.value
    stall = timeline.stall
    if timeline.phase is Phase.MOVING and stall and stall.kind is StallKind.FALLING_BEHIND:
        yield BEHIND
    found = health(timeline.state, None)
    if found is Health.OFFLINE:
        yield OFFLINE
    elif found is not Health.OK and found is not Health.UNKNOWN:
        yield UNDER_REPLICATED
