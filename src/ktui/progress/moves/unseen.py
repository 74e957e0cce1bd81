"""Fold a partition that the observation does not show: deleted, dropped, or unreadable."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ktui.progress import news
from ktui.progress.memory import MoveMemory
from ktui.progress.news import EventCollector
from ktui.progress.poll import Poll
from ktui.progress.slots import extend_recent, recent_grid
from ktui.progress.timeline import Lane, Mark, Phase, Role, Slots, Timeline

LOST_AFTER_S = 60.0
"""A partition that no observation has shown for this long is dropped."""


def fold_unseen(before: Timeline, poll: Poll, collector: EventCollector) -> Timeline | None:
    """Fold an observation without the partition; None once the partition is dropped."""
    if before.phase.ended:
        return _extended(before, poll)
    if poll.absent(before.state):
        news.report_topic_deleted(collector, moving=before.phase is not Phase.SETTLED)
        return None if before.phase is Phase.SETTLED else _deleted(before, poll, collector)
    return _without_metadata(before, poll, collector)


def _extended(before: Timeline, poll: Poll) -> Timeline:
    mark = Mark.GONE if before.phase is Phase.TOPIC_GONE else Mark.NOTHING
    recent = _recent(before, mark, poll)
    return before if recent is before.recent else msgspec.structs.replace(before, recent=recent)


def _deleted(before: Timeline, poll: Poll, collector: EventCollector) -> Timeline:
    return msgspec.structs.replace(
        before,
        phase=Phase.TOPIC_GONE,
        ended_at=poll.observation.at,
        lanes=_lanes_gone(before.lanes),
        recent=_recent(before, Mark.GONE, poll),
        events=collector.after(before.events),
        memory=msgspec.structs.replace(before.memory or MoveMemory(), ended_s=poll.now_s),
    )


def _lanes_gone(lanes: Mapping[int, Lane]) -> dict[int, Lane]:
    return {
        broker: Lane(broker=broker, role=Role.GONE, history=lane.history)
        for broker, lane in lanes.items()
    }


def _without_metadata(before: Timeline, poll: Poll, collector: EventCollector) -> Timeline | None:
    """Wait for a partition that is certainly not listed, but whose metadata is unavailable."""
    memory = before.memory or MoveMemory()
    since_s = poll.now_s if memory.unseen_since_s is None else memory.unseen_since_s
    if poll.now_s - since_s > LOST_AFTER_S:
        if before.phase is not Phase.SETTLED:
            news.report_outcome_unknown(collector)
        return None
    moving = before.phase is not Phase.SETTLED
    return msgspec.structs.replace(
        before,
        phase=Phase.SETTLING if moving else Phase.SETTLED,
        recent=_recent(before, Mark.NOTHING, poll),
        memory=msgspec.structs.replace(memory, unseen_since_s=since_s, unlisted_polls=0),
    )


def _recent(before: Timeline, mark: Mark, poll: Poll) -> Slots:
    return extend_recent(before.recent, recent_grid(poll.now_s), int(mark), gap=poll.gap)
