"""The rows of the list: the filter, whose terms must all match, and their order."""

from __future__ import annotations

import bisect
import copy
import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import msgspec
from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.run.states import State
from ktui.progress.memory import Health, health
from ktui.progress.timeline import Phase, StallKind, Timeline
from ktui.tui.screens.watch.columns import Extents, Ordering, SortKey
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


Belongs = Callable[[Timeline], bool]
Hides = Callable[[Timeline, RowContext], bool]
"""Whether a partition that belongs to the view has no row of its own."""
_NARROWEST = Extents(copying=False)
_FEW = 64  # up to this many rows are moved one by one; for more, all are sorted


class RowChange(msgspec.Struct, frozen=True, kw_only=True):
    """What the rows are to follow: a poll, or another choice of rows or of their order."""

    timelines: Mapping[TopicPartition, Timeline] | None = None
    context: RowContext | None = None
    touched: frozenset[TopicPartition] = frozenset()
    belongs: Belongs | None = None
    ordering: Ordering | None = None
    rowfilter: RowFilter | None = None
    hides: Hides | None = None
    anew: bool = False
    reposition: bool = False

    def then(self, later: RowChange) -> RowChange:
        return RowChange(
            timelines=self.timelines if later.timelines is None else later.timelines,
            context=later.context or self.context,
            touched=self.touched | later.touched,
            belongs=later.belongs or self.belongs,
            ordering=later.ordering or self.ordering,
            rowfilter=self.rowfilter if later.rowfilter is None else later.rowfilter,
            hides=later.hides or self.hides,
            anew=self.anew or later.anew,
            reposition=self.reposition or later.reposition,
        )


class Arrangement:
    """The rows of the list, in order.

    An update costs what changed: a timeline that is the same object is not examined again. Each row
    is sorted by the key of its last placement. Rows therefore keep their places until `reposition`,
    and new ones come in where they belong.
    """

    def __init__(self, belongs: Belongs) -> None:
        self.rows: list[TopicPartition] = []
        self.timelines: Mapping[TopicPartition, Timeline] = {}
        self.ordering = Ordering()
        self.rowfilter = RowFilter()
        self.extents = _NARROWEST
        self.seen_since_s = math.inf  # monotonic second from which on some row has shown something
        self._context = RowContext(0.0)
        self._belongs = belongs
        self._hides: Hides = lambda _timeline, _context: False
        self._belonging: set[TopicPartition] = set()
        self._placed: dict[TopicPartition, SortKey] = {}
        self._kept: set[TopicPartition] = set()
        """Rows that kept their places although they have changed."""
        self._index: dict[TopicPartition, int] | None = None

    @property
    def belonging(self) -> int:
        return len(self._belonging)

    @property
    def keeps_places(self) -> bool:
        return bool(self._kept)

    def index_of(self, tp: TopicPartition | None) -> int | None:
        if self._index is None:
            self._index = {each: row for row, each in enumerate(self.rows)}
        return None if tp is None else self._index.get(tp)

    def neighbour(self, tp: TopicPartition, step: int) -> TopicPartition | None:
        row = self.index_of(tp)
        if row is None or not 0 <= row + step < len(self.rows):
            return None
        return self.rows[row + step]

    def followed_by(self, change: RowChange, *, reposition: bool) -> tuple[Arrangement, bool]:
        later = copy.copy(self)
        vars(later).update(
            _belonging=self._belonging.copy(), _placed=self._placed.copy(), _kept=self._kept.copy()
        )
        moved = later.follow(change, reposition=reposition)
        later.index_of(None)  # made here, off the loop
        return later, moved

    def follow(self, change: RowChange, *, reposition: bool) -> bool:
        context, moved = change.context or self._context, change.anew
        if change.anew:
            self.timelines = self.timelines if change.timelines is None else change.timelines
            self.arrange(
                belongs=change.belongs, ordering=change.ordering, rowfilter=change.rowfilter,
                context=context, hides=change.hides,
            )  # fmt: skip
        elif change.timelines is not None:
            moved = self.update(
                change.timelines, context, reposition=reposition, touched=change.touched
            )
        return (change.reposition and self.reposition()) or moved

    def arrange(
        self,
        *,
        belongs: Belongs | None = None,
        ordering: Ordering | None = None,
        rowfilter: RowFilter | None = None,
        context: RowContext | None = None,
        hides: Hides | None = None,
    ) -> None:
        self._belongs = belongs or self._belongs
        self._hides = hides or self._hides
        self.ordering = ordering or self.ordering
        self.rowfilter = self.rowfilter if rowfilter is None else rowfilter
        timelines, self.timelines = self.timelines, {}
        self._belonging.clear()
        self._placed.clear()
        self._kept.clear()
        self.rows, self._index, self.extents = [], None, _NARROWEST
        self.seen_since_s = math.inf
        self.update(timelines, context or self._context, reposition=True)

    def update(
        self,
        timelines: Mapping[TopicPartition, Timeline],
        context: RowContext,
        *,
        reposition: bool,
        touched: Collection[TopicPartition] = (),
    ) -> bool:
        """Update to all timelines, shown or not; return whether rows came, went or moved."""
        gone, changed = differences(self.timelines, timelines)
        if context.configs != self._context.configs or context.run is not self._context.run:
            changed = list(timelines.values())  # all rows depend on it
        elif touched:
            known = {timeline.tp for timeline in changed}
            changed += [timelines[tp] for tp in touched if tp in timelines and tp not in known]
        self.timelines, self._context = timelines, context
        for tp in gone:
            self._belonging.discard(tp)
        old_keys = {tp: self._placed.pop(tp) for tp in gone if tp in self._placed}
        to_place = [t.tp for t in changed if self._record(t, old_keys, reposition=reposition)]
        shown = [t for t in changed if t.tp in self._placed]
        self.extents = widest(self.extents, shown, context)
        self.seen_since_s = min(self.seen_since_s, _seen_since(shown, context))
        return self._place(old_keys, to_place)

    def reposition(self) -> bool:
        kept, self._kept = self._kept, set()
        there = [self.timelines[tp] for tp in kept if tp in self._placed]
        old_keys: dict[TopicPartition, SortKey] = {}
        to_place = [each.tp for each in there if self._record(each, old_keys, reposition=True)]
        return self._place(old_keys, to_place)

    def _record(
        self, timeline: Timeline, old_keys: dict[TopicPartition, SortKey], *, reposition: bool
    ) -> bool:
        """Record a timeline, and return whether to place its row; `old_keys` gets an old place."""
        tp = timeline.tp
        belongs = self._belongs(timeline)
        (self._belonging.add if belongs else self._belonging.discard)(tp)
        placed = self._placed.get(tp)
        if not belongs or not self._is_shown(timeline):
            if placed is not None:
                old_keys[tp] = self._placed.pop(tp)
            return False
        if placed is not None and not reposition:
            self._kept.add(tp)
            return False
        key = self.ordering.key(timeline, self._context)
        if key == placed:
            return False
        if placed is not None:
            old_keys[tp] = placed
        self._placed[tp] = key
        return True

    def _is_shown(self, timeline: Timeline) -> bool:
        if self.rowfilter.text:
            return self.rowfilter.matches(timeline, self._context)
        return not self._hides(timeline, self._context)

    def _place(
        self, old_keys: Mapping[TopicPartition, SortKey], to_place: Sequence[TopicPartition]
    ) -> bool:
        """Remove rows by their old keys, and insert those in `to_place`; return whether any."""
        if not old_keys and not to_place:
            return False
        self._index = None
        if len(old_keys) + len(to_place) > _FEW:
            self.rows = sorted(self._placed, key=self._placed.__getitem__)
            return True

        def sort_key(tp: TopicPartition) -> SortKey:
            return old_keys[tp] if tp in old_keys else self._placed[tp]

        rows = self.rows.copy()
        for key in old_keys.values():
            del rows[bisect.bisect_left(rows, key, key=sort_key)]
        for tp in to_place:
            bisect.insort(rows, tp, key=self._placed.__getitem__)
        self.rows = rows
        return True


