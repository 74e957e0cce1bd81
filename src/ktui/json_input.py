"""JSON that anybody may have written: decoded with one kind of error, whatever is wrong with it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeVar

import msgspec

T = TypeVar("T")

_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(9999, 1, 1, tzinfo=UTC)
"""Moments outside cannot be told in every time zone."""


def decoded(decoder: msgspec.json.Decoder[T], text: bytes) -> T:
    """Decode JSON.

    Raises:
        msgspec.DecodeError: it is not what the decoder reads, not UTF-8, or nested too deep.
    """
    try:
        return decoder.decode(text)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"not UTF-8: {error.reason}") from None
    except RecursionError:
        raise msgspec.DecodeError("nested too deep") from None


def checked_moment(moment: datetime) -> datetime:
    """Return a moment that can be shown in every time zone.

    Raises:
        ValueError: it has no time zone, or is before 1970 or after 9998.
    """
    if moment.tzinfo is None:
        raise ValueError("a time without a time zone")
    if not _EARLIEST <= moment < _LATEST:
        raise ValueError("a time before 1970 or after 9998")
    return moment
