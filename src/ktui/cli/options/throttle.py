"""The options that throttle what a run copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from ktui.cli.context.errors import BadInput
from ktui.execution.run.options import OnForeignThrottle, RunOptions
from ktui.planning.throttle_rates import (
    NO_THROTTLE,
    ThrottleProblem,
    ThrottleRates,
    parse_throttle_rates,
)

F = TypeVar("F", bound=Callable[..., Any])

THROTTLE, LEADERS, FOREIGN = "--throttle", "--throttle-leaders", "--on-foreign-throttle"

_OPTIONS = (
    click.option(
        THROTTLE,
        metavar="RATE",
        help="What each broker may take in of the replicas being added: 50MB a second, "
        "50MB,3=20MB with another rate for broker 3, or none. Else the context's throttle.",
    ),
    click.option(
        FOREIGN,
        type=click.Choice([each.value for each in OnForeignThrottle]),
        default=OnForeignThrottle.HOLD.value,
        show_default=True,
        help="When somebody else sets another rate on a broker: add nothing more to it, or go on.",
    ),
    click.option(LEADERS, is_flag=True, help="Throttle also what leaders send to new replicas."),
)


class GivenThrottle(msgspec.Struct, frozen=True):
    """What the options say."""

    rates: ThrottleRates | None = None
    """None where no rate was given."""
    leaders: bool = False
    on_foreign: OnForeignThrottle = OnForeignThrottle.HOLD


def throttle_options(function: F) -> F:
    """Add the options that `given_throttle` takes."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def given_rates(place: str, text: str) -> ThrottleRates:
    """Read rates.

    Args:
        place: the option or argument, named where it cannot be used.
        text: "50MB,3=20MB", or "none".

    Raises:
        BadInput: it is no rate; names the place and the fix.
    """
    try:
        return parse_throttle_rates(text)
    except ThrottleProblem as problem:
        raise BadInput(f"{place}: {problem}") from None


def given_throttle(values: dict[str, Any]) -> GivenThrottle:
    """Take the options out of all that were given.

    Raises:
        BadInput: the rate is none.
    """
    text: str | None = values.pop("throttle")
    rates = None if text is None else given_rates(THROTTLE, text)
    on_foreign = OnForeignThrottle(values.pop("on_foreign_throttle"))
    return GivenThrottle(rates, values.pop("throttle_leaders"), on_foreign)


def throttled(
    options: RunOptions, given: GivenThrottle, of_context: str | int | None
) -> RunOptions:
    """Put a throttle to the options of a run: the one given, else the context's.

    Args:
        options: all others.
        given: as `given_throttle` gives it.
        of_context: it was checked when it was read.

    Raises:
        BadInput: leaders are to be throttled, and there is no rate for them.
    """
    rates = given.rates
    if rates is None:
        rates = NO_THROTTLE if of_context is None else parse_throttle_rates(str(of_context))
    if given.leaders and not rates:
        raise BadInput(f"{LEADERS}: there is no rate to throttle them to. Give {THROTTLE} RATE")
    return msgspec.structs.replace(
        options,
        throttle=rates,
        throttle_leaders=given.leaders,
        on_foreign_throttle=given.on_foreign,
    )
