"""Which versions of a growing table are written again, so that its folders stay few."""

from __future__ import annotations

from collections.abc import Collection, Sequence

_AT_MOST = 2
"""A version is written again with rows of at least the fraction 1/_AT_MOST of its own."""


def versions_to_merge(
    versions: Sequence[tuple[str, int]], needed: Collection[str], new_rows: int
) -> frozenset[str]:
    """Choose the versions whose rows are written again, together with new rows.

    The youngest ones are merged as long as each has at most twice the rows written so far. So the
    number of versions, and how often a row is written again, grow with the logarithm of the rows.

    Args:
        versions: the name of each version and its rows, oldest first.
        needed: versions that have to be among them, as some of their rows change.
        new_rows: the number of new rows.
    """
    merged = set(needed)
    written = new_rows + sum(rows for name, rows in versions if name in needed)
    for name, rows in reversed(versions):
        if name in merged:
            continue
        if rows > _AT_MOST * written:
            break
        merged.add(name)
        written += rows
    return frozenset(merged)
