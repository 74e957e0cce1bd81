"""The options that throttle the copying of a run."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from ktui.cli.context.config import Context
from ktui.cli.context.errors import BadInput
from ktui.cli.context.option import Grouped, add_option
from ktui.cli.options.outward import NONE, resolved_command
from ktui.execution.run.options import OnForeignThrottle, RunOptions
from ktui.planning.throttle_rates import (
    NO_THROTTLE,
    Objective,
    ObjectiveProblem,
    ThrottleProblem,
    ThrottleRates,
    parse_objective,
    parse_throttle_rates,
)

THROTTLE, BUDGET, SLO = "--throttle", "--budget", "--slo"
CANARY, SLI_COMMAND, SLI_PROMETHEUS = "--canary", "--sli-command", "--sli-prometheus"
LEADERS, FOREIGN = "--throttle-leaders", "--on-foreign-throttle"

_OPTIONS = (
    add_option(
        f"{THROTTLE} RATE",
        "Bytes a second that each broker may receive for replicas being added: 50MB, or "
        "50MB,3=20MB with another rate for broker 3, or none. Default: the context's throttle.",
    ),
    add_option(
        f"{BUDGET} RATE",
        "Bytes a second that all brokers together may receive for them: those that receive "
        "copies share it. With --throttle, the lower of the two applies. none: no budget.",
    ),
    add_option(
        f"{SLO} OBJECTIVE",
        "Copy as fast as this allows: p99<150ms, with the figure of --canary, --sli-command "
        "or --sli-prometheus, every 10 s. The other rates stay the maximum. none: no objective.",
    ),
    add_option(
        CANARY,
        "The figure of --slo is each broker's produce latency, by 20 records a second "
        "and broker into a topic ktui-canary-RUN, which the run makes and deletes.",
    ),
    add_option(
        f"{SLI_COMMAND} CMD",
        "The figure of --slo is the number in the last line that CMD prints, in the unit of "
        "the objective. CMD runs without a shell, and is killed after 8 s.",
    ),
    add_option(
        f"{SLI_PROMETHEUS} URL QUERY",
        "The figure of --slo is the highest value of QUERY, by the Prometheus at URL.",
        nargs=2,
    ),
    add_option(
        FOREIGN,
        "When someone else sets another rate on a broker: hold adds no more replicas to it, "
        "go-on continues under their rate.",
        default=OnForeignThrottle.HOLD,
        show_default=True,
    ),
    add_option(LEADERS, "Also throttle what leaders send to new replicas."),
)


class ThrottleOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The throttle options of a command line."""

    rates: ThrottleRates | None = None  # None without --throttle, --budget and --slo
    leaders: bool = False
    on_foreign: OnForeignThrottle = OnForeignThrottle.HOLD
    sli_command: str = ""
    sli_prometheus: tuple[str, ...] = ()
    canary: bool = False


def parse_rates_option(place: str, text: str) -> ThrottleRates:
    """Read rates such as "50MB,3=20MB", or "none"."""
    try:
        return parse_throttle_rates(text)
    except ThrottleProblem as problem:
        raise BadInput(f"{place}: {problem}") from None


def parse_budget_option(text: str) -> int | None:
    """Read the budget; None for `none`."""
    if any(sign in text for sign in ",="):
        raise BadInput(f"{BUDGET}: {text!r} is not one rate. Use a rate such as 400MB, or none")
    return parse_rates_option(BUDGET, text).every


def parse_objective_option(text: str) -> Objective | None:
    """Read the objective; None for `none`."""
    if text.strip() == NONE:
        return None
    try:
        return parse_objective(text)
    except ObjectiveProblem as problem:
        raise BadInput(f"{SLO}: {problem}") from None


def _throttle_options(  # noqa: PLR0913 - one for each option
    *,
    throttle: str | None,
    budget: str | None,
    slo: str | None,
    canary: bool,
    sli_command: str | None,
    sli_prometheus: tuple[str, str] | None,
    on_foreign_throttle: OnForeignThrottle,
    throttle_leaders: bool,
) -> ThrottleOptions:
    rates = None if throttle is None else parse_rates_option(THROTTLE, throttle)
    if budget is not None:
        total = parse_budget_option(budget)
        rates = msgspec.structs.replace(rates or NO_THROTTLE, budget=total)
    if slo is not None:
        objective = parse_objective_option(slo)
        rates = msgspec.structs.replace(rates or NO_THROTTLE, objective=objective)
    command, query = _figure(sli_command, sli_prometheus, canary=canary)
    return ThrottleOptions(
        rates=rates,
        leaders=throttle_leaders,
        on_foreign=on_foreign_throttle,
        sli_command=command,
        sli_prometheus=query,
        canary=canary,
    )


def _figure(
    command: str | None, prometheus: tuple[str, str] | None, *, canary: bool
) -> tuple[str, tuple[str, ...]]:
    given = {CANARY: canary, SLI_COMMAND: command, SLI_PROMETHEUS: prometheus}
    named = [option for option, value in given.items() if value]
    if len(named) > 1:
        raise BadInput(f"{' and '.join(named)} name the same figure. Give one of them")
    if prometheus is not None:
        url, query = prometheus
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise BadInput(f"{SLI_PROMETHEUS} {url}: is not a URL such as http://prometheus:9090")
        if not query.strip():
            raise BadInput(f"{SLI_PROMETHEUS}: the query is empty")
        return "", (url, query)
    return resolved_command(SLI_COMMAND, command or NONE), ()


throttle_options = Grouped("throttle", _throttle_options, *_OPTIONS)


def with_throttle(options: RunOptions, given: ThrottleOptions, context: Context) -> RunOptions:
    """Add a throttle to the options of a run: that of the options, else the context's."""
    rates = given.rates
    if rates is None:
        of_context = context.throttle
        rates = NO_THROTTLE if of_context is None else parse_throttle_rates(str(of_context))
    if given.leaders and not rates:
        raise BadInput(f"{LEADERS}: leaders have no rate to throttle to. Give {THROTTLE} RATE")
    named = given.sli_command or given.sli_prometheus
    options = msgspec.structs.replace(
        options,
        sli_command=given.sli_command,
        sli_prometheus=given.sli_prometheus,
        canary=given.canary or (context.canary and not named),
    )
    if (problem := options.figure_problem(rates.objective)) is not None:
        raise BadInput(f"{SLO}: {problem}")
    return msgspec.structs.replace(
        options,
        throttle=rates,
        throttle_leaders=given.leaders,
        on_foreign_throttle=given.on_foreign,
    )
