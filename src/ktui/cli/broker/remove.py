"""`ktui broker remove`: the whole way out of a broker, and the way back."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import click
import msgspec

from ktui.cli.broker.plans import read_plan_layout
from ktui.cli.broker.read import broker_argument, exclude_option
from ktui.cli.broker.removal_preview import RemovalPreview
from ktui.cli.broker.removal_request import (
    RemovalRequest,
    RemoveOptions,
    Stopped,
    read_cluster,
)
from ktui.cli.broker.removing import Removing, is_removed, standing
from ktui.cli.broker.removing_undo import UndoRemoval
from ktui.cli.context.cluster import ClusterChoice, warn_of_tls
from ktui.cli.context.errors import BAD_INPUT, BadInput
from ktui.cli.context.terminal import can_ask, print_note
from ktui.cli.options.cluster import cluster_options
from ktui.cli.options.common import Verb, grouped
from ktui.cli.options.plan import allowance_options
from ktui.cli.options.run import MADE_BY_KTUI
from ktui.cli.plan.make_options import EXCLUDE, rack_aware_option
from ktui.cli.plan.wanted import check_names
from ktui.cli.start.follow import NOT_ALL_DONE
from ktui.cli.start.options import StartOptions, start_options
from ktui.execution.broker.removal import RemovalFile
from ktui.execution.broker.status import unknown_broker
from ktui.planning.check.findings import Allowances

_OPTIONS: dict[str, Callable[[Verb[Any]], Verb[Any]]] = {
    "no_demote": click.option(
        "--no-demote", is_flag=True, help="Do not take the leadership off the broker first."
    ),
    "skip_cordon": click.option(
        "--skip-cordon",
        is_flag=True,
        help="Do without a cordon, which needs Kafka 4.3. What lands on the broker is drained as "
        "it comes.",
    ),
    "rack_aware": rack_aware_option,
    "exclude": exclude_option(
        "Leave these topics on the broker, such as that of a canary which somebody moves back: "
        "names or shell patterns."
    ),
    "until_empty": click.option(
        "--until-empty", is_flag=True, help="End with 0 once the broker may be stopped."
    ),
    "unregister": click.option(
        "--unregister", is_flag=True, help="Unregister the broker at the end without asking."
    ),
    "yes": click.option("--yes", is_flag=True, help="Begin without asking."),
}


def _remove_options(*, no_demote: bool, skip_cordon: bool, **others: Any) -> RemoveOptions:
    return RemoveOptions(demote=not no_demote, cordon=not skip_cordon, **others)


@click.command("remove", context_settings=MADE_BY_KTUI)
@broker_argument
@cluster_options
@click.option("--undo", is_flag=True, help="Take the removal back, from its last stage on.")
@grouped("wanted", _remove_options, _OPTIONS)
@allowance_options
@start_options
def command(
    broker: int,
    choice: ClusterChoice,
    *,
    undo: bool,
    wanted: RemoveOptions,
    allowed: Allowances,
    how: StartOptions,
) -> None:
    """Take broker ID out of the cluster: cordon, demote, drain, prove empty, stop, unregister.

    Each stage that is true already is left out. Demote and drain are ordinary runs, under limits as
    of `ktui start`; `ktui status`, `limits`, `pause` and `cancel` work on them. You stop the broker
    yourself, once ktui says so. Interrupted or killed at any moment, the same command goes on.
    --undo takes all of it back, as long as the broker is registered.

    Exit code 0 when the broker is removed, or may be stopped with --until-empty; 3 when it waits
    for you; 1 when something failed or is not known; 2 when nothing was sent; 130 when it was left.
    """
    request = _read_request(broker, choice, wanted, allowed, how)
    _check_excluded(request)
    try:
        if how.dry_run:
            _preview(request, undo=undo)
            return
        with request.file.locked():
            if undo:
                sys.exit(0 if UndoRemoval(request).go_on() else NOT_ALL_DONE)
            if not is_removed(request):
                _confirm(request)
                Removing(request).go_on()
    except KeyboardInterrupt:
        print_note(f"interrupted. To go on: {request.again}; to take all back, add --undo")
        raise
    except Stopped as stopped:
        if str(stopped):
            print_note(str(stopped))
        sys.exit(stopped.code)


def _read_request(
    broker: int,
    choice: ClusterChoice,
    options: RemoveOptions,
    allowed: Allowances,
    how: StartOptions,
) -> RemovalRequest:
    """Read the cluster, and check that it knows the broker or a removal of it.

    Raises:
        BadInput: it does not.
        ClusterError: the cluster cannot be read.
    """
    target = choice.target(changes=not how.dry_run)
    warn_of_tls(target.cluster)
    cluster = asyncio.run(read_cluster(target))
    file = RemovalFile(how.state, cluster.cluster_id, broker)
    if broker not in cluster.brokers and cluster.reports_fenced and file.load() is None:
        raise BadInput(unknown_broker(broker, cluster.brokers))
    return RemovalRequest(
        broker=broker,
        target=target,
        how=msgspec.structs.replace(how, headless=True),
        options=options,
        allowed=allowed,
        file=file,
        cluster=cluster,
    )


def _check_excluded(request: RemovalRequest) -> None:
    """Check that --exclude matches topics: a mistyped one would be moved.

    Raises:
        BadInput: a name or pattern matches none; names the closest topics.
        ClusterError: the topics cannot be read.
    """
    if request.options.exclude:
        check_names(EXCLUDE, request.options.exclude, read_plan_layout(request.target.cluster))


def _preview(request: RemovalRequest, *, undo: bool) -> None:
    if undo:
        UndoRemoval(request).preview()
        return
    if is_removed(request):
        return
    preview = RemovalPreview(request)
    for line in preview.lines():
        click.echo(line)
    click.echo("nothing was sent")
    if preview.problems:
        sys.exit(BAD_INPUT)


def _confirm(request: RemovalRequest) -> None:
    """Show a new removal and ask for it, where there is somebody to ask.

    Raises:
        Stopped: the operator does not want it.
    """
    if request.options.yes or not can_ask() or standing(request) is not None:
        return
    for line in RemovalPreview(request).lines():
        click.echo(line)
    if not click.confirm(f"Remove broker {request.broker}?"):
        raise Stopped(BAD_INPUT, "nothing was sent")
