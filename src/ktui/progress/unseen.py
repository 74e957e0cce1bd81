"""A partition that the observation does not show: deleted, let go, or unreadable."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ktui.progress import news
from ktui.progress.memory import MoveMemory
from ktui.progress.news import EventCollector
from ktui.progress.poll import Poll
from ktui.progress.slots import extended_recent, recent_grid
from ktui.progress.timeline import Lane, Mark, Phase, Role, Slots, Timeline

LOST_AFTER_S = 60.0
"""A partition that no observation has shown for so long is let go."""


def unseen(before: Timeline, poll: Poll, told: EventCollector) -> Timeline | None:
    """Fold an observation without the partition; None once it is let go."""
    if before.phase.ended:
        return _aged(before, poll)
    if poll.absent(before.state):
        news.topic_deleted(told, moving=before.phase is not Phase.SETTLED)
        return None if before.phase is Phase.SETTLED else _gone(before, poll, told)
    return _missing(before, poll, told)


def _aged(before: Timeline, poll: Poll) -> Timeline:
    mark = Mark.GONE if before.phase is Phase.TOPIC_GONE else Mark.NOTHING
    recent = _recent(before, mark, poll)
    return before if recent is before.recent else msgspec.structs.replace(before, recent=recent)


def _gone(before: Timeline, poll: Poll, told: EventCollector) -> Timeline:
    return msgspec.structs.replace(
        before,
        phase=Phase.TOPIC_GONE,
        ended_at=poll.observation.at,
        lanes=_lanes_gone(before.lanes),
        recent=_recent(before, Mark.GONE, poll),
        events=told.after(before.events),
        memory=msgspec.structs.replace(before.memory or MoveMemory(), ended_s=poll.now_s),
    )


def _lanes_gone(lanes: Mapping[int, Lane]) -> dict[int, Lane]:
    return {
        broker: Lane(broker=broker, role=Role.GONE, history=lane.history)
        for broker, lane in lanes.items()
    }


def _missing(before: Timeline, poll: Poll, told: EventCollector) -> Timeline | None:
    """Wait for a partition that is certainly not listed, but whose metadata is not to be had."""
    memory = before.memory or MoveMemory()
    since_s = poll.now_s if memory.unseen_since_s is None else memory.unseen_since_s
    if poll.now_s - since_s > LOST_AFTER_S:
        if before.phase is not Phase.SETTLED:
            news.lost_sight(told)
        return None
    moving = before.phase is not Phase.SETTLED
    return msgspec.structs.replace(
        before,
        phase=Phase.SETTLING if moving else Phase.SETTLED,
        recent=_recent(before, Mark.NOTHING, poll),
        memory=msgspec.structs.replace(memory, unseen_since_s=since_s, unlisted_polls=0),
    )


def _recent(before: Timeline, mark: Mark, poll: Poll) -> Slots:
    return extended_recent(before.recent, recent_grid(poll.now_s), int(mark), gap=poll.gap)
