"""JSON as text for people and programs: times in UTC, and nothing that drives a terminal."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec


def utc(moment: datetime) -> str:
    """Format a moment as ISO 8601 in UTC, to the millisecond."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def encode(value: Any) -> str:
    """Return a value as JSON, indented for readers."""
    return shown_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def shown_json(text: str) -> str:
    r"""Escape characters that could drive or deceive a terminal, in JSON's notation: `\u202e`.

    JSON itself must escape only the first 32 characters. Parsed values stay the same.
    """
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
