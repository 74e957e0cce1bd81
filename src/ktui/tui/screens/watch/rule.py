"""The two lines above the list: the rule with the view and its order, and the headings."""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import ClassVar, NamedTuple

import msgspec
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.suggester import SuggestFromList
from textual.widget import Widget
from textual.widgets import Input, Static

from ktui.cluster.errors import Failure
from ktui.cluster.observation import Census, Observation
from ktui.cluster.observer import Interest
from ktui.cluster.partition import TopicPartition
from ktui.cluster.text import clean
from ktui.execution.run.states import CancelKind
from ktui.progress.memory import Health, health
from ktui.progress.timeline import Mark, Phase, Timeline
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import (
    BATCH_BEGUN,
    CANCEL_SIGNS,
    DROPPED,
    SIGNS,
    Piece,
    Window,
    cut,
    cut_pieces,
    pieces_width,
)
from ktui.tui.draw.paint import content
from ktui.tui.poll import ClusterOutage
from ktui.tui.run_view.rows import RunRows
from ktui.tui.screens.dialog import Dialog
from ktui.tui.screens.watch.columns import (
    CURSOR_WIDTH,
    MARK,
    TIMELINE,
    Column,
    ColumnLayout,
    Ordering,
)
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.fields import TextField

_MOST_POLLED = 1_000
"""The most partitions of a run that each poll covers although nobody is reassigning them."""


class View(enum.StrEnum):
    """A choice of partitions; with those of the run, any other whose move has stalled."""

    RUN = "run"
    REASSIGNING = "reassigning"  # being reassigned now, or within the last ten minutes
    UNHEALTHY = "unhealthy"
    TOPICS = "topics"

    def next(self, topics: frozenset[str], *, attached: bool) -> View:
        views = available_views(topics, attached=attached)
        return views[(views.index(self) + 1) % len(views)] if self in views else views[0]


def available_views(topics: frozenset[str], *, attached: bool) -> list[View]:
    """Return the views that there are: topics once some are chosen, a run while one is attached."""
    left_out = {View.TOPICS: not topics, View.RUN: not attached}
    return [view for view in View if not left_out.get(view)]


def belongs_to_view(
    view: View, topics: frozenset[str], run: RunRows | None, timeline: Timeline
) -> bool:
    """Return whether a partition belongs to a view."""
    if view is View.RUN:
        return run is not None and (
            run.track(timeline.tp) is not None or timeline.phase is Phase.STALLED
        )
    if view is View.TOPICS:
        return timeline.tp.topic in topics
    if view is View.REASSIGNING:
        return timeline.phase is not Phase.SETTLED
    well = (Health.OK, Health.UNKNOWN)
    return timeline.phase is not Phase.TOPIC_GONE and health(timeline.state, None) not in well


def poll_interest(view: View, topics: frozenset[str], rows: RunRows | None) -> Interest:
    """Return what polls cover for a view: of a run what is in flight, just over, or in trouble."""
    polled: Iterable[TopicPartition] = ()
    if rows is not None:
        run = rows.run
        polled = chain(
            run.tracks_in_flight, run.cancelling, rows.just_over, run.troubled, rows.between_steps
        )
    return Interest(
        topics=topics if view is View.TOPICS else frozenset(),
        partitions=frozenset(islice(polled, _MOST_POLLED)),
        unhealthy=view is View.UNHEALTHY,
        health=True,
    )


class TopicsPrompt(Dialog[frozenset[str] | None]):
    """Returns the topics typed, or None if the operator leaves without any."""

    DEFAULT_CSS = "TopicsPrompt .hint { color: $dim; margin-top: 1; }"
    ENTER = "show all their partitions"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", tooltip="Go back without choosing topics"),
    ]
    give_ids("topics", BINDINGS)

    def __init__(self, chosen: Collection[str], known: Collection[str]) -> None:
        super().__init__("Which topics?")
        self._chosen = ", ".join(sorted(chosen))
        self._known = sorted(known)

    def body(self) -> ComposeResult:
        yield TextField(
            self._chosen,
            placeholder="orders, payments",
            suggester=SuggestFromList(self._known) if self._known else None,
        )
        yield Static("Names with commas between.", classes="hint")

    @on(Input.Submitted)
    def _answered(self, event: Input.Submitted) -> None:
        names = frozenset(clean(name) for part in event.value.split(",") if (name := part.strip()))
        self.dismiss(names or None)