def differences(
    before: Mapping[TopicPartition, Timeline], after: Mapping[TopicPartition, Timeline]
) -> tuple[list[TopicPartition], list[Timeline]]:
    """Return the partitions that are gone, and the timelines that are new or different objects.

    A fold that neither adds nor drops partitions keeps their order, and then no lookups are
    needed.
    """
    if len(before) == len(after) and all(map(operator.is_, before, after)):
        pairs = zip(before.values(), after.values(), strict=True)
        return [], [now for was, now in pairs if was is not now]
    gone = [tp for tp in before if tp not in after]
    return gone, [timeline for tp, timeline in after.items() if before.get(tp) is not timeline]


def widest(extents: Extents, timelines: Sequence[Timeline], context: RowContext) -> Extents:
    """Widen the columns for new rows; they never shrink while somebody reads.

    While a run goes on, its rows may have figures at any time.
    """
    goes_on = context.run is not None and not context.run.run.ended
    attached = context.run is not None
    wider = Extents(
        max((cell_len(t.tp.topic) + 1 + len(str(t.tp.partition)) for t in timelines), default=0),
        max((_replicas_width(t.state, attached=attached) for t in timelines), default=0),
        max((_state_width(t, context) for t in timelines), default=0),
    )
    return Extents(
        max(wider.name, extents.name),
        max(wider.replicas, extents.replicas),
        max(wider.state, extents.state),
        extents.copying or goes_on or any(map(_has_figures, timelines)),
    )


def _has_figures(timeline: Timeline) -> bool:
    known = timeline.lag_messages is not None or timeline.lag_bytes is not None
    return not timeline.phase.ended and (known or bool(timeline.state.adding))


def _seen_since(timelines: Sequence[Timeline], context: RowContext) -> float:
    run = context.run
    began_s = [] if run is None else [context.run_began_s]
    # What somebody else did to a partition before the run does not make the run's time smaller.
    others = timelines if run is None else [t for t in timelines if run.track(t.tp) is None]
    moved_s = (each.began_s for each in others if each.lanes and each.phase is not Phase.SETTLED)
    polled = (each.recent for each in others if each.lanes)
    marks_s = (recent.end_s - recent.slot_s * len(recent.marks) for recent in polled)
    return min(chain(began_s, moved_s, marks_s), default=math.inf)


def _replicas_width(state: PartitionState, *, attached: bool) -> int:
    """Return the cells of the replicas, with room for a leader, a next leader and one more sign.

    A run also marks one that a later step is to remove.
    """
    away = len(state.replicas) - len(state.isr) if state.described else 0
    signs = len(state.adding) + (len(state.removing) or attached) + max(3, away + 1)
    commas = max(1, len(state.replicas) - 1)
    return len(str(state.replicas)) - len("()") - commas + signs


def _state_width(timeline: Timeline, context: RowContext) -> int:
    """Return the cells of the one state that is longer than all others; 0 for the others."""
    track = context.track(timeline)
    elsewhere = timeline.phase is Phase.CHANGED_ELSEWHERE or (
        track is not None and track.state is State.CHANGED_ELSEWHERE
    )
    return len(State.CHANGED_ELSEWHERE) if elsewhere else 0
