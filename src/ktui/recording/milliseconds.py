"""Times as a recording has them: whole milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def to_ms(seconds: float) -> int:
    """Give seconds as whole milliseconds."""
    return round(seconds * 1000)


def to_s(ms: int) -> float:
    """Give milliseconds as seconds."""
    return ms / 1000


def wall_ms(moment: datetime) -> int:
    """Give wall time as milliseconds since 1970."""
    return round((moment - _BEGINNING) / _MS)


def moment(ms: int) -> datetime:
    """Give the wall time, UTC, of milliseconds since 1970."""
    return _BEGINNING + ms * _MS
