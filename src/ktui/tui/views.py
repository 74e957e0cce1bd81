"""What the Watch screen may show: moves, trouble, or chosen topics."""

from __future__ import annotations

import enum

from ktui.cluster.observer import Interest
from ktui.progress.health import Health, health
from ktui.progress.timeline import Phase, Timeline


class View(enum.StrEnum):
    """A choice of partitions."""

    REASSIGNING = "reassigning"
    """Those being reassigned, and those that were within the last ten minutes."""
    UNHEALTHY = "unhealthy"
    """Those under-replicated, under min ISR or offline, anywhere in the cluster."""
    TOPICS = "topics"
    """All partitions of chosen topics."""

    def next(self, topics: frozenset[str]) -> View:
        """Give the next of the cycle, in which topics are only once some are chosen."""
        views = [view for view in View if topics or view is not View.TOPICS]
        return views[(views.index(self) + 1) % len(views)]


def shows(view: View, topics: frozenset[str], timeline: Timeline) -> bool:
    """Whether a partition belongs to a view."""
    if view is View.TOPICS:
        return timeline.tp.topic in topics
    if view is View.REASSIGNING:
        return timeline.phase is not Phase.SETTLED
    well = (Health.OK, Health.UNKNOWN)
    return timeline.phase is not Phase.TOPIC_GONE and health(timeline.state, None) not in well


def interest(view: View, topics: frozenset[str]) -> Interest:
    """Give what the polls have to look at for a view."""
    return Interest(
        topics=topics if view is View.TOPICS else frozenset(), unhealthy=view is View.UNHEALTHY
    )
