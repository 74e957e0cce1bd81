"""The options of every verb on a cluster."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ktui.cli.context.errors import BadInput
from ktui.cluster.partition import TopicPartition
from ktui.execution.host.state_dir import STATE_DIR, StateDir, resolve_state_dir
from ktui.execution.run.run import Run
from ktui.planning.names import closest_names, join_some, shortened


def check_scope(run: Run, topics: Sequence[str], partitions: Sequence[TopicPartition]) -> None:
    """Check that a run has all these topics and partitions.

    Raises:
        BadInput: some are missing; names each of them, and the topic that was probably meant.
    """
    known = {tp.topic for tp in run.tracks}
    unknown = dict.fromkeys([*topics, *(tp.topic for tp in partitions)])
    missing = [_unknown_topic(topic, known) for topic in unknown if topic not in known]
    missing += [
        f"partition {tp.partition} of topic {tp.topic}"
        for tp in dict.fromkeys(partitions)
        if tp.topic in known and tp not in run.tracks
    ]
    if missing:
        raise BadInput(f"run {run.name} does not have {join_some(missing, told=10)}")


def _unknown_topic(topic: str, known: set[str]) -> str:
    near = closest_names(topic, known)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"topic {shortened(topic)!r}{hint}"


F = TypeVar("F", bound=Callable[..., Any])

_CLUSTER_OPTIONS = (
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


def cluster_options(function: F) -> F:
    """Add the options that name a cluster: bootstrap_server, command_config and context."""
    for option in reversed(_CLUSTER_OPTIONS):
        function = option(function)
    return function


def _state_dir(_context: click.Context, _option: click.Parameter, folder: str | None) -> StateDir:
    state = resolve_state_dir(folder)
    if state.of_another is not None:
        click.echo(f"ktui: {state.of_another}", err=True)
    return state


state_dir_option = click.option(
    "--state-dir",
    "state",
    type=click.Path(file_okay=False),
    metavar="DIR",
    callback=_state_dir,
    help=f"Folder that keeps the runs, on a local disk. Default: ${STATE_DIR}, else the platform's "
    "folder for state.",
)
"""Passes a StateDir as `state`."""


def state_option(state: StateDir) -> str:
    """Return the --state-dir of a suggested command; empty for the default state directory."""
    return (
        "" if state == resolve_state_dir(None) else f" --state-dir {shlex.quote(str(state.path))}"
    )


json_option = click.option("--json", is_flag=True, help="Print one JSON object on standard output.")


run_argument = click.argument("name", metavar="RUN")


def topics_option(purpose: str) -> Callable[[F], F]:
    """Add --topic, which may be repeated, as `topics`."""
    return click.option("--topic", "topics", metavar="T", multiple=True, help=purpose)


def partitions_option(purpose: str) -> Callable[[F], F]:
    """Add --partition, which may be repeated, as `partitions`, each a TopicPartition."""
    return click.option(
        "--partition",
        "partitions",
        metavar="T:P",
        multiple=True,
        callback=_partitions,
        help=purpose,
    )


def _partitions(
    _context: click.Context, _option: click.Parameter, texts: tuple[str, ...]
) -> tuple[TopicPartition, ...]:
    return tuple(map(_partition, texts))


def _partition(text: str) -> TopicPartition:
    match = re.fullmatch(r"(.+):([0-9]{1,9})", text)
    if match is None:
        raise click.UsageError(f"--partition {text!r}: expected TOPIC:NUMBER, such as orders:3.")
    return TopicPartition(match[1], int(match[2]))
