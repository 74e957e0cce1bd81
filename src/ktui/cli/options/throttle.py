"""The options that limit a run: how many moves at once, and how fast they copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ktui.cli.context.config import Context
from ktui.cli.context.option import Grouped, add_option
from ktui.cli.context.terminal import BadInput
from ktui.cli.options.common import brokers_option, find_on_brokers
from ktui.cli.options.outward import NONE, resolved_command
from ktui.execution.journal.commands import SetLimits
from ktui.execution.run.options import OnForeignThrottle, RunOptions
from ktui.execution.run.run import Run
from ktui.pacing.limits import (
    CHOICES,
    INTERNAL,
    MEANINGS,
    NUMBERS,
    OF_ONE_BROKER,
    PACE,
    PACES,
    Limit,
    Limits,
    LimitsProblem,
    Mode,
    Shape,
    default_limits,
    limit_text,
    parse_limits,
)
from ktui.planning.throttle_rates import (
    NO_THROTTLE,
    Objective,
    ObjectiveProblem,
    ThrottleProblem,
    ThrottleRates,
    parse_objective,
    parse_throttle_rates,
)

GivenLimits = dict[str, int | str | None]
"""The limits that options name, by option, as they were given: `none` lifts a limit."""


def _help(limit: Limit) -> str:
    gentle = " Gentle only." if limit.gentle_only else ""
    default = f" Default: {limit.default}." if limit.default else ""
    return f"{limit.meaning[0].upper()}{limit.meaning[1:]}.{gentle}{default}"


_HELP = {
    PACE: "R, V, W and K by one word; what you name as well counts. quiet: less at a time than "
    "balanced, the default. fast: more.",
    **{option: _help(limit) for option, limit in NUMBERS.items()},
    "shape": f"gentle (default): {MEANINGS[Shape.GENTLE]}. kip-435: {MEANINGS[Shape.KIP_435]}.",
    "mode": f"rolling (default): {MEANINGS[Mode.ROLLING]}. wave: {MEANINGS[Mode.WAVE]}.",
    "order": "The order in which partitions begin. long-first (gentle's default): those that take "
    "long, then by topic. topic: kip-435's default.",
    INTERNAL: "When the partitions of Kafka's own topics begin, one of whose leaders moves at a "
    "time: first, last (default), or none to treat them like all others. Gentle only.",
}
EXCLUDE = "exclude"  # the word with which a new run leaves out Kafka's own topics


def _without_default(words: str) -> str:
    return words.replace(" (default)", "").partition(" Default: ")[0]


def _metavar(name: str) -> str:
    if name == PACE:
        return "|".join(PACES)
    if name in CHOICES:
        return "|".join(CHOICES[name])
    return "SIZE|none" if NUMBERS[name].in_bytes else f"{NUMBERS[name].letter}|none"


def _named_limits(**values: str | None) -> GivenLimits:
    return {name.replace("_", "-"): value for name, value in values.items() if value is not None}


def _limits_options(
    purposes: Mapping[str, str], metavar: Callable[[str], str] = _metavar
) -> Grouped:
    options = (add_option(f"--{name} {metavar(name)}", each) for name, each in purposes.items())
    return Grouped("limits", _named_limits, *options)


new_run_limits_options = _limits_options(
    {**_HELP, INTERNAL: f"{_HELP[INTERNAL]} {EXCLUDE}: leave them out of the run."},
    lambda name: f"{_metavar(name)}|{EXCLUDE}" if name == INTERNAL else _metavar(name),
)
"""Adds one option for each limit, and passes those given as `limits`, unchecked, by option.

They may have the word `exclude`, which `new_run_limits` takes out.
"""


def new_run_limits(given: GivenLimits) -> tuple[GivenLimits, bool]:
    """Return the limits of a new run, and whether it leaves out Kafka's own topics."""
    excludes = given.get(INTERNAL) == EXCLUDE
    limits = {name: value for name, value in given.items() if not (excludes and name == INTERNAL)}
    check_limits(limits)
    return limits, excludes


limit_changes = _limits_options({name: _without_default(words) for name, words in _HELP.items()})
"""Adds the same options for a run that has limits: what is not named keeps its value."""

limits_brokers_option = brokers_option(
    "Set B, S or W of this broker alone, for what is copied to it or from it; run lifts its own. "
    "May be repeated."
)


def limits_change(run: Run, given: GivenLimits, brokers: Sequence[int]) -> SetLimits:
    """Return the command that changes limits of a run, or of some of its brokers alone."""
    change = SetLimits({}, dict.fromkeys(brokers, given)) if brokers else SetLimits(given)
    if brokers and not given:
        names = ", ".join(f"--{option}" for option in OF_ONE_BROKER)
        raise BadInput(f"--broker: no limit is named. Give one or more of {names} with it")
    known = {each.broker for each in run.limits.brokers}
    for broker in brokers:
        if broker not in known:
            find_on_brokers(run, (broker,), ever=True)
    try:
        change.applied_to(run.limits)
    except LimitsProblem as problem:
        raise BadInput(str(problem)) from problem
    return change


def check_limits(given: Mapping[str, object], others: Limits | None = None) -> Limits:
    """Check limits that options name, and return them with the others."""
    try:
        return parse_limits(given, others)
    except LimitsProblem as problem:
        raise BadInput(str(problem)) from problem


def unnamed_limits(of_context: Mapping[str, object], named: Mapping[str, object]) -> Limits:
    """Return the limits beside those named: the context's, then defaults, which depend on them."""
    return parse_limits(of_context, default_limits({**of_context, **named}))


def complete_limits(of_context: Mapping[str, object], given: Mapping[str, object]) -> Limits:
    """Return the limits of the options, completed by the context's and then by the defaults."""
    return check_limits(given, unnamed_limits(of_context, given))


def limits_beyond_context(limits: Limits, of_context: Mapping[str, object]) -> dict[str, str]:
    """Return the options by which a new run gets these limits, but those of single brokers."""
    wanted = msgspec.structs.replace(limits, brokers=())
    values = {
        option: limit_text(option, getattr(limits, option.replace("-", "_")))
        for option in (*NUMBERS, *CHOICES)
    }
    for option in tuple(values):
        fewer = {name: value for name, value in values.items() if name != option}
        with suppress(BadInput):
            if complete_limits(of_context, fewer) == wanted:
                values = fewer
    return values


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
    throttle_leaders: bool = False
    on_foreign_throttle: OnForeignThrottle = OnForeignThrottle.HOLD
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


def _throttle_options(
    *,
    throttle: str | None,
    budget: str | None,
    slo: str | None,
    canary: bool,
    sli_command: str | None,
    sli_prometheus: tuple[str, str] | None,
    **others: Any,
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
        rates=rates, sli_command=command, sli_prometheus=query, canary=canary, **others
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
    if given.throttle_leaders and not rates:
        raise BadInput(f"{LEADERS}: leaders have no rate to throttle to. Give {THROTTLE} RATE")
    named = given.sli_command or given.sli_prometheus
    options = msgspec.structs.replace(
        options,
        throttle=rates,
        throttle_leaders=given.throttle_leaders,
        on_foreign_throttle=given.on_foreign_throttle,
        sli_command=given.sli_command,
        sli_prometheus=given.sli_prometheus,
        canary=given.canary or (context.canary and not named),
    )
    if (problem := options.figure_problem(rates.objective)) is not None:
        raise BadInput(f"{SLO}: {problem}")
    return options