_START = "n  start plan\n"
_OTHER_KEYS = "v  another view\nT  choose topics\nb  brokers\ne  events\n?  all keys"


class EmptyState(NamedTuple):
    """Facts that explain why there are no rows in a view."""

    state: ViewState
    cluster_name: str
    last: Observation | None
    outage: ClusterOutage | None
    quiet_s: float | None
    counting: bool  # the last census shows other brokers than those alive now
    interval_s: float
    starts_plans: bool
    when_quiet: tuple[str, ...]
    when_never_polled: str


def empty_state_text(empty: EmptyState) -> Content:
    """Explain why nothing is shown: one sentence, then what helps."""
    headline, *more = _lines(empty)
    return Content("\n\n").join(
        [Content.styled(headline, "bold $foreground"), *(Content.styled(t, "$dim") for t in more)]
    )


def _lines(empty: EmptyState) -> list[str]:
    state, last = empty.state, empty.last
    if last is None:
        return _connecting(empty)
    if state.filter_text and state.belonging:
        count = figures.as_count(state.belonging, "partition")
        return [
            f"No partition matches the filter {state.filter_text!r}.",
            f"Without it there are {count}.",
            "esc  clear the filter\n/    change it",
        ]
    if empty.outage is not None:  # only the past is known: anything may be moving by now
        return [
            f"Not known: {empty.cluster_name} does not answer.",
            f"At {figures.as_time(last.at)}, when it last did, there was nothing to show here.",
            empty.outage.details,
        ]
    if state.view is View.TOPICS:
        return _no_topics(empty)
    if state.view is View.REASSIGNING:
        return _nothing_moves(empty)
    return _all_well(empty, last.census)


def _connecting(empty: EmptyState) -> list[str]:
    if empty.outage is not None:
        return [
            f"Cannot reach {empty.cluster_name} yet.",
            empty.outage.details,
            "Retrying; q quits.",
        ]
    if empty.when_never_polled:
        return ["Reading the recording …"]
    return [f"Connecting to {empty.cluster_name} …"]


def _nothing_moves(empty: EmptyState) -> list[str]:
    quiet = "" if empty.quiet_s is None else f"Quiet for {figures.as_duration(empty.quiet_s)}. "
    return [
        "Nothing is being reassigned.",
        f"{quiet}The controller's list is read every {empty.interval_s:g} s.",
        *(empty.when_quiet or (_keys(empty),)),
    ]


def _all_well(empty: EmptyState, census: Census | None) -> list[str]:
    if census is None and empty.when_never_polled:
        return ["It is not known which partitions were unhealthy.", empty.when_never_polled]
    if census is None:
        return ["Checking all partitions of the cluster …"]
    count, at = figures.as_count(census.partitions, "partition"), figures.as_time(census.at)
    if empty.counting:
        return [
            f"Checking all {count} of the cluster again …",
            f"Brokers went or came since {at}. None was in trouble then.",
        ]
    return [
        "No partition is under-replicated, under min ISR or offline.",
        f"As at {at}. All {count} of the cluster are checked every 30 s.",
        _keys(empty),
    ]


def _keys(empty: EmptyState) -> str:
    return _START + _OTHER_KEYS if empty.starts_plans else _OTHER_KEYS


def _no_topics(empty: EmptyState) -> list[str]:
    if empty.state.missing:
        return [
            f"The cluster has no topic {', '.join(sorted(empty.state.missing))}.",
            "It may also be that Describe on it is not granted. T chooses other topics.",
        ]
    names = ", ".join(sorted(empty.state.topics))
    if empty.when_never_polled:
        return [f"Nothing is known of {names} here.", empty.when_never_polled]
    return [f"Looking at {names} …", "T chooses other topics."]


