"""Fold observations into progress, one by one: pure, and bounded in memory for any duration."""

from __future__ import annotations

import msgspec

from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.progress import news, outcome
from ktui.progress.cluster_news import cluster_news, flow_news
from ktui.progress.flows import fold_flows
from ktui.progress.moves.move import fold_move
from ktui.progress.moves.rest import fold_at_rest, fold_unseen, start_timeline
from ktui.progress.news import Alarm, EventCollector
from ktui.progress.poll import Poll
from ktui.progress.timeline import Event, Phase, Progress, Timeline

MOST_EVENTS = 10_000
MOST_ENDED = 10_000
ENDED_FOR_S = 600.0
"""How long the timeline of an ended move is kept."""


def fold(progress: Progress, observation: Observation) -> Progress:
    """Fold one observation into the progress so far, which stays unchanged.

    Any observation is accepted: one older than the last, one an hour later, one without some
    figures. A missing figure counts as unknown, not as stalled.
    """
    poll = Poll(progress, observation)
    flows = fold_flows(progress.flows, progress.last, observation, poll.now_s)
    events, memory = cluster_news(poll)
    events += flow_news(poll, progress.flows, flows)
    alarms: list[Alarm] = []
    timelines = dict(progress.timelines)
    for tp, state in observation.partitions.items():
        collector = EventCollector(state, poll)
        timelines[tp] = _observed(timelines.get(tp), state, poll, collector)
        events += collector.events
        alarms += collector.alarms
    events += news.merge_alarms(alarms)
    events += _fold_unseen(timelines, poll)
    _prune(timelines, poll.now_s)
    return Progress(
        timelines=timelines,
        events=(*progress.events, *events)[-MOST_EVENTS:] if events else progress.events,
        last=observation,
        flows=flows,
        memory=memory,
    )


def _observed(
    before: Timeline | None, state: PartitionState, poll: Poll, collector: EventCollector
) -> Timeline:
    if before is None:
        return start_timeline(state, poll, collector)
    if state.topic_id is None and before.state.topic_id is not None:
        # Metadata is unavailable now; a later id must still be compared with the last known one.
        state = msgspec.structs.replace(state, topic_id=before.state.topic_id)
    at_rest = before.phase is Phase.SETTLED or before.phase.ended
    if outcome.recreated(before.state, state):
        news.report_topic_recreated(collector, moving=not at_rest)
        return start_timeline(state, poll, collector)
    if at_rest and not state.reassigning:
        return fold_at_rest(before, state, poll, collector)
    news.report_isr_and_leader(collector, before.state, state)
    if at_rest:
        return start_timeline(state, poll, collector, before)
    if state.reassigning and outcome.completed_between(before, state):
        news.report_completed(collector, before.target)
        return start_timeline(state, poll, collector, before)
    return fold_move(before, state, poll, collector)


def _fold_unseen(timelines: dict[TopicPartition, Timeline], poll: Poll) -> list[Event]:
    events: list[Event] = []
    shown = poll.observation.partitions
    for tp in [tp for tp in timelines if tp not in shown]:
        before = timelines[tp]
        collector = EventCollector(before.state, poll)
        after = fold_unseen(before, poll, collector)
        events += collector.events
        if after is None:
            del timelines[tp]
        else:
            timelines[tp] = after
    return events


def _prune(timelines: dict[TopicPartition, Timeline], now_s: float) -> None:
    """Drop moves that ended long ago, and the oldest where too many have ended."""
    ended = [
        (timeline.memory.ended_s, tp)
        for tp, timeline in timelines.items()
        if timeline.memory is not None and timeline.memory.ended_s is not None
    ]
    old = [tp for ended_s, tp in ended if now_s - ended_s > ENDED_FOR_S]
    if len(ended) - len(old) > MOST_ENDED:
        old = [tp for _, tp in sorted(ended)[: len(ended) - MOST_ENDED]]
    for tp in old:
        del timelines[tp]
