"""The option that says how fast replicas are copied, for estimated times."""

from __future__ import annotations

import click

from ktui.cli.errors import BadInput
from ktui.units import Rate, read

OPTION = "--assume-rate"

assume_rate_option = click.option(
    OPTION,
    metavar="RATE",
    help="What goes into each broker, as 80MB/s, for estimated times; else its follower throttle, "
    "else 20 to 100 MB/s.",
)


def given_rate(text: str | None) -> Rate | None:
    """Read the rate; None where none was given.

    Raises:
        BadInput: it is none, or nothing a second.
    """
    if text is None:
        return None
    try:
        rate: Rate = read(Rate, int(text) if text.isdecimal() else text)
    except ValueError as error:
        raise BadInput(f"{OPTION}: {error}") from error
    if rate < 1:
        raise BadInput(f"{OPTION}: {text} would never copy anything. Give a rate such as 50MB/s")
    return rate
