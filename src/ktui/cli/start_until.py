"""The option --until: when nothing more is to be under way."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import click

from ktui.cli.errors import BadInput

OPTION = "--until"
_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")
_FIX = "Give a time such as 15:00, or a date with it: 2026-11-21T15:00, 2026-11-21T15:00+01:00"

until_option = click.option(
    OPTION,
    metavar="TIME",
    help="Submit no step that is not expected to end by then: 15:00, or a date and time as ISO "
    "8601 has them; local unless an offset stands with it.",
)


def given_until(text: str | None, now: datetime) -> datetime | None:
    """Read the time; None where none was given.

    Args:
        text: `15:00` is the next such time.
        now: aware.

    Raises:
        BadInput: it is no time, or has passed.
    """
    if text is None:
        return None
    until = _next(text.strip(), now) or _exact(text.strip())
    if until is None:
        raise BadInput(f"{OPTION} {text!r}: is no time. {_FIX}")
    if until <= now:
        raise BadInput(f"{OPTION} {text}: that has passed. {_FIX}")
    return until


def _next(text: str, now: datetime) -> datetime | None:
    """Give the next moment at which local clocks show this."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    hour, minute, second = (int(part or 0) for part in match.groups())
    local = now.astimezone().replace(tzinfo=None)  # without an offset: it may change tonight
    today = local.replace(hour=hour, minute=minute, second=second, microsecond=0)
    return (today if today > local else today + timedelta(days=1)).astimezone()


def _exact(text: str) -> datetime | None:
    if "T" not in text.upper() and " " not in text:
        return None  # a date alone is the midnight that it begins with: hardly meant
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return None