class ViewState(msgspec.Struct, frozen=True, kw_only=True):
    """The choices for the list, and how much of it is shown."""

    view: View = View.REASSIGNING
    topics: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    as_at: str = ""
    shown: int = 0
    belonging: int = 0
    ordering: Ordering = Ordering()
    held: bool = False
    filter_text: str = ""
    cancels: bool = False  # whether rows have been cancelled
    out_of_sync: bool = False  # whether replicas have left the ISR
    rearranging: bool = False
    frozen_for: str = ""
    marked: int = 0
    failures: tuple[Failure, ...] = ()


class ViewLine(Widget):
    """Draws a `ViewState` on a rule; trouble stands there too, so that the list never moves."""

    DEFAULT_CSS = "ViewLine { height: 1; background: $background; }"

    state: reactive[ViewState] = reactive(ViewState())

    def render(self) -> Content:
        return content(rule_pieces(self.state, self.size.width))


_CANCELLED = tuple(
    (Piece(CANCEL_SIGNS[kind].glyph, "next-leader"), words)
    for kind, words in ((CancelKind.STOP, "stopped"), (CancelKind.ROLLBACK, "rollback asked"))
)
_AWAY = (Piece(SIGNS[Mark.OUT_OF_SYNC].glyph, "dim"), "out of ISR")  # red where a hand helps
_OF_REPLICAS = (
    (Piece("*", "leader", bold=True), "leader"),
    (Piece("+", "moving"), "adding"),
    (Piece("-", "retiring"), "to leave"),
)
_OF_STEPS = (
    (Piece(BATCH_BEGUN.glyph, BATCH_BEGUN.role), "batch"),
    (Piece(DROPPED.glyph, DROPPED.role), "dropped"),
)
_OF_LEADERS = (
    (Piece(SIGNS[Mark.LEADER_MOVED].glyph, "leader"), "new leader"),
    (Piece(">", "next-leader"), "next leader"),
)
"""What the list's signs mean, at the right of its rule as far as there is room."""
_LEAST_RULE = 4


