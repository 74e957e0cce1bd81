"""The hours in which nothing moved, which figures over time leave out."""

from __future__ import annotations

from collections.abc import Iterable

from ktui.pipeline.lake.records import Span

_LEAST_MS = 3_600_000
_LEAST_SHARE = 0.1
_EDGE_SHARE = 0.02
"""The share of the time with movement that is kept on both sides of what is left out."""


def idle_spans(active: Iterable[Span], span: Span) -> list[Span]:
    """Return the long times within a span in which nothing is active.

    Each lasts at least an hour, and a tenth of the span. A little time next to what is active does
    not belong to it.

    Args:
        active: the times of all that moved or happened, ms, in any order; they may overlap.
        span: the first and the last time of the report, ms.
    """
    began, ended = span
    least = max(_LEAST_MS, int((ended - began) * _LEAST_SHARE))
    found: list[Span] = []
    known = began
    for start, end in [*sorted(active), (ended, ended)]:
        if min(start, ended) - known >= least:
            found.append((known, min(start, ended)))
        known = max(known, min(end, ended))
    busy = ended - began - sum(to - since for since, to in found)
    edge = min(max(1_000, int(busy * _EDGE_SHARE)), least // 4)
    return [(since + edge, to - edge) for since, to in found]
