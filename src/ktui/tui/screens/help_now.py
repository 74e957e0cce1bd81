"""The first page of the help: what can be done now with the row under the cursor, and words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from textual.screen import Screen

from ktui.cluster.partition import TopicPartition
from ktui.pacing.limits import LETTERS, NUMBERS
from ktui.tui.draw.cells import Piece
from ktui.tui.run_view.attached import RunStatus
from ktui.tui.screens.watch.run_banner import limits_in_words, rates_in_words, shape_in_words
from ktui.tui.screens.watch.state import reason, state_cell
from ktui.tui.screens.watch.words import build_row_context
from ktui.tui.widgets.bindings import key_names
from ktui.tui.widgets.services import Services, ShowsPartition, Status, services
from ktui.tui.widgets.trouble import helps

WORDS: Sequence[tuple[str, str]] = (
    ("step", "one change sent for a partition: it adds or drops replicas, or moves the leader"),
    ("batch", "the steps that one decision of the run begins"),
    ("gentle", "a shape: adds all new replicas first, and drops the old ones in one cut"),
    ("kip-435", "a shape: the new leader first, then adds and drops in turns, with less disk"),
    ("cut", "drops the old replicas of a partition that has all its new ones"),
    ("ready", "has all its new replicas, and waits to be cut together with others"),
    ("leader epoch", "counts a partition's leaders; at each new one clients wait for a moment"),
    ("ISR", "the replicas in sync; nobody can write with fewer than min.insync.replicas"),
    ("throttle", "the most that is copied into a broker a second; steps in flight keep to it"),
    *((LETTERS[option], f"a limit: {each.meaning}") for option, each in NUMBERS.items()),
)
"""Words of runs and limits, as `?` explains them."""


class NowSection(NamedTuple):
    """A row's name and state, and the keys that act on it, each with what it would do."""

    title: list[Piece]
    rows: Sequence[tuple[Piece, str]]


class _Facts(NamedTuple):
    tp: TopicPartition
    app: Services
    status: Status
    on_folded_line: bool

    @property
    def run(self) -> RunStatus | None:
        return self.status.run

    @property
    def name(self) -> str:
        return "" if self.run is None else f"run {self.run.name}"


def _open(facts: _Facts) -> str:
    if facts.on_folded_line:
        return "Show a row for each partition that this line stands for"
    return f"See {facts.tp} over time: its replicas, steps and events"


def _brokers(facts: _Facts) -> str:
    down = ", ".join(map(str, facts.status.overview.down))
    if not down:
        return "Look at the brokers: traffic, throttle, disk, replicas"
    return f"Look at the brokers, of which {down} is down: since when, and what it holds"


def _pause_partition(facts: _Facts) -> str:
    attached = facts.app.attached
    if attached is not None and facts.tp in attached.run.pauses.partitions:
        return f"Let {facts.tp} go on"
    return f"Pause {facts.tp} alone: its step in flight finishes"


def _pause(facts: _Facts) -> str:
    attached, run = facts.app.attached, facts.run
    if attached is None or run is None:
        return ""
    if attached.run.pauses.whole:
        return f"Let {facts.name} go on"
    return f"Pause {facts.name}: nothing new begins; {run.steps_in_flight:,} in flight finish"


def _limits(facts: _Facts) -> str:
    if facts.run is None:
        return ""
    now = limits_in_words(facts.run.limits) or "none"
    shape = shape_in_words(facts.run.limits)
    return f"Change the limits from the next step on, now {now}, {shape}"


def _throttle(facts: _Facts) -> str:
    bounded = facts.run is not None and facts.run.throttle.bounded
    rates = rates_in_words(facts.run.throttle) if facts.run is not None and bounded else "none"
    return f"Change the throttle at once, now {rates}"


def _next_run(facts: _Facts) -> str:
    named = [f"{each.name}, {each.state.words}" for each in facts.status.others]
    return f"Show run {named[0]}" if len(named) == 1 else f"Show the next run: {'; '.join(named)}"


_ACTS: Mapping[str, Callable[[_Facts], str]] = {
    "open": _open,
    "cancel": lambda facts: (
        f"Stop or roll back {facts.tp}, its topic, or all of {facts.name}; asks first"
    ),
    "cancel_foreign": lambda facts: f"Cancel the move of {facts.tp}, which someone else has begun",
    "pause_partition": _pause_partition,
    "show_throttle": _throttle,
    "show_limits": _limits,
    "pause": _pause,
    "resume_run": lambda facts: f"Start an engine for {facts.name}, which goes on where it was",
    "open_gate": lambda _: "Open the cancel gate: runs may send steps again",
    "show_brokers": _brokers,
    "next_run": _next_run,
    "view": lambda _: "Show what is unhealthy, what is being reassigned, or the run",
    "mark": lambda facts: f"Mark {facts.tp}: c or X then acts on all marked ones",
    "copy": lambda _: "Copy the row, or Kafka's own command for it",
    "start_plan": lambda facts: (
        f"Add a plan to {facts.name}, or start another run"
        if facts.run is not None
        else "Start a plan: nothing is sent before you have seen what it does"
    ),
    "show_events": lambda _: "Read all that has happened",
    "show_dashboard": lambda _: "See the flow of all copies, and a map of all partitions",
}
"""What each key would do, of those that act on a row or its run; in order of worth."""


def acts_now(screen: Screen[Any] | None) -> NowSection | None:
    """Return what can be done with the row under the cursor; None without one."""
    shown: object = screen
    tp = shown.partition if isinstance(shown, ShowsPartition) else None
    if screen is None or tp is None or (status := services(screen).cluster_status()) is None:
        return None
    app = services(screen)
    on_folded_line = app.abilities.words_of_key("open", "") != ""
    keys, facts = key_names(screen), _Facts(tp, app, status, on_folded_line)
    helping = {each.action: each.role for each in helps(status) if each.action in _ACTS}
    rows = [
        (Piece(keys[action], helping.get(action, "moving"), bold=True), words)
        for action in dict.fromkeys((*helping, *_ACTS))
        if action in keys and app.abilities.works(action) and (words := _ACTS[action](facts))
    ]
    return NowSection(_title(tp, app), rows)


def _title(tp: TopicPartition, app: Services) -> list[Piece]:
    attached, name = app.attached, Piece(str(tp), bold=True)
    rows = None if attached is None else attached.rows
    unpolled = None if rows is None else rows.unpolled(tp)
    timeline = app.progress.timelines.get(tp) or unpolled
    if timeline is None:
        return [name]
    context = build_row_context(app.progress.last, rows, health_first=False)
    why = reason(timeline, context)
    state = state_cell(timeline, context)
    pieces = [name, Piece(" · ", "dim"), state._replace(bold=True)]
    return pieces if why is None else [*pieces, Piece(": ", "dim"), why]
