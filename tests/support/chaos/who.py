"""Whose call it is: which engine asks, and for which of its polls."""

from __future__ import annotations

from contextvars import ContextVar

import msgspec


class Poll(msgspec.Struct):
    """One poll of an engine. What it has read is known to the engine once it is over."""

    over: bool = False


ENGINE: ContextVar[int] = ContextVar("engine", default=0)
"""The engine's number, counted from 1 over all that carry a run on."""
POLL: ContextVar[Poll | None] = ContextVar("poll", default=None)
