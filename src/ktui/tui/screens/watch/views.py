"""The views of the Watch screen: a run, moves, trouble, or chosen topics."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from itertools import chain, islice

from ktui.cluster.observer import Interest
from ktui.cluster.partition import TopicPartition
from ktui.progress.health import Health, health
from ktui.progress.timeline import Phase, Timeline
from ktui.tui.run_view.rows import RunRows

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
