"""Fold observations into progress, one by one: pure, and bounded in memory for any duration."""

from __future__ import annotations

import msgspec

from ktui.cluster.errors import Failure
from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.progress import news
from ktui.progress import timeline as outcome
from ktui.progress.flows import Flows, fold_flows
from ktui.progress.memory import PollMemory
from ktui.progress.move import fold_at_rest, fold_move, fold_unseen, start_timeline
from ktui.progress.news import Alarm, EventCollector, EventSeverity, shown
from ktui.progress.poll import Poll, format_rate
from ktui.progress.timeline import Event, Phase, Progress, Timeline


def cluster_news(poll: Poll) -> tuple[list[Event], PollMemory]:
    """Return the events since the last fold, and the memory for the next one."""
    memory = poll.memory
    known = memory.brokers | poll.observation.brokers.keys()
    down = known - poll.alive
    failing: dict[str, Failure] = {}
    for failure in poll.observation.failures:
        broker = failure.broker
        part = failure.operation.value if broker is None else _figures_of(broker)
        failing.setdefault(part, failure)
    # A broker that is down has its own event: no further one says that its figures are missing.
    reported = frozenset(
        part for part, f in failing.items() if part in memory.unavailable or f.broker not in down
    )
    events = _brokers(poll, memory, down)
    for part in sorted(reported - memory.unavailable):
        answer, broker = failing[part].answer, failing[part].broker
        why = "no answer" if "no answer" in answer else answer.partition(". ")[0]
        events.append(_event(poll, f"{part} are missing: {why}", EventSeverity.WARNING, broker))
    silenced = {_figures_of(broker) for broker in down}
    for part in sorted(memory.unavailable - reported - silenced):
        events.append(_event(poll, f"{part} are back", EventSeverity.NEWS))
    return events, PollMemory(poll.now_s, poll.typical_s, poll.lost_s, known, down, reported)


def _brokers(poll: Poll, memory: PollMemory, down: frozenset[int]) -> list[Event]:
    if poll.first:
        return [_event(poll, f"broker {b} is down", EventSeverity.TROUBLE, b) for b in sorted(down)]
    events = [
        _event(poll, f"broker {b} is down", EventSeverity.TROUBLE, b)
        for b in sorted(down - memory.down)
    ]
    for broker in sorted(poll.alive - (memory.brokers - memory.down)):
        word = "is back" if broker in memory.brokers else "joined the cluster"
        events.append(_event(poll, f"broker {broker} {word}", EventSeverity.NEWS, broker))
    return events


def flow_news(poll: Poll, before: Flows, now: Flows) -> list[Event]:
    """Return the events of brokers into which more is copied than their throttle should let in."""
    events = []
    for broker, flow in now.brokers.items():
        was = before.of(broker).breaks_throttle
        if flow.breaks_throttle and not was and flow.throttle is not None:
            what = (
                f"{format_rate(flow.in_s or 0.0)} are copied into broker {broker},"
                f" above its throttle of {format_rate(flow.throttle)}"
            )
            events.append(_event(poll, what, EventSeverity.TROUBLE, broker))
        elif was and not flow.breaks_throttle:
            what = f"broker {broker} is within its throttle again"
            events.append(_event(poll, what, EventSeverity.NEWS, broker))
    return events


def _figures_of(broker: int) -> str:
    return f"figures of broker {broker}"


def _event(poll: Poll, what: str, severity: int, broker: int | None = None) -> Event:
    return Event(poll.observation.at, what, None, broker, int(severity))


MOST_EVENTS = 10_000
MOST_ENDED = 10_000
ENDED_FOR_S = 600.0


def fold(progress: Progress, observation: Observation) -> Progress:
    """Fold one observation, of any time, into the progress; a missing figure is unknown."""
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
        lost = "" if at_rest else "; its reassignment is gone"
        collector.add(
            f"topic deleted and recreated under the same name{lost}",
            EventSeverity.WARNING if at_rest else EventSeverity.TROUBLE,
        )
        return start_timeline(state, poll, collector)
    if at_rest and not state.reassigning:
        return fold_at_rest(before, state, poll, collector)
    news.report_isr_and_leader(collector, before.state, state)
    if at_rest:
        return start_timeline(state, poll, collector, before)
    if state.reassigning and outcome.completed_between(before, state):
        collector.add(f"completed: replicas {shown(before.target)}")
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
