"""The options that limit how many moves run at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from ktui.cli.context.errors import BadInput
from ktui.cli.context.option import Grouped, add_option
from ktui.cli.options.common import brokers_option, find_on_brokers
from ktui.execution.journal.commands import SetLimits
from ktui.execution.run.run import Run
from ktui.pacing.limits import (
    CHOICES,
    INTERNAL,
    NUMBERS,
    OF_ONE_BROKER,
    PACE,
    PACES,
    Limit,
    Limits,
    LimitsProblem,
    default_limits,
    limit_text,
    parse_limits,
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
    "shape": "gentle (default): add all new replicas, then remove the old ones together. "
    "kip-435: add and remove in turns.",
    "mode": "rolling (default): begin a partition as soon as there is room. "
    "wave: begin the next ones when all have ended.",
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
