"""`ktui broker remove`: the whole way out of a broker, and the way back."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from operator import not_

import click
import msgspec

from ktui.cli.broker.runs import LeftRuns, begin_run, check_broker_run
from ktui.cli.broker.status import broker_argument, exclude_option, read_plan_layout, typed_id
from ktui.cli.context.claim import check_owner, claim_request, own_cluster
from ktui.cli.context.cluster import ClusterChoice, check_same_cluster, cluster_options, warn_of_tls
from ktui.cli.context.option import Grouped, GroupedCommand, add_option
from ktui.cli.context.terminal import BAD_INPUT, NOT_ALL_DONE, BadInput, can_ask, print_note
from ktui.cli.options.common import state_option
from ktui.cli.options.plan import allowance_options
from ktui.cli.options.run import MADE_BY_KTUI
from ktui.cli.plan.make_options import EXCLUDE, check_names, rack_aware_option
from ktui.cli.start import StartOptions, start_options
from ktui.cluster.clock import SystemClock
from ktui.cluster.text import clean
from ktui.execution import RunRefused
from ktui.execution.broker.removal import RemovalFile
from ktui.execution.broker.status import unknown_broker
from ktui.execution.host.ownership import lock_starts
from ktui.ops.broker.removal import RemovalRequest, RemoveOptions, Removing, Stopped
from ktui.ops.broker.undo import RemovalPreview, UndoRemoval
from ktui.ops.start import CheckedRun
from ktui.planning.check.findings import Allowances
from ktui.planning.plan import Plan

CLAIM = "ktui broker remove"
removal_options = Grouped(
    "wanted",
    RemoveOptions,
    add_option(
        "--no-demote", "Do not take the leadership off the broker first.", "demote", reads=not_
    ),
    add_option(
        "--skip-cordon",
        "Do not cordon (a cordon needs Kafka 4.3). What lands on the broker is drained as it "
        "comes.",
        "cordon",
        reads=not_,
    ),
    add_option(
        "--cordon-first",
        "Cordon the broker before its drain on Kafka 4.4 and later, too: for clusters where "
        "topics are created all the time.",
    ),
    rack_aware_option,
    exclude_option(
        "Leave these topics on the broker, such as that of a canary which somebody moves back: "
        "names or shell patterns."
    ),
    add_option("--until-empty", "End with 0 once the broker may be stopped."),
    add_option("--unregister", "Unregister the broker at the end without asking."),
)


@click.command("remove", cls=GroupedCommand, context_settings=MADE_BY_KTUI)
@broker_argument
@cluster_options
@add_option("--undo", "Take the removal back, from its last stage on.")
@add_option("--yes", "Begin without asking.")
@removal_options
@allowance_options
@start_options
def command(
    broker: int,
    choice: ClusterChoice,
    *,
    undo: bool,
    yes: bool,
    wanted: RemoveOptions,
    allowed: Allowances,
    how: StartOptions,
) -> None:
    """Take broker ID out of the cluster: demote, drain, cordon, check, stop, unregister.

    Before Kafka 4.4, the cordon comes first. A stage that already holds is skipped. Demote and
    drain are ordinary runs, under limits as of `ktui start`; `ktui status`, `limits`, `pause` and
    `cancel` work on them. You stop the broker yourself, once ktui says so. Interrupted or killed at
    any moment, the same command goes on. --undo takes all of it back, as long as the broker is
    registered.

    Exit code 0 when the broker is removed, or may be stopped with --until-empty; 3 when it waits
    for you; 1 when something failed or is not known; 2 when nothing was sent; 130 when it was left.
    """
    request = _read_request(broker, choice, wanted, allowed, how)
    again = request.again
    try:
        if how.dry_run:
            _preview(request, undo=undo)
            return
        with request.file.locked():
            if undo:
                sys.exit(0 if _undo(request) else NOT_ALL_DONE)
            if not _is_removed(request):
                if not yes:
                    _confirm(request)
                Removing(request).go_on()
    except KeyboardInterrupt:
        print_note(f"interrupted. To go on: {again}; to take all back, add --undo")
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
    target = choice.target(changes=not how.dry_run)
    warn_of_tls(target.cluster)
    cluster = target.cluster.ask(lambda reader: reader.describe_cluster())
    file = RemovalFile(how.state, cluster.cluster_id, broker)
    if broker not in cluster.brokers and cluster.reports_fenced and file.load() is None:
        raise BadInput(unknown_broker(broker, cluster.brokers))
    if options.exclude:
        check_names(EXCLUDE, options.exclude, read_plan_layout(target.cluster))
    how, runs = msgspec.structs.replace(how, headless=True), LeftRuns.of(target, how)

    def checked(name: str, words: str, plan: Plan) -> CheckedRun:
        return check_broker_run(name, words, plan, allowed, target, how)

    @contextmanager
    def owned(cluster_id: str) -> Iterator[None]:
        claim = claim_request(target.cluster, how.state, cluster_id, CLAIM, how.ownership)
        if claim is None:
            yield
            return
        with lock_starts(how.state, cluster_id), own_cluster(claim, keep=False):
            yield

    def confirm_unregister() -> None:
        if not typed_id(broker):
            raise Stopped(BAD_INPUT, "nothing was sent")

    def report(place: str, words: str) -> None:
        click.echo(clean(f"{place}: {words}" if place else words), err=how.json)

    excludes = f" {shlex.join((EXCLUDE, ','.join(options.exclude)))}" if options.exclude else ""
    return RemovalRequest(
        broker=broker,
        options=options,
        state=how.state,
        file=file,
        cluster=cluster,
        clock=SystemClock(),
        again=f"ktui broker remove {broker}{excludes}{state_option(how.state)}",
        attended=can_ask(),
        ports=target.cluster.ports,
        same_cluster=partial(check_same_cluster, target),
        check_owner=lambda cluster_id: check_owner(
            target.cluster, how.state, cluster_id, CLAIM, how.ownership
        ),
        owned=owned,
        preview_run=lambda name, words, plan: checked(name, words, plan).preview,
        begin_run=lambda name, words, plan: begin_run(checked(name, words, plan), target, how),
        go_on=runs.go_on,
        cancel=runs.cancel,
        confirm_unregister=confirm_unregister,
        report=report,
        note=print_note,
    )


def _is_removed(request: RemovalRequest) -> bool:
    """Return whether a removal has come to its end, and say so."""
    removal = request.standing
    if removal is None:
        return False
    if removal.unregistered_at is not None:
        at = removal.unregistered_at.astimezone().isoformat(" ", timespec="seconds")
        click.echo(f"broker {request.broker} was removed already: it was unregistered at {at}")
        return True
    if removal.undoing:
        raise RunRefused(
            f"nothing was sent: the removal of broker {request.broker} is being undone. Let that "
            f"end first: {request.again} --undo"
        )
    return False


def _undoing(request: RemovalRequest) -> UndoRemoval:
    removal = request.file.load()
    if removal is None:
        raise BadInput(
            f"no removal of broker {request.broker} has changed anything, or it was undone: "
            f"{request.state.path} has none"
        )
    return UndoRemoval(request, removal)


def _undo(request: RemovalRequest) -> bool:
    complete = _undoing(request).go_on()
    as_before = "all is as before" if complete else "the rest is as before"
    click.echo(f"the removal of broker {request.broker} is undone: {as_before}")
    return complete


def _preview(request: RemovalRequest, *, undo: bool) -> None:
    if undo:
        for words in _undoing(request).preview():
            click.echo(words)
        click.echo("nothing was sent")
    elif not _is_removed(request):
        problems = _show(request)
        click.echo("nothing was sent")
        if problems:
            sys.exit(BAD_INPUT)


def _show(request: RemovalRequest) -> bool:
    preview = RemovalPreview(request)
    for line in preview.lines():
        click.echo(line)
    return preview.problems


def _confirm(request: RemovalRequest) -> None:
    if not request.attended or request.standing is not None:
        return
    _show(request)
    if not click.confirm(f"Remove broker {request.broker}?"):
        raise Stopped(BAD_INPUT, "nothing was sent")
