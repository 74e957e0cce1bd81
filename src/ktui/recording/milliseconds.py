"""Convert times from and to a recording's whole milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def to_ms(seconds: float) -> int:
    """Convert seconds to whole milliseconds."""
    return round(seconds * 1000)


def to_s(ms: int) -> float:
    """Convert milliseconds to seconds."""
    return ms / 1000


def wall_ms(at: datetime) -> int:
    """Convert wall time to milliseconds since 1970."""
    return round((at - _BEGINNING) / _MS)


def from_wall_ms(ms: int) -> datetime:
    """Convert milliseconds since 1970 to wall time in UTC."""
    return _BEGINNING + ms * _MS
