"""The options that limit how much moves at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from ktui.cli.context.errors import BadInput
from ktui.pacing.limits import CHOICES, Limits, LimitsProblem, default_limits, parse_limits
from ktui.planning.check.findings import ClusterSnapshot

F = TypeVar("F", bound=Callable[..., Any])

_COUNTS = {
    "replicas": ("R", "Replicas of one partition being added at once; 1 by default."),
    "partitions": ("P", "Partitions begun and not ended; by default one for each broker."),
    "leader-movements": ("L", "Leader movements under way."),
    "replica-movements": ("M", "Replicas being added in the whole cluster."),
    "per-broker": ("B", "Replicas being added on one broker."),
    "extra-replicas": ("E", "Replicas that a partition has beyond its final number."),
    "cut-together": ("C", "Partitions whose old replicas are removed together; P by default."),
}
_CHOICES = {
    "shape": "gentle, the default: add all, then remove together. kip-435: in turns.",
    "mode": "rolling, the default: begin as soon as there is a place. wave: when all have ended.",
    "order": "Which partition begins first; by default by topic.",
}


def limits_options(function: F) -> F:
    """Add an option a limit, each of which takes `none` to lift it; None where not given."""
    for name, purpose in reversed(_CHOICES.items()):
        words = "|".join(word.value for word in CHOICES[name])
        function = click.option(f"--{name}", metavar=words, help=purpose)(function)
    for name, (letter, purpose) in reversed(_COUNTS.items()):
        function = click.option(f"--{name}", metavar=f"{letter}|none", help=purpose)(function)
    return function


def given_limits(values: Mapping[str, str | None]) -> Mapping[str, object]:
    """Give those limits that were given, by option, once they are seen to be usable.

    Raises:
        BadInput: one is not; names the option and the fix.
    """
    given = {name.replace("_", "-"): value for name, value in values.items() if value is not None}
    try:
        parse_limits(given)
    except LimitsProblem as problem:
        raise BadInput(str(problem)) from problem
    return given


def limits_for(
    cluster: ClusterSnapshot, of_context: Mapping[str, object], given: Mapping[str, object]
) -> Limits:
    """Give the options' limits; where they name none the context's, and else the usual ones.

    Args:
        cluster: its live brokers count for the usual ones.
        of_context: they were checked when they were read.
        given: by option, as `given_limits` gives them.

    Raises:
        BadInput: an option does not go with what the context says.
    """
    try:
        return parse_limits(given, parse_limits(of_context, default_limits(len(cluster.online))))
    except LimitsProblem as problem:
        raise BadInput(str(problem)) from problem
