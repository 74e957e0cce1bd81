"""The filter of the partition list, whose terms must all match, and the line to type it in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from ktui.execution.run.states import State
from ktui.progress.memory import Health, health
from ktui.progress.timeline import Phase, StallKind, Timeline
from ktui.tui.screens.watch.words import RowContext
from ktui.tui.widgets.fields import HistoryField

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
    """A filter as it was typed; an empty one matches everything. BadFilter for an invalid one."""

    def __init__(self, text: str = "") -> None:
        self.text = " ".join(text.split())
        self._tests = [_test(term) for term in self.text.split()]

    def __bool__(self) -> bool:
        return bool(self._tests)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowFilter) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def matches(self, timeline: Timeline, context: RowContext) -> bool:
        return all(test(timeline, context) for test in self._tests)


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
    return _on_broker(int(value)) if key == "broker" else lambda t, _: t.tp.partition == int(value)


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


def _in_state(text: str) -> Test:
    sought = {state for state in STATES if state.startswith(text.casefold())}
    if not sought:
        raise BadFilter(f"no state {text!r}; there are {', '.join(STATES)}")
    return lambda timeline, context: not sought.isdisjoint(_states(timeline, context))


def _states(timeline: Timeline, context: RowContext) -> Iterator[str]:
    """Yield every state word that holds for a partition; the run's word replaces its move's."""
    track = context.track(timeline)
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


class FilterLine(Horizontal):
    """Reports the filter while it is typed; an invalid one filters nothing."""

    DEFAULT_CSS = """
    FilterLine {
        height: 1; dock: bottom; background: $cursor; display: none;
        &.-open { display: block; }
        & > .label { width: auto; padding: 0 1; color: $primary; text-style: bold; }
        & > Input { width: 1fr; min-width: 20; padding: 0; }
        & > .problem {
            width: auto; max-width: 60%; padding: 0 1; color: $warning;
            text-wrap: nowrap; text-overflow: ellipsis;
        }
    }
    """

    @dataclass
    class Changed(Message):
        """The filter has changed."""

        rowfilter: RowFilter

    class Closed(Message):
        """The line is closed; the filter stays as `Changed` reported it last."""

    def compose(self) -> ComposeResult:
        yield Static("filter", classes="label")
        yield HistoryField([], HINT)
        yield Static(classes="problem", markup=False)

    @property
    def input(self) -> Input:
        return self.query_one(Input)

    def filter_by(self, text: str) -> None:
        field = self.query_one(HistoryField)
        field.value = text
        field.keep()

    def open(self) -> None:
        self.add_class("-open")
        self.input.focus()

    def clear(self) -> None:
        self.input.value = ""
        self.close()

    def close(self) -> None:
        self.remove_class("-open")
        self.post_message(self.Closed())

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        error_line = self.query_one(".problem", Static)
        try:
            rowfilter = RowFilter(event.value)
        except BadFilter as problem:
            error_line.update(Content(str(problem)))
            rowfilter = RowFilter()
        else:
            error_line.update(Content(""))
        self.post_message(self.Changed(rowfilter))

    @on(Input.Submitted)
    def _kept(self, event: Input.Submitted) -> None:
        event.stop()
        self.query_one(HistoryField).keep()
        self.close()
