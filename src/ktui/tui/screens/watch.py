"""The Watch screen: every partition that matters, a row each, with its last ten minutes."""

from __future__ import annotations

import math
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Center
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from ktui.cluster.clock import Clock
from ktui.cluster.observer import Interest
from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Phase, Progress, Timeline
from ktui.tui import figures, views
from ktui.tui.actions import WATCH_BINDINGS
from ktui.tui.outages import Outage
from ktui.tui.views import View
from ktui.tui.widgets.empty import Emptiness, words
from ktui.tui.widgets.filter_line import FilterLine
from ktui.tui.widgets.headings import Headings
from ktui.tui.widgets.keys import Keys
from ktui.tui.widgets.moment import Moment
from ktui.tui.widgets.ordering import Ordering
from ktui.tui.widgets.partition_list import PartitionList
from ktui.tui.widgets.status_header import StatusHeader
from ktui.tui.widgets.topics_prompt import TopicsPrompt
from ktui.tui.widgets.view_line import ViewLine, ViewState


class WatchScreen(Screen[None]):
    """Shows `Progress`; the app hands each new one to `show`."""

    DEFAULT_CSS = """
    WatchScreen {
        background: $background;
        & > PartitionList { height: 1fr; }
        & > #empty { height: 1fr; align: center middle; display: none; }
        & > #empty > Static { width: auto; max-width: 80%; }
        &.-empty > #empty { display: block; }
        &.-empty > PartitionList { height: 1; }
        &.-empty > Headings { display: none; }
        &.-filtering > Keys { display: none; }
    }
    """
    AUTO_FOCUS = "PartitionList"
    BINDINGS: ClassVar[list[BindingType]] = list(WATCH_BINDINGS)

    class InterestChanged(Message):
        """The polls have to look at something else."""

    class DetailWanted(Message):
        """The operator wants to see one partition."""

        def __init__(self, tp: TopicPartition) -> None:
            super().__init__()
            self.tp = tp

    def __init__(
        self,
        *,
        cluster_name: str,
        interval_s: float,
        topics: frozenset[str],
        clock: Clock,
    ) -> None:
        super().__init__()
        self.cluster_name = cluster_name
        self._interval_s = interval_s
        self.clock = clock
        self.view = View.TOPICS if topics else View.REASSIGNING
        self.topics = topics
        self._progress = Progress()
        self._shown = Progress()
        """The progress that the list shows: an older one while it is frozen."""
        self._outage: Outage | None = None
        self._asked_at_s = -math.inf
        """When the topics were chosen: an older answer tells nothing of them."""
        self._alive: frozenset[int] | None = None
        self._alive_since_s = -math.inf
        """Since when the brokers alive are the same: an older census tells of others."""
        self._frozen_at_s: float | None = None
        self._quiet_since_s: float | None = None
        self.when_quiet: tuple[str, ...] = ()
        """What to say while nothing moves; empty for the other keys."""

    def compose(self) -> ComposeResult:
        """Lay out the header, the list, what stands in its place, and the keys."""
        yield StatusHeader(with_sums=True)
        yield ViewLine()
        yield Headings()
        yield PartitionList(self._belongs)
        with Center(id="empty"):
            yield Static(markup=False)
        yield FilterLine()
        yield Keys()

    def on_mount(self) -> None:
        """Say at once what is being connected to, and let the clock run."""
        self.set_interval(1.0, self._draw_header)
        self._draw()

    @property
    def partition_list(self) -> PartitionList:
        """The list of partitions."""
        return self.query_one(PartitionList)

    @property
    def interest(self) -> Interest:
        """What the polls have to look at for what is shown."""
        return views.interest(self.view, self.topics)

    def show(self, progress: Progress, outage: Outage | None = None) -> None:
        """Take in a new progress, or why the one known is not current any more: it is greyed."""
        self._progress, self._outage = progress, outage
        self._note_quiet()
        self._note_alive()
        if self.is_mounted:
            self._draw()

    def _note_alive(self) -> None:
        last = self._progress.last
        if last is None:
            return
        alive = frozenset(filter(last.alive, last.brokers))
        if self._alive not in (None, alive):
            self._alive_since_s = last.monotonic_s - last.took_s
        self._alive = alive

    def _note_quiet(self) -> None:
        last = self._progress.last
        if last is None or any(
            not t.phase.ended and t.phase is not Phase.SETTLED
            for t in self._progress.timelines.values()
        ):
            self._quiet_since_s = None
        elif self._quiet_since_s is None:
            self._quiet_since_s = last.monotonic_s

    def _belongs(self, timeline: Timeline) -> bool:
        return views.shows(self.view, self.topics, timeline)

    def _draw(self) -> None:
        if self._frozen_at_s is None:
            self._shown = self._progress
        last = self._shown.last
        if last is not None:
            stale = self._outage is not None
            self.partition_list.show(self._shown.timelines, self._moment(), stale=stale)
        self._draw_header()

    def _moment(self) -> Moment:
        last = self._shown.last
        health_first = self.view is View.UNHEALTHY
        if last is None:
            return Moment(0.0, health_first=health_first)
        return Moment(last.monotonic_s, last.topic_configs, health_first)

    @on(PartitionList.Arranged)
    def _draw_header(self) -> None:
        self.query_one(ViewLine).show(self._view_state())
        partitions = self.partition_list
        ordering = partitions.arrangement.ordering
        self.query_one(Headings).show(partitions.layout_in_force, ordering)
        empty = not partitions.arrangement.rows
        self.set_class(empty, "-empty")
        if empty:
            self.query_one("#empty Static", Static).update(words(self._emptiness()))

    @property
    def _missing(self) -> frozenset[str]:
        """The topics chosen that the cluster says it does not have."""
        last = self._progress.last
        if last is None or last.monotonic_s - last.took_s < self._asked_at_s:
            return frozenset()
        unread = {failure.topic for failure in last.failures if failure.topic is not None}
        return self.topics - unread - {tp.topic for tp in last.partitions}

    @property
    def _census_stands(self) -> bool:
        """Whether all partitions were looked at since a broker last went or came."""
        census = None if self._progress.last is None else self._progress.last.census
        return census is not None and census.monotonic_s - census.took_s >= self._alive_since_s

    def _as_at(self) -> str:
        census = None if self._progress.last is None else self._progress.last.census
        if census is None or not self._census_stands:
            return "looking at all partitions …"
        return f"as at {figures.as_time(census.at)}"

    def _view_state(self) -> ViewState:
        arrangement = self.partition_list.arrangement
        last = self._progress.last
        frozen = self._frozen_at_s
        return ViewState(
            view=self.view,
            topics=self.topics,
            missing=self._missing,
            as_at=self._as_at() if self.view is View.UNHEALTHY else "",
            shown=len(arrangement.rows),
            belonging=arrangement.belonging,
            ordering=arrangement.ordering,
            held=self.partition_list.holds_places,
            filter_text=arrangement.rowfilter.text,
            frozen_for="" if frozen is None else figures.as_age(self.clock.monotonic() - frozen),
            failures=() if last is None else last.failures,
        )

    def _emptiness(self) -> Emptiness:
        last = self._progress.last
        arrangement = self.partition_list.arrangement
        census = None if last is None else last.census
        quiet = self._quiet_since_s
        return Emptiness(
            cluster_name=self.cluster_name,
            connected=last is not None,
            outage=self._outage,
            view=self.view,
            topics=self.topics,
            missing=self._missing,
            filter_text=arrangement.rowfilter.text,
            belonging=arrangement.belonging,
            quiet_s=None if quiet is None else self.clock.monotonic() - quiet,
            counted=None if census is None else census.partitions,
            counted_at="" if census is None else figures.as_time(census.at),
            counting=not self._census_stands,
            interval_s=self._interval_s,
            when_quiet=self.when_quiet,
        )

    @on(PartitionList.Opened)
    def _open(self, event: PartitionList.Opened) -> None:
        if event.tp is None:
            self.notify("There is no partition to open.", markup=False)
        else:
            self.post_message(self.DetailWanted(event.tp))

    @on(Headings.Clicked)
    def _sort_by(self, event: Headings.Clicked) -> None:
        ordering = self.partition_list.arrangement.ordering.by_column(event.column)
        if ordering is None:
            self.notify(f"There is no order by {event.column}.", markup=False)
        else:
            self._order(ordering)

    def action_sort(self) -> None:
        """Sort by the next column."""
        self._order(self.partition_list.arrangement.ordering.next())

    def action_reverse(self) -> None:
        """Turn the order round."""
        self._order(self.partition_list.arrangement.ordering.reversed())

    def _order(self, ordering: Ordering) -> None:
        self.partition_list.rearrange(ordering=ordering)
        self._draw_header()

    def action_filter(self) -> None:
        """Open the line in which a filter is typed."""
        self.add_class("-filtering")
        self.query_one(FilterLine).open()

    def filter_by(self, text: str) -> None:
        """Filter as if `text` had been typed."""
        self.query_one(FilterLine).input.value = text

    def action_clear(self) -> None:
        """Clear the filter."""
        self.query_one(FilterLine).clear()

    @on(FilterLine.Changed)
    def _filter(self, event: FilterLine.Changed) -> None:
        self.partition_list.rearrange(rowfilter=event.rowfilter)
        self._draw_header()

    @on(FilterLine.Closed)
    def _back_to_list(self) -> None:
        self.remove_class("-filtering")
        self.partition_list.focus()

    def action_freeze(self) -> None:
        """Freeze the list, or let it go on."""
        self._frozen_at_s = None if self._frozen_at_s is not None else self.clock.monotonic()
        self._draw()

    def action_zoom(self) -> None:
        """Let the timelines reach back less far, or as far as can be again."""
        self.partition_list.zoom()

    def action_view(self) -> None:
        """Show the next view."""
        self._look_at(self.view.next(self.topics), self.topics)

    def action_choose_topics(self) -> None:
        """Ask for the topics to show."""
        known = {tp.topic for tp in self._progress.timelines}

        def answered(topics: frozenset[str] | None) -> None:
            if topics:
                self._asked_at_s = self.clock.monotonic()
                self._look_at(View.TOPICS, topics)

        self.app.push_screen(TopicsPrompt(self.topics, known), answered)

    def _look_at(self, view: View, topics: frozenset[str]) -> None:
        self.view, self.topics = view, topics
        self._frozen_at_s = None
        self.partition_list.rearrange(belongs=self._belongs, moment=self._moment())
        self._draw()
        self.post_message(self.InterestChanged())