def rule_pieces(state: ViewState, width: int) -> list[Piece]:
    """Draw the rule with the text on it."""
    left = [Piece("─ ", "rule"), *_chosen(state), Piece(" ")]
    trouble = _trouble(state.failures)
    if trouble:
        room = max(0, width - min(pieces_width(left), width // 2) - 4)
        trouble = cut_pieces(trouble, min(room, pieces_width(trouble)))
        trouble = [Piece(" "), *trouble, Piece(" ─", "rule")]
    signs: list[Piece] = []
    first = (*(_CANCELLED if state.cancels else ()), *([_AWAY] if state.out_of_sync else []))
    # Whose leaders move is the question where something is wrong; a step is plain from its place.
    then = (*_OF_LEADERS, *_OF_STEPS) if first else (*_OF_STEPS, *_OF_LEADERS)
    meanings = dict.fromkeys((*first, *_OF_REPLICAS, *then, *_CANCELLED))
    for sign, words in () if trouble else meanings:
        meant = [Piece(" "), sign, Piece(f" {words} ", "dim")]
        if pieces_width([*left, *signs, *meant]) + _LEAST_RULE <= width:
            signs += meant
    rest = width - pieces_width(trouble) - pieces_width(signs)
    rule = Piece("─" * max(0, rest - pieces_width(left)), "rule")
    return cut_pieces([*cut_pieces([*left, rule], rest), *signs, *trouble], width)


def _chosen(state: ViewState) -> list[Piece]:
    dot = Piece(" · ", "dim")
    pieces = [Piece("partitions ", bold=True), _count(state), dot, Piece(_name(state)), dot]
    pieces += _order(state)
    if state.as_at:
        pieces += [dot, Piece(state.as_at, "dim")]
    if state.missing:
        pieces += [dot, Piece(f"{', '.join(sorted(state.missing))}: no such topic", "stalled")]
    if state.filter_text:
        pieces += [dot, Piece("filter ", "dim"), Piece(state.filter_text, "next-leader")]
    if state.marked:
        pieces += [dot, Piece(f"{MARK} {state.marked:,} marked", "next-leader", bold=True)]
    if state.frozen_for:
        pieces += [dot, Piece(f"FROZEN {state.frozen_for}", "falling-behind", bold=True)]
    return pieces


def _name(state: ViewState) -> str:
    if state.view is not View.TOPICS:
        return state.view.value
    noun = "topic" if len(state.topics) == 1 else "topics"
    return f"{noun} {', '.join(sorted(state.topics))}"


def _count(state: ViewState) -> Piece:
    if state.filter_text:
        shown = "…" if state.rearranging else f"{state.shown:,}"
        return Piece(f"{shown} of {state.belonging:,}", "header")
    return Piece(f"{state.belonging:,}", "header")


def _order(state: ViewState) -> list[Piece]:
    held = " …" if state.rearranging else " (held)" if state.held else ""
    return [
        Piece("by ", "dim"),
        Piece(f"{state.ordering.by} {state.ordering.arrow}"),
        Piece(held, "dim"),
    ]


def _trouble(failures: tuple[Failure, ...]) -> list[Piece]:
    failures = tuple(each for each in failures if not each.denied)  # the header shows those
    if not failures:
        return []
    more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
    return [Piece(f"! {failures[0].sentence}{more}", "falling-behind")]


# ---------------------------------------------------------------------------- the headings

NOW = "now"
_MINUTE_S, _DAY_S = 60, 86_400
_TICKS_S = (
    10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, _DAY_S,
)  # fmt: skip
_LABEL = 12  # cells from one tick to the next, at least


class Headings(Widget):
    """The headings in one line above the list, aligned with the list's columns."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "Headings { height: 1; background: $background; }"

    @dataclass
    class Clicked(Message):
        """The operator wants to sort by a column."""

        column: Column

    shown: reactive[tuple[ColumnLayout, Ordering, str] | None] = reactive(None)
    """The columns, the order of the rows, and the times above the timelines."""

    def render(self) -> Content:
        if self.shown is None:
            return Content("")
        layout, ordering, axis = self.shown
        pieces = [Piece(" " * CURSOR_WIDTH)]
        for column, width in layout.columns:
            heading = Piece(axis, "dim")
            if column is not TIMELINE:
                heading = _heading(column, width, ordering)
            pieces += [heading, Piece(" " * layout.gap)]
        return content(pieces)

    def on_click(self, event: events.Click) -> None:
        column = None if self.shown is None else self.shown[0].at(event.x)
        if column is not None:
            self.post_message(self.Clicked(column))


def _heading(column: Column, width: int, ordering: Ordering) -> Piece:
    sorted_by = column.heading == ordering.by
    text = f"{column.heading} {ordering.arrow}" if sorted_by else column.heading
    fitted = text.rjust(width) if column.right else cut(text, "", width)
    return Piece(fitted, "header", bold=sorted_by)


def time_axis(window: Window, width: int, now_at: datetime | None, last: str = NOW) -> str:
    """Return the times of a timeline's cells, each after a tick at its moment, up to the last."""
    axis = [" "] * width
    if now_at is not None:
        now_s, since = now_at.timestamp(), now_at.astimezone().utcoffset() or timedelta()
        apart_s = _apart_s(window.cell_s)
        words = "%H:%M:%S" if apart_s < _MINUTE_S else "%H:%M" if apart_s < _DAY_S else "%d %b"
        earliest_s = now_s - window.cell_s * width + since.total_seconds()
        tick_s = math.ceil(earliest_s / apart_s) * apart_s - since.total_seconds()
        while tick_s < now_s:
            label = f"╷{datetime.fromtimestamp(tick_s, UTC).astimezone():{words}}"
            place = window.place(window.now_s - (now_s - tick_s), width)
            if place >= 0 and place + len(label) < width - len(last):
                axis[place : place + len(label)] = label
            tick_s += apart_s
    axis[max(0, width - len(last)) :] = last[:width]
    return "".join(axis)


def _apart_s(cell_s: float) -> int:
    """Return the seconds between two ticks, which have room for a label each."""
    least_s = _LABEL * cell_s
    return next(
        (each for each in _TICKS_S if each >= least_s), math.ceil(least_s / _DAY_S) * _DAY_S
    )
