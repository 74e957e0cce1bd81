"""Decode untrusted JSON: every defect raises the same kind of error."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeVar

import msgspec

T = TypeVar("T")

_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(9999, 1, 1, tzinfo=UTC)
"""Moments outside this range cannot be shown in every time zone."""


def decode_untrusted(decoder: msgspec.json.Decoder[T], text: bytes) -> T:
    """Decode JSON.

    Raises:
        msgspec.DecodeError: the text does not fit the decoder's type, is not UTF-8, or is nested
            too deep.
    """
    try:
        return decoder.decode(text)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"not UTF-8: {error.reason}") from None
    except RecursionError:
        raise msgspec.DecodeError("nested too deep") from None


def checked_moment(moment: datetime) -> datetime:
    """Return the moment unchanged, if it can be shown in every time zone.

    Raises:
        ValueError: the moment has no time zone, or is before 1970 or after 9998.
    """
    if moment.tzinfo is None:
        raise ValueError("a time without a time zone")
    if not _EARLIEST <= moment < _LATEST:
        raise ValueError("a time before 1970 or after 9998")
    return moment
