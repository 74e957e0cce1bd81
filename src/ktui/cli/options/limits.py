"""The options that limit how many moves run at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from ktui.cli.context.errors import BadInput
from ktui.pacing.limits import CHOICES, Limits, LimitsProblem, default_limits, parse_limits
from ktui.planning.check.findings import ClusterSnapshot

F = TypeVar("F", bound=Callable[..., Any])

_COUNTS = {
    "replicas": ("R", "Replicas of one partition being added at once. Default: 1."),
    "partitions": ("P", "Partitions begun but not ended. Default: one for each live broker."),
    "leader-movements": ("L", "Leader movements under way at once."),
    "replica-movements": ("M", "Replicas being added at once in the whole cluster."),
    "per-broker": ("B", "Replicas being added at once on one broker."),
    "extra-replicas": ("E", "Replicas that a partition may have beyond its final number."),
    "cut-together": ("C", "Partitions whose old replicas are removed together. Default: P."),
}
_CHOICES = {
    "shape": "gentle (default): add all new replicas, then remove the old ones together. "
    "kip-435: add and remove in turns.",
    "mode": "rolling (default): begin a partition as soon as there is room. "
    "wave: begin the next ones when all have ended.",
    "order": "The order in which partitions begin. Default: topic.",
}


def limits_options(function: F) -> F:
    """Add one option for each limit. `none` lifts a limit; an absent option is None."""
    for name, purpose in reversed(_CHOICES.items()):
        choices = "|".join(choice.value for choice in CHOICES[name])
        function = click.option(f"--{name}", metavar=choices, help=purpose)(function)
    for name, (letter, purpose) in reversed(_COUNTS.items()):
        function = click.option(f"--{name}", metavar=f"{letter}|none", help=purpose)(function)
    return function


def parse_limit_options(values: Mapping[str, str | None]) -> Mapping[str, object]:
    """Return the limits that the options name, by option, after a check of their values.

    Raises:
        BadInput: a value cannot be used; names the option and the fix.
    """
    given = {name.replace("_", "-"): value for name, value in values.items() if value is not None}
    try:
        parse_limits(given)
    except LimitsProblem as problem:
        raise BadInput(str(problem)) from problem
    return given


def complete_limits(
    cluster: ClusterSnapshot, of_context: Mapping[str, object], given: Mapping[str, object]
) -> Limits:
    """Return the limits of the options, completed by the context's and then by the defaults.

    Args:
        cluster: the default limits depend on its number of live brokers.
        of_context: the context's limits, checked when the config file was read.
        given: the limits by option, from `parse_limit_options`.

    Raises:
        BadInput: an option contradicts a limit of the context.
    """
    try:
        return parse_limits(given, parse_limits(of_context, default_limits(len(cluster.online))))
    except LimitsProblem as problem:
        raise BadInput(str(problem)) from problem
