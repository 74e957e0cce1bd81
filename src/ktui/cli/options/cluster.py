"""The options that name a cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from ktui.cli.context.target import ClusterChoice

R = TypeVar("R")

_OPTIONS = (
    click.option(
        "--bootstrap-server",
        metavar="HOST:PORT,...",
        help="Brokers to connect to first. Default: $KTUI_BOOTSTRAP_SERVER.",
    ),
    click.option(
        "--command-config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Client properties file, with Java's or librdkafka's property names.",
    ),
    click.option(
        "--context",
        metavar="NAME",
        help="A cluster from your config.yaml. Default: $KTUI_CONTEXT.",
    ),
)


def cluster_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add the options that name a cluster; they are passed as `choice`, a `ClusterChoice`."""

    @wraps(function)
    def with_choice(
        *,
        bootstrap_server: str | None,
        command_config: Path | None,
        context: str | None,
        **others: Any,
    ) -> R:
        choice = ClusterChoice(bootstrap_server, command_config, context)
        return function(choice=choice, **others)

    decorated: Callable[..., R] = with_choice
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
