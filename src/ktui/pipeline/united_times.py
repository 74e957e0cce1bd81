"""Times from a first to a last moment, and the disjoint ones that cover them."""

from __future__ import annotations

from collections.abc import Iterable

MOST = 16  # more times than this are united, those with the least between them first

Time = tuple[int, int | None]
"""The first and the last moment, ms since 1970; None where it has no end."""


def united(times: Iterable[Time], most: int = MOST) -> list[Time]:
    """Return at most so many disjoint times that cover some times, in order."""
    found: list[Time] = []
    for first, last in sorted(times, key=lambda time: time[0]):
        if found and (found[-1][1] is None or first <= found[-1][1]):
            before, until = found[-1]
            found[-1] = before, None if until is None or last is None else max(until, last)
        else:
            found.append((first, last))
    while len(found) > most:
        gaps = [found[n + 1][0] - (found[n][1] or 0) for n in range(len(found) - 1)]
        least = gaps.index(min(gaps))
        found[least : least + 2] = [(found[least][0], found[least + 1][1])]
    return found
