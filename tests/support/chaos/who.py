"""The caller of a port: which engine calls, and for which of its polls."""

from __future__ import annotations

from contextvars import ContextVar

import msgspec


class Poll(msgspec.Struct):
    """One poll of an engine. The engine knows its reads once the poll is over."""

    over: bool = False


ENGINE: ContextVar[int] = ContextVar("engine", default=0)
"""The engine's number, counted from 1 over all engines of a run."""
POLL: ContextVar[Poll | None] = ContextVar("poll", default=None)
