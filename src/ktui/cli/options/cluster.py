"""The options that name a cluster, for the verbs that connect to one."""

from __future__ import annotations

from pathlib import Path

import click

from ktui.cli.context.cluster import ClusterChoice, ControllerChoice
from ktui.cli.context.config import load_config
from ktui.cli.context.option import Grouped, add_option


def complete_context(_context: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    """Return the contexts of config.yaml whose names begin so, for a shell."""
    return [name for name in load_config().contexts if name.startswith(begun)]


cluster_options = Grouped(
    "choice",
    ClusterChoice,
    add_option(
        "--bootstrap-server HOST:PORT,...",
        "Brokers to connect to first. Default: $KTUI_BOOTSTRAP_SERVER.",
    ),
    add_option(
        "--command-config FILE",
        "Client properties file, with Java's or librdkafka's property names.",
        type=click.Path(path_type=Path),
    ),
    add_option(
        "--context NAME",
        "A cluster from your config.yaml. Default: $KTUI_CONTEXT.",
        shell_complete=complete_context,
    ),
)

controller_options = Grouped(
    "controllers",
    ControllerChoice,
    add_option(
        "--bootstrap-controller HOST:PORT,...",
        "Controllers, through which settings of a broker that is down are deleted. Default: "
        "those that the brokers name.",
    ),
    add_option(
        "--controller-config FILE",
        "Client properties file for them. Default: the brokers' connection settings.",
        type=click.Path(path_type=Path),
    ),
)
