"""What the Watch screen may show: a run, moves, trouble, or chosen topics."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from itertools import chain, islice

from ktui.cluster.observer import Interest
from ktui.cluster.partition import TopicPartition
from ktui.progress.health import Health, health
from ktui.progress.timeline import Phase, Timeline
from ktui.tui.run_view.rows import RunRows

_MOST_LOOKED_AT = 1_000
"""Partitions of a run that are looked at in each poll though nobody is reassigning them."""


class View(enum.StrEnum):
    """A choice of partitions."""

    RUN = "run"
    """All partitions of the run that the view is attached to, also those that wait."""
    REASSIGNING = "reassigning"
    """Those being reassigned, and those that were within the last ten minutes."""
    UNHEALTHY = "unhealthy"
    """Those under-replicated, under min ISR or offline, anywhere in the cluster."""
    TOPICS = "topics"
    """All partitions of chosen topics."""

    def next(self, topics: frozenset[str], *, attached: bool) -> View:
        """Give the next of the cycle; topics are in it once some are chosen, a run while attached.

        Args:
            topics: those chosen.
            attached: whether the view is attached to a run.
        """
        left_out = {View.TOPICS: not topics, View.RUN: not attached}
        views = [view for view in View if not left_out.get(view)]
        return views[(views.index(self) + 1) % len(views)] if self in views else views[0]


def shows(view: View, topics: frozenset[str], run: RunRows | None, timeline: Timeline) -> bool:
    """Whether a partition belongs to a view."""
    if view is View.RUN:
        return run is not None and run.track(timeline.tp) is not None
    if view is View.TOPICS:
        return timeline.tp.topic in topics
    if view is View.REASSIGNING:
        return timeline.phase is not Phase.SETTLED
    well = (Health.OK, Health.UNKNOWN)
    return timeline.phase is not Phase.TOPIC_GONE and health(timeline.state, None) not in well


def interest(view: View, topics: frozenset[str], rows: RunRows | None) -> Interest:
    """Give what the polls have to look at for a view.

    Of a run those in flight, which the controller does not list while they elect; those of which
    the journal has told something new, for a cut may fall between two looks; those in trouble, and
    those that wait for their next step, and those called off.
    """
    looked_at: Iterable[TopicPartition] = ()
    if rows is not None:
        run = rows.run
        looked_at = chain(run.flying, run.called_off, rows.lately, run.troubled, rows.between)
    return Interest(
        topics=topics if view is View.TOPICS else frozenset(),
        partitions=frozenset(islice(looked_at, _MOST_LOOKED_AT)),
        unhealthy=view is View.UNHEALTHY,
    )
