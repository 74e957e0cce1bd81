"""Names of a cluster as a drawing may show them: they are anybody's text, and never markup."""

from __future__ import annotations

import html

from ktui.cluster.text import clean
from ktui.pipeline.report.records import OfPartition

_LONGEST = 26


def plain(text: str) -> str:
    """Take from a text all that the drawing library would read as markup."""
    return html.escape(clean(text), quote=False)


def full(row: OfPartition) -> str:
    """Name a partition."""
    return f"{clean(row.topic)}-{row.partition}"


def short(row: OfPartition) -> str:
    """Name a partition so that it fits beside a drawing: a long topic loses its middle."""
    name = full(row)
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST // 2]}…{name[-(_LONGEST // 2 - 1) :]}"


def brokers(ids: tuple[int, ...] | None) -> str:
    """Name some brokers, in their order."""
    return "-" if ids is None else ", ".join(map(str, ids))
