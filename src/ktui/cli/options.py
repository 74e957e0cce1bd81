"""The options that every verb on a cluster takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_CLUSTER_OPTIONS = (
    click.option(
        "--bootstrap-server",
        metavar="HOST:PORT,...",
        help="Brokers to connect to first; else $KTUI_BOOTSTRAP_SERVER.",
    ),
    click.option(
        "--command-config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A client properties file, in Java's or librdkafka's names.",
    ),
    click.option(
        "--context",
        metavar="NAME",
        help="A cluster of your config.yaml; else $KTUI_CONTEXT.",
    ),
)


def cluster_options(function: F) -> F:
    """Add the options that name a cluster: bootstrap_server, command_config and context."""
    for option in reversed(_CLUSTER_OPTIONS):
        function = option(function)
    return function


json_option = click.option("--json", is_flag=True, help="One JSON object on standard output.")


def topics_option(purpose: str) -> Callable[[F], F]:
    """Add --topic, which may be repeated."""
    return click.option("--topic", "topics", metavar="T", multiple=True, help=purpose)
