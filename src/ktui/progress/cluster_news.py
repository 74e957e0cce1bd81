"""Cluster-wide events: brokers that leave and return, figures that are missing."""

from __future__ import annotations

from ktui.cluster.errors import Failure
from ktui.progress.flows import Flows
from ktui.progress.memory import PollMemory
from ktui.progress.news import EventSeverity
from ktui.progress.poll import Poll
from ktui.progress.throttle import format_rate
from ktui.progress.timeline import Event


def cluster_news(poll: Poll) -> tuple[list[Event], PollMemory]:
    """Return the events since the last fold, and the memory for the next one."""
    memory = poll.memory
    known = memory.brokers | poll.observation.brokers.keys()
    down = known - poll.alive
    failing: dict[str, Failure] = {}
    for failure in poll.observation.failures:
        failing.setdefault(_missing_part(failure), failure)
    # A broker that is down has its own event: no further one says that its figures are missing.
    reported = frozenset(
        part for part, f in failing.items() if part in memory.unavailable or f.broker not in down
    )
    events = _brokers(poll, memory, down)
    for part in sorted(reported - memory.unavailable):
        events.append(_unavailable(poll, part, failing[part]))
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


def _missing_part(failure: Failure) -> str:
    """Name the missing part: all figures of one broker, or one operation's answer."""
    if failure.broker is None:
        return failure.operation.value
    return _figures_of(failure.broker)


def _figures_of(broker: int) -> str:
    return f"figures of broker {broker}"


def _unavailable(poll: Poll, part: str, failure: Failure) -> Event:
    sentence = f"{part} are missing: {_shortened(failure.answer)}"
    return _event(poll, sentence, EventSeverity.WARNING, failure.broker)


def _shortened(answer: str) -> str:
    """Shorten an answer to its core, without address and advice."""
    return "no answer" if "no answer" in answer else answer.partition(". ")[0]


def _event(poll: Poll, what: str, severity: int, broker: int | None = None) -> Event:
    return Event(poll.observation.at, what, None, broker, int(severity))
