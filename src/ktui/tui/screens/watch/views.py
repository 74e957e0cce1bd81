"""The views of the Watch screen, the topics of one, and what stands where there are no rows."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from itertools import chain, islice
from typing import ClassVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static

from ktui.cluster.observer import Interest
from ktui.cluster.partition import TopicPartition
from ktui.cluster.text import clean
from ktui.progress.health import Health, health
from ktui.progress.timeline import Phase, Timeline
from ktui.tui.draw import format as figures
from ktui.tui.poll.overview import ClusterOutage
from ktui.tui.run_view.rows import RunRows
from ktui.tui.screens.dialog import Dialog
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.text_field import TextField

_MOST_POLLED = 1_000
"""The most partitions of a run that each poll covers although nobody is reassigning them."""


class View(enum.StrEnum):
    """A choice of partitions."""

    RUN = "run"
    """All partitions of the run that the view is attached to, including those that wait.

    With them, every other partition whose move has stalled: trouble is never out of sight.
    """
    REASSIGNING = "reassigning"
    """Partitions being reassigned now, or within the last ten minutes."""
    UNHEALTHY = "unhealthy"
    """Partitions that are under-replicated, under min ISR or offline, anywhere in the cluster."""
    TOPICS = "topics"
    """All partitions of chosen topics."""

    def next(self, topics: frozenset[str], *, attached: bool) -> View:
        """Return the next view of the cycle.

        Topics are in the cycle once some are chosen, a run while the view is attached to one.

        Args:
            topics: the chosen topics.
            attached: whether the view is attached to a run.
        """
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
    """Return what polls have to cover for a view.

    Of a run these are: partitions in flight, which the controller does not list while they elect;
    those whose step is just over, for a cut may fall between two polls; those in trouble, those
    that wait for their next step, and those that were cancelled.
    """
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

    def action_leave(self) -> None:
        self.dismiss(None)


_OTHER_KEYS = "v  another view\nT  choose topics\nb  brokers\ne  events\n?  all keys"


class EmptyState(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that explain why there are no rows."""

    cluster_name: str
    connected: bool
    outage: ClusterOutage | None = None
    last_at: str = ""
    """The time of the last poll that was answered, as local time."""
    view: View = View.REASSIGNING
    topics: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    """Those of `topics` that the cluster does not have."""
    filter_text: str = ""
    belonging: int = 0
    quiet_s: float | None = None
    """Seconds for which no reassignment has been seen."""
    counted: int | None = None
    """Partitions of the whole cluster, once all of them have been polled."""
    counted_at: str = ""
    """The time of that count, as local time."""
    counting: bool = False
    """Whether all partitions are being polled: for the first time, or since brokers changed."""
    interval_s: float = 1.0
    when_quiet: tuple[str, ...] = ()
    """Paragraphs to show in place of the other keys while nothing moves."""
    when_never_polled: str = ""
    """The sentence for partitions that will never be polled; empty if they will be."""


def empty_state_text(empty: EmptyState) -> Content:
    """Explain why nothing is shown: one sentence, then what helps."""
    headline, *more = _lines(empty)
    return Content("\n\n").join(
        [Content.styled(headline, "bold $foreground"), *(Content.styled(t, "$dim") for t in more)]
    )


def _lines(empty: EmptyState) -> list[str]:
    if not empty.connected:
        return _connecting(empty)
    if empty.filter_text and empty.belonging:
        count = figures.as_count(empty.belonging, "partition")
        return [
            f"No partition matches the filter {empty.filter_text!r}.",
            f"Without it there are {count}.",
            "esc  clear the filter\n/    change it",
        ]
    if empty.outage is not None:
        return _not_known(empty, empty.outage)
    if empty.view is View.TOPICS:
        return _no_topics(empty)
    return _nothing_moves(empty) if empty.view is View.REASSIGNING else _all_well(empty)


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


def _not_known(empty: EmptyState, outage: ClusterOutage) -> list[str]:
    """Explain that only the past is known: anything may be moving by now."""
    return [
        f"Not known: {empty.cluster_name} does not answer.",
        f"At {empty.last_at}, when it last did, there was nothing to show here.",
        outage.details,
    ]


def _nothing_moves(empty: EmptyState) -> list[str]:
    quiet = "" if empty.quiet_s is None else f"Quiet for {figures.as_duration(empty.quiet_s)}. "
    return [
        "Nothing is being reassigned.",
        f"{quiet}The controller's list is read every {empty.interval_s:g} s.",
        *(empty.when_quiet or (_OTHER_KEYS,)),
    ]


def _all_well(empty: EmptyState) -> list[str]:
    if empty.counted is None and empty.when_never_polled:
        return ["It is not known which partitions were unhealthy.", empty.when_never_polled]
    if empty.counted is None:
        return ["Checking all partitions of the cluster …"]
    count = figures.as_count(empty.counted, "partition")
    if empty.counting:
        return [
            f"Checking all {count} of the cluster again …",
            f"Brokers went or came since {empty.counted_at}. None was in trouble then.",
        ]
    return [
        "No partition is under-replicated, under min ISR or offline.",
        f"As at {empty.counted_at}. All {count} of the cluster are checked every 30 s.",
        _OTHER_KEYS,
    ]


def _no_topics(empty: EmptyState) -> list[str]:
    if empty.missing:
        return [
            f"The cluster has no topic {', '.join(sorted(empty.missing))}.",
            "It may also be that Describe on it is not granted. T chooses other topics.",
        ]
    names = ", ".join(sorted(empty.topics))
    if empty.when_never_polled:
        return [f"Nothing is known of {names} here.", empty.when_never_polled]
    return [f"Looking at {names} …", "T chooses other topics."]
