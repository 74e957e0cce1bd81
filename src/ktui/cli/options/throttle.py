"""The options that throttle the copying of a run."""

from __future__ import annotations

import click
import msgspec

from ktui.cli.context.errors import BadInput
from ktui.cli.options.common import grouped
from ktui.execution.run.options import OnForeignThrottle, RunOptions
from ktui.planning.throttle_rates import (
    NO_THROTTLE,
    ThrottleProblem,
    ThrottleRates,
    parse_throttle_rates,
)

THROTTLE, BUDGET = "--throttle", "--budget"
LEADERS, FOREIGN = "--throttle-leaders", "--on-foreign-throttle"

_OPTIONS = {
    "throttle": click.option(
        THROTTLE,
        metavar="RATE",
        help="Bytes a second that each broker may receive for replicas being added: 50MB, or "
        "50MB,3=20MB with another rate for broker 3, or none. Default: the context's throttle.",
    ),
    "budget": click.option(
        BUDGET,
        metavar="RATE",
        help="Bytes a second that all brokers together may receive for them: those that receive "
        "copies share it. Beside --throttle, the lower of the two holds. none: no such limit.",
    ),
    "on_foreign_throttle": click.option(
        FOREIGN,
        type=click.Choice([each.value for each in OnForeignThrottle]),
        default=OnForeignThrottle.HOLD.value,
        show_default=True,
        help="When someone else sets another rate on a broker: hold adds no more replicas to it, "
        "go-on continues under their rate.",
    ),
    "throttle_leaders": click.option(
        LEADERS, is_flag=True, help="Also throttle what leaders send to new replicas."
    ),
}


class ThrottleOptions(msgspec.Struct, frozen=True):
    """The throttle options of a command line."""

    rates: ThrottleRates | None = None
    """None without --throttle and --budget."""
    leaders: bool = False
    on_foreign: OnForeignThrottle = OnForeignThrottle.HOLD


def parse_rates_option(place: str, text: str) -> ThrottleRates:
    """Read rates.

    Args:
        place: the option or argument, for the error message.
        text: "50MB,3=20MB", or "none".

    Raises:
        BadInput: the text is not a rate; names the place and the fix.
    """
    try:
        return parse_throttle_rates(text)
    except ThrottleProblem as problem:
        raise BadInput(f"{place}: {problem}") from None


def parse_budget_option(text: str) -> int | None:
    """Read the budget; None for `none`.

    Raises:
        BadInput: the text is not a rate.
    """
    if any(sign in text for sign in ",="):
        raise BadInput(f"{BUDGET}: {text!r} is not one rate. Use a rate such as 400MB, or none")
    return parse_rates_option(BUDGET, text).every


def _throttle_options(
    *, throttle: str | None, budget: str | None, on_foreign_throttle: str, throttle_leaders: bool
) -> ThrottleOptions:
    """Read the throttle options.

    Raises:
        BadInput: --throttle or --budget is not a rate.
    """
    rates = None if throttle is None else parse_rates_option(THROTTLE, throttle)
    if budget is not None:
        total = parse_budget_option(budget)
        rates = msgspec.structs.replace(rates or NO_THROTTLE, budget=total)
    return ThrottleOptions(rates, throttle_leaders, OnForeignThrottle(on_foreign_throttle))


throttle_options = grouped("throttle", _throttle_options, _OPTIONS)
"""Adds the throttle options; passes them as `throttle`, a `ThrottleOptions`."""


def with_throttle(
    options: RunOptions, given: ThrottleOptions, of_context: str | int | None
) -> RunOptions:
    """Add a throttle to the options of a run: that of the options, else the context's.

    Args:
        options: the run's other options.
        given: the throttle options, from the command line.
        of_context: the context's throttle, checked when the config file was read.

    Raises:
        BadInput: leaders are to be throttled without a rate.
    """
    rates = given.rates
    if rates is None:
        rates = NO_THROTTLE if of_context is None else parse_throttle_rates(str(of_context))
    if given.leaders and not rates:
        raise BadInput(f"{LEADERS}: leaders have no rate to throttle to. Give {THROTTLE} RATE")
    return msgspec.structs.replace(
        options,
        throttle=rates,
        throttle_leaders=given.leaders,
        on_foreign_throttle=given.on_foreign,
    )
