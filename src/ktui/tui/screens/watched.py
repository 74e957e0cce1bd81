"""What the Watch screen shows: which partitions, as of when, and what is to be said around them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from textual.screen import Screen

from ktui.cluster.clock import Clock
from ktui.cluster.observer import Interest
from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Progress, Timeline
from ktui.tui import figures, views
from ktui.tui.lookout import Lookout
from ktui.tui.outages import Outage
from ktui.tui.overview import long_over
from ktui.tui.runs.attached import AttachedRun
from ktui.tui.runs.rows import RunRows
from ktui.tui.views import View
from ktui.tui.widgets.empty import Emptiness
from ktui.tui.widgets.moment import Moment, moment_of
from ktui.tui.widgets.partition_list import PartitionList
from ktui.tui.widgets.view_line import ViewState


class WatchedScreen(Screen[None]):
    """What is looked at and shown; what the operator does to it is `WatchScreen`'s."""

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
        self._lookout = Lookout()
        self.attached: AttachedRun | None = None
        self._rows: RunRows | None = None
        self._touched: set[TopicPartition] = set()
        """Partitions of the run that stand otherwise than the list has them."""
        self._frozen_at_s: float | None = None
        self.when_quiet: tuple[str, ...] = ()
        """What to say while nothing moves; empty for the other keys."""
        self.when_not_looked_at = ""
        """What to say of what is not looked at, and never will be; empty where it will be."""

    def forget(self) -> None:
        """Forget what earlier polls told: what comes next does not follow on them."""
        self._lookout = Lookout()

    @property
    def partition_list(self) -> PartitionList:
        """The list of partitions."""
        return self.query_one(PartitionList)

    @property
    def interest(self) -> Interest:
        """What the polls have to look at for what is shown."""
        rows = None if self.attached is None else self.attached.rows
        return views.interest(self.view, self.topics, rows)

    def _belongs(self, timeline: Timeline) -> bool:
        rows = None if self.attached is None else self.attached.rows
        last = self._progress.last
        if self.view is View.REASSIGNING and last is not None and long_over(timeline, last.at):
            return False
        return views.shows(self.view, self.topics, rows, timeline)

    def _timelines(self) -> Mapping[TopicPartition, Timeline]:
        if self.view is View.RUN and self._rows is not None:
            return self._rows.with_unseen(self._shown.timelines)
        return self._shown.timelines

    def _moment(self) -> Moment:
        health_first = self.view is View.UNHEALTHY
        return moment_of(self._shown.last, self._rows, health_first=health_first)

    @property
    def _missing(self) -> frozenset[str]:
        """The topics chosen that the cluster says it does not have."""
        return self._lookout.missing(self.topics, self._asked_at_s)

    def _view_state(self) -> ViewState:
        arrangement = self.partition_list.arrangement
        last = self._progress.last
        frozen = self._frozen_at_s
        return ViewState(
            view=self.view,
            topics=self.topics,
            missing=self._missing,
            as_at=self._lookout.as_at if self.view is View.UNHEALTHY else "",
            shown=len(arrangement.rows),
            belonging=arrangement.belonging,
            ordering=arrangement.ordering,
            held=self.partition_list.holds_places,
            filter_text=arrangement.rowfilter.text,
            marked=len(self.partition_list.marked),
            frozen_for="" if frozen is None else figures.as_age(self.clock.monotonic() - frozen),
            failures=() if last is None else last.failures,
        )

    def _emptiness(self) -> Emptiness:
        last = self._progress.last
        arrangement = self.partition_list.arrangement
        census = self._lookout.census
        quiet = self._lookout.quiet_since_s
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
            counting=not self._lookout.census_stands,
            interval_s=self._interval_s,
            when_quiet=self.when_quiet,
            when_not_looked_at=self.when_not_looked_at,
        )
