"""What a report rests on: by which version it was made, from which segments, and what was lost."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Segment(msgspec.Struct, frozen=True):
    """A file of a recording that the lake was made from."""

    path: str
    sha256: str


class Lost(msgspec.Struct, frozen=True):
    """A line of a recording that could not be used."""

    file: str
    line: int | None
    reason: str


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """What the foot of the page tells."""

    made_at: datetime
    version: str
    lake: str
    segments: tuple[Segment, ...]
    lost: tuple[Lost, ...]
