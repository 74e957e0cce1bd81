"""Events of the cluster as a whole: brokers that go and come, figures that are missing."""

from __future__ import annotations

from ktui.cluster.errors import Failure
from ktui.progress.memory import PollMemory
from ktui.progress.news import EventSeverity
from ktui.progress.poll import Poll
from ktui.progress.timeline import Event


def cluster_news(poll: Poll) -> tuple[list[Event], PollMemory]:
    """Tell what changed since the last fold, and what to remember for the next one."""
    memory = poll.memory
    known = memory.brokers | poll.observation.brokers.keys()
    down = known - poll.alive
    failing: dict[str, Failure] = {}
    for failure in poll.observation.failures:
        failing.setdefault(_whose(failure), failure)
    # That a broker is down is told by itself; that it then gives no figures goes without saying.
    told = frozenset(
        who for who, f in failing.items() if who in memory.unavailable or f.broker not in down
    )
    events = _brokers(poll, memory, down)
    for who in sorted(told - memory.unavailable):
        events.append(_unavailable(poll, who, failing[who]))
    silenced = {_figures_of(broker) for broker in down}
    for who in sorted(memory.unavailable - told - silenced):
        events.append(_event(poll, f"{who} are back", EventSeverity.NEWS))
    return events, PollMemory(poll.now_s, poll.typical_s, poll.lost_s, known, down, told)


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


def _whose(failure: Failure) -> str:
    """Name what is missing: all figures of one broker, or one part of the answer."""
    if failure.broker is None:
        return failure.operation.value
    return _figures_of(failure.broker)


def _figures_of(broker: int) -> str:
    return f"figures of broker {broker}"


def _unavailable(poll: Poll, who: str, failure: Failure) -> Event:
    sentence = f"{who} are missing: {_in_short(failure.answer)}"
    return _event(poll, sentence, EventSeverity.WARNING, failure.broker)


def _in_short(answer: str) -> str:
    """Give the heart of an answer, without address and advice."""
    return "no answer" if "no answer" in answer else answer.partition(". ")[0]


def _event(poll: Poll, what: str, severity: int, broker: int | None = None) -> Event:
    return Event(poll.observation.at, what, None, broker, int(severity))
