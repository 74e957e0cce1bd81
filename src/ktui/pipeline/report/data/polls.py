"""What the polls show beside partitions: gaps of the recording, and brokers that went down."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from itertools import pairwise

from ktui.pipeline.lake.records import Mark, PollRecord, Span
from ktui.pipeline.report.data.marks import BROKER

_LEAST_GAP_MS = 10_000
_MISSED_POLLS = 5
"""A gap is at least so many times the usual time between two polls."""


def recording_gaps(times: Sequence[int], span: Span) -> list[Span]:
    """Return the times within a span that no poll shows.

    A gap lasts at least 10 s, and more than five times the usual time between two polls.

    Args:
        times: when polls were answered, ms, in order.
        span: the first and the last time of the report, ms.
    """
    began, ended = span
    within = [t for t in times if began <= t <= ended]
    if not within:
        return [span] if began < ended else []
    usual = statistics.median(after - t for t, after in pairwise(within)) if within[1:] else 0
    least = max(_LEAST_GAP_MS, _MISSED_POLLS * usual)
    known = [began, *within, ended]
    return [(t, after) for t, after in pairwise(known) if after - t > least]


def broker_marks(polls: Sequence[PollRecord], end: int) -> list[Mark]:
    """Return the times in which brokers were not alive, and when each came back.

    Args:
        polls: the polls in order of time.
        end: the last time of the report, ms.
    """
    marks: list[Mark] = []
    down: dict[int, tuple[int, str]] = {}
    alive: frozenset[int] = frozenset()
    for place, poll in enumerate(polls):
        now = frozenset(poll.alive)
        if now == alive and place:
            continue
        was = alive if place else frozenset(poll.brokers)
        when = "went down" if place else "was down when the recording began"
        down |= dict.fromkeys(was - now, (poll.t, when))
        marks += _returned(down, now, poll.t)
        alive = now
    marks += [_down(broker, *since, end) for broker, since in sorted(down.items())]
    return sorted(marks, key=lambda mark: (mark.t, mark.says))


def _returned(down: dict[int, tuple[int, str]], alive: Iterable[int], t: int) -> Iterable[Mark]:
    for broker in sorted(set(alive) & down.keys()):
        yield _down(broker, *down.pop(broker), t)
        yield Mark(t, BROKER, f"broker {broker} was back")


def _down(broker: int, since: int, how: str, until: int) -> Mark:
    return Mark(since, BROKER, f"broker {broker} {how}", until)
