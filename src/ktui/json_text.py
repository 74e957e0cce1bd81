"""JSON: untrusted text with one kind of error for every defect, and moments as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec


def utc(moment: datetime) -> str:
    """Format a moment as ISO 8601 in UTC, to the millisecond."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def encode(value: Any) -> str:
    """Return a value as JSON, indented for readers."""
    return shown_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def shown_json(text: str) -> str:
    r"""Escape what could drive or deceive a terminal, in JSON's notation: `\u202e`."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


T = TypeVar("T")

_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(9999, 1, 1, tzinfo=UTC)
"""Moments outside this range cannot be shown in every time zone."""


def decode_untrusted(decoder: msgspec.json.Decoder[T], text: bytes) -> T:
    """Decode JSON, with DecodeError also for what is not UTF-8, or nested too deep."""
    try:
        return decoder.decode(text)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"not UTF-8: {error.reason}") from None
    except RecursionError:
        raise msgspec.DecodeError("nested too deep") from None


def checked_moment(moment: datetime) -> datetime:
    """Return a moment that every time zone can show (with a zone, 1970 to 9998), or ValueError."""
    if moment.tzinfo is None:
        raise ValueError("a time without a time zone")
    if not _EARLIEST <= moment < _LATEST:
        raise ValueError("a time before 1970 or after 9998")
    return moment


class Dated(msgspec.Struct, frozen=True):
    """A record of which no moment is one that `checked_moment` refuses: then ValueError."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if isinstance(value := getattr(self, name), datetime):
                checked_moment(value)


def unknown_field(body: bytes, known: object) -> str | None:
    """Return the first unknown field of a JSON object, such as `options.rack`; None for none."""
    return next(_unknown(msgspec.json.decode(body), known, ""), None)


def _unknown(raw: Any, known: object, path: str) -> Iterator[str]:
    if isinstance(known, msgspec.Struct) and isinstance(raw, Mapping):
        fields = dict(zip(known.__struct_encode_fields__, known.__struct_fields__, strict=True))
        tag = known.__struct_config__.tag_field
        for name, value in raw.items():
            if name in fields:
                yield from _unknown(value, getattr(known, fields[name]), f"{path}{name}.")
            elif name != tag:
                yield f"{path}{name}"
    elif isinstance(known, Mapping) and isinstance(raw, Mapping):
        for name, value in raw.items():
            yield from _unknown(value, known.get(name), f"{path}{name}.")
    elif isinstance(known, Sequence) and isinstance(raw, list):
        for number, (value, each) in enumerate(zip(raw, known, strict=False)):
            yield from _unknown(value, each, f"{path.removesuffix('.')}[{number}].")
