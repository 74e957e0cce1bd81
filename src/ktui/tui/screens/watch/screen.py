"""The Watch screen: one row per partition of the chosen view, with its last ten minutes."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Center, Vertical
from textual.events import Resize
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from ktui.cluster.clock import Clock
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest
from ktui.cluster.partition import TopicPartition
from ktui.execution.run.states import Stage
from ktui.progress.timeline import Progress, Timeline
from ktui.tui.draw import format as figures
from ktui.tui.poll import Freshness, ended_long_ago, missing_topics, unite
from ktui.tui.run_view.attached import AttachedRun
from ktui.tui.run_view.rows import RunRows
from ktui.tui.screens.questions import choose_copy
from ktui.tui.screens.watch import rule
from ktui.tui.screens.watch.columns import Ordering
from ktui.tui.screens.watch.list import PartitionList, PartitionPane
from ktui.tui.screens.watch.row_model import FilterLine
from ktui.tui.screens.watch.rule import (
    EmptyState,
    Headings,
    TopicsPrompt,
    View,
    ViewLine,
    ViewState,
    available_views,
    empty_state_text,
)
from ktui.tui.screens.watch.run_banner import RunBanner
from ktui.tui.screens.watch.state import (
    NOTHING_CHOSEN,
    Fold,
    FoldKind,
    FoldLine,
    fold_lines,
    fold_of,
)
from ktui.tui.screens.watch.words import RowContext, build_row_context
from ktui.tui.widgets.bindings import WATCH_BINDINGS, key_of
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.header import StatusHeader
from ktui.tui.widgets.lines import set_text
from ktui.tui.widgets.services import services

_UNFOLD_ID = "watch.unfold"
_ABOVE_ROWS = 2  # the rule and the headings
_PANELS_FROM = 26  # lines for list and panels from which on there are any; 80x24 is the list's
_LEAST_PANELS, _LEAST_LIST = 6, 6
_PANELS = 1 / 3  # the part of these lines that panels have at least, so that they do not jump
_CALM_S = 20.0  # seconds for which they take no lines that rows need from time to time


class WatchScreen(Screen[None]):
    """Shows the progress of the polls; the app calls `show_progress` after each."""

    DEFAULT_CSS = """
    WatchScreen {
        background: $background;
        & > #split { height: 1fr; }
        & #listed { height: 1fr; }
        & PartitionList { height: 1fr; }
        & #empty { height: 1fr; align: center middle; display: none; }
        & #empty > Static { width: auto; max-width: 80%; }
        &.-empty #empty { display: block; }
        &.-empty PartitionList { height: 1; }
        &.-empty Headings { display: none; }
        &.-filtering > FooterKeys { display: none; }
        & > #split > PartitionPane { display: none; }
    }
    """
    AUTO_FOCUS = "PartitionList"
    BINDINGS: ClassVar[list[BindingType]] = list(WATCH_BINDINGS)

    class InterestChanged(Message):
        """Polls have to cover other partitions."""

    def __init__(
        self,
        *,
        cluster_name: str,
        interval_s: float,
        topics: frozenset[str],
        clock: Clock,
        pane: PartitionPane,
        filter_text: str = "",
    ) -> None:
        super().__init__()
        self._pane = pane
        self.cluster_name = cluster_name
        self.interval_s = interval_s
        self.clock = clock
        self.view = View.TOPICS if topics else View.REASSIGNING
        self.topics = topics
        self._filter_text = filter_text
        self._asked_at_s = -math.inf
        """Monotonic second at which the topics were chosen; older answers do not cover them."""
        self._freshness = Freshness()
        self.attached: AttachedRun | None = None
        self._rows: RunRows | None = None
        self._fold_choices = NOTHING_CHOSEN
        """Whether the operator has folded each kind of rows, or unfolded it."""
        self._fold = Fold()
        self._touched: set[TopicPartition] = set()
        self._frozen: Progress | None = None
        self._frozen_s = 0.0
        self._panels, self._grown_s, self._calm_until_s = 0, -math.inf, 0.0
        self.when_quiet: tuple[str, ...] = ()
        self.when_never_polled = ""

    def forget_polls(self) -> None:
        self._freshness = Freshness()

    @property
    def partition_list(self) -> PartitionList:
        return self.query_one(PartitionList)

    @property
    def interest(self) -> Interest:
        rows = None if self.attached is None else self.attached.rows
        view = rule.poll_interest(self.view, self.topics, rows)
        return unite((view, self._pane.interest))

    @property
    def partition(self) -> TopicPartition | None:
        return self.partition_list.cursor

    @property
    def _last(self) -> Observation | None:
        return services(self).progress.last

    @property
    def _shown(self) -> Progress:
        return services(self).progress if self._frozen is None else self._frozen

    def _belongs(self, timeline: Timeline) -> bool:
        if self.view is View.REASSIGNING and timeline.ended_at is not None:
            last = self._last
            if last is not None and ended_long_ago(timeline, last.at):
                return False
        rows = None if self.attached is None else self.attached.rows
        return rule.belongs_to_view(self.view, self.topics, rows, timeline)

    def _timelines(self) -> Mapping[TopicPartition, Timeline]:
        timelines = self._shown.timelines
        if self.view is View.RUN and self._rows is not None:
            return self._rows.with_unpolled(timelines)
        return timelines

    def _row_context(self) -> RowContext:
        health_first = self.view is View.UNHEALTHY
        of_run = self.view is View.RUN
        return build_row_context(
            self._shown.last, self._rows, health_first=health_first, of_run=of_run
        )

    def _view_state(self) -> ViewState:
        arrangement = self.partition_list.arrangement
        last = self._last
        census = None if last is None else last.census
        frozen = figures.as_age(self.clock.monotonic() - self._frozen_s)
        status = services(self).cluster_status()
        return ViewState(
            view=self.view,
            topics=self.topics,
            missing=missing_topics(self.topics, self._asked_at_s, last),
            as_at=self._freshness.as_at(census) if self.view is View.UNHEALTHY else "",
            shown=len(arrangement.rows),
            belonging=arrangement.belonging,
            ordering=self.partition_list.ordering,
            held=self.partition_list.holds_places,
            filter_text=self.partition_list.rowfilter.text,
            cancels=self._has_cancels,
            out_of_sync=status is not None and status.overview.health.unhealthy > 0,
            rearranging=self.partition_list.rearranging,
            marked=len(self.partition_list.marked),
            frozen_for="" if self._frozen is None else frozen,
            failures=() if last is None else last.failures,
        )

    @property
    def _has_cancels(self) -> bool:
        run = None if self.attached is None else self.attached.status
        return run is not None and Stage.CALLED_OFF in run.stages

    def _emptiness(self) -> EmptyState:
        quiet, last = self._freshness.quiet_since_s, self._last
        return EmptyState(
            state=self._view_state(),
            cluster_name=self.cluster_name,
            last=last,
            outage=services(self).outage,
            quiet_s=None if quiet is None else self.clock.monotonic() - quiet,
            counting=not self._freshness.is_current(None if last is None else last.census),
            interval_s=self.interval_s,
            starts_plans=services(self).abilities.works("start_plan"),
            when_quiet=self.when_quiet,
            when_never_polled=self.when_never_polled,
        )

    def compose(self) -> ComposeResult:
        yield StatusHeader(with_sums=True)
        yield RunBanner()
        with Vertical(id="split"):
            with Vertical(id="listed"):
                yield ViewLine()
                yield Headings()
                yield PartitionList(self._belongs)
                with Center(id="empty"):
                    yield Static(markup=False)
            yield self._pane
        yield FilterLine()
        yield FooterKeys()

    def on_mount(self) -> None:
        self.set_interval(1.0, self._draw_header)
        if self._filter_text:
            self.filter_by(self._filter_text)
        self._draw()

    @on(Resize)
    def _split(self) -> None:
        self._share_lines(at_once=True)
        self.call_after_refresh(self._draw_resized)

    def _draw_resized(self) -> None:
        self._refold()
        self._draw_pane()

    @property
    def _list_room(self) -> int:
        """The rows that the list can show beside the panels, and a line below the cursor's."""
        height = self.query_one("#split").size.height
        panels = self._pane.more_lines if height >= _PANELS_FROM else None
        return (
            height - _ABOVE_ROWS - 1 - (0 if panels is None else round(_PANELS * height) + panels)
        )

    def _share_lines(self, *, at_once: bool = False) -> None:
        """Give the panels the lines without rows, and always at least their share."""
        height = self.query_one("#split").size.height
        free = height - self.partition_list.lines - _ABOVE_ROWS
        more, empty = self._pane.more_lines, self.has_class("-empty")
        shown = more is not None and height >= _PANELS_FROM and not empty
        self._pane.display = shown
        if more is not None and shown:
            panels = max(free, round(_PANELS * height)) + more
            self._give(min(max(_LEAST_PANELS, panels), height - _LEAST_LIST), at_once=at_once)

    def _give(self, lines: int, *, at_once: bool) -> None:
        """Make the panels so high, but for a while no higher where rows have just come back."""
        now_s, before = self.clock.monotonic(), self._panels
        if before < lines and now_s < self._calm_until_s and not at_once:
            return
        if 0 < before < lines:
            self._grown_s = now_s
        elif lines < before and now_s - self._grown_s < _CALM_S:
            self._calm_until_s = now_s + _CALM_S
        self._panels = lines
        self._pane.give(lines)

    @on(PartitionPane.Chosen)
    def _share_as_chosen(self) -> None:
        self._share_lines(at_once=True)
        self.call_after_refresh(self._draw_pane)

    @on(PartitionPane.Left)
    def _back_to_list(self) -> None:
        self.partition_list.focus()

    def action_panel(self, digit: int) -> None:
        if self.query_one("#split").size.height < _PANELS_FROM:
            self.notify(
                "The panels need a higher terminal: 32 lines. enter, b and e show the same.",
                markup=False,
            )
        else:
            self._pane.choose(digit)

    def action_panels(self) -> None:
        self._pane.choose(None)

    @on(PartitionList.CursorMoved)
    @on(PartitionList.Arranged)
    def _follow_cursor(self) -> None:
        self._pane.show_partition(self.partition, again=False)
        self.query_one(FooterKeys).update_keys()

    def _draw_pane(self) -> None:
        self._pane.show_partition(self.partition, again=True)

    def show_progress(self) -> None:
        self._freshness.note(services(self).progress)
        if self.is_mounted:
            self._draw()

    def show_run(
        self, attached: AttachedRun | None, touched: Collection[TopicPartition] = ()
    ) -> None:
        rows = None if attached is None else attached.rows
        attached_changed, rows_changed = attached is not self.attached, rows is not self._rows
        self.attached, self._rows = attached, rows
        self._touched |= set(touched)
        self.query_one(RunBanner).show(None if attached is None else attached.status)
        if attached_changed:
            self.partition_list.let_go()
        if attached_changed and self.view is not View.TOPICS:
            self._switch_view(View.RUN if attached is not None else View.REASSIGNING, self.topics)
        elif rows_changed:
            self._switch_view(self.view, self.topics)

    def _draw(self) -> None:
        stale = services(self).outage is not None
        held_still = self._frozen is not None and stale is self.partition_list.stale
        self._refold()
        if self._shown.last is not None and not held_still:
            touched, self._touched = self._touched, set()
            self.partition_list.show(
                self._timelines(), self._row_context(), stale=stale, touched=touched
            )
        self._draw_header()
        self._draw_pane()

    def _refold(self, kind: FoldKind | None = None) -> None:
        rows = self._rows if self.view is View.RUN and self._frozen is None else None
        fold = Fold() if rows is None else fold_of(rows, self._list_room, self._fold_choices)
        if fold != self._fold and self._frozen is None:
            self._fold = fold
            lines, context = self._fold_lines(), self._row_context()
            self.partition_list.refold(fold, lines, context, kind=kind)

    def _fold_lines(self) -> list[FoldLine]:
        filtered = bool(self.partition_list.rowfilter.text)
        if self._rows is None or filtered or not self._fold.kinds:
            return []
        return fold_lines(self._fold, self._rows, key_of(self, _UNFOLD_ID))

    @on(PartitionList.Arranged)
    def _draw_header(self) -> None:
        partitions = self.partition_list
        self.query_one(ViewLine).state = self._view_state()
        shown = (partitions.layout_in_force, partitions.ordering, partitions.axis)
        self.query_one(Headings).shown = shown
        folded = self._fold_lines()
        partitions.show_fold_lines(folded)
        if not partitions.arranging:
            empty = not partitions.arrangement.rows and not folded
            self.set_class(empty, "-empty")
            self._share_lines()
            if empty:
                text = empty_state_text(self._emptiness())
                set_text(self.query_one("#empty Static", Static), text, wraps=True)

    @on(Headings.Clicked)
    def _sort_by(self, event: Headings.Clicked) -> None:
        ordering = self.partition_list.ordering.by_column(event.column)
        if ordering is None:
            self.notify(f"There is no order by {event.column}.", markup=False)
        else:
            self.order(ordering)

    def action_sort(self) -> None:
        self.order(self.partition_list.ordering.next())

    def action_reverse(self) -> None:
        self.order(self.partition_list.ordering.reversed())

    def order(self, ordering: Ordering) -> None:
        self.partition_list.rearrange(ordering=ordering)
        self._draw_header()

    def action_filter(self) -> None:
        self.add_class("-filtering")
        self.query_one(FilterLine).open()

    def filter_by(self, text: str) -> None:
        self.query_one(FilterLine).filter_by(text)

    def action_clear(self) -> None:
        self.query_one(FilterLine).clear()

    @on(FilterLine.Changed)
    def _filter(self, event: FilterLine.Changed) -> None:
        self.partition_list.rearrange(rowfilter=event.rowfilter)
        self._draw_header()

    @on(FilterLine.Closed)
    def _focus_list(self) -> None:
        self.remove_class("-filtering")
        self.partition_list.focus()

    def action_freeze(self) -> None:
        self._frozen = services(self).progress if self._frozen is None else None
        self._frozen_s = self.clock.monotonic()
        self._draw()

    @on(PartitionList.Folded)
    def _fold_or_unfold(self, event: PartitionList.Folded) -> None:
        self._fold_choices = {**self._fold_choices, event.kind: event.folded}
        self._refold(event.kind)
        self._draw()

    def action_unfold(self) -> None:
        by_room = self._rows is not None and bool(fold_of(self._rows, self._list_room).kinds)
        folds = not self._fold.kinds
        chosen = NOTHING_CHOSEN if folds is by_room else dict.fromkeys(FoldKind, folds)
        self._fold_choices = chosen
        self._draw()

    def action_zoom(self) -> None:
        self.partition_list.zoom_in()
        self._draw_pane()

    def action_view(self) -> None:
        following = self.view.next(self.topics, attached=self.attached is not None)
        self._switch_view(following, self.topics)

    @property
    def views(self) -> list[View]:
        return available_views(self.topics, attached=self.attached is not None)

    def show_view(self, view: View) -> None:
        self._switch_view(view, self.topics)

    def action_choose_topics(self) -> None:
        known = {tp.topic for tp in services(self).progress.timelines}

        def answered(topics: frozenset[str] | None) -> None:
            if topics:
                self._asked_at_s = self.clock.monotonic()
                self._switch_view(View.TOPICS, topics)

        self.app.push_screen(TopicsPrompt(self.topics, known), answered)

    async def action_copy(self) -> None:
        tp = self.partition_list.cursor
        if tp is None:
            self.notify("There is no partition to copy.", markup=False)
        else:
            await choose_copy(
                self.app, self.partition_list.arrangement.timelines[tp], self._row_context()
            )

    def action_pause_partition(self) -> None:
        services(self).run_controller.pause_partition(self.partition_list.cursor)

    def _switch_view(self, view: View, topics: frozenset[str]) -> None:
        self.view, self.topics = view, topics
        self._frozen = None
        self.partition_list.rearrange(belongs=self._belongs, context=self._row_context())
        self._draw()
        self.post_message(self.InterestChanged())
