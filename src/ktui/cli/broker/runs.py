"""The runs about one broker, each followed to its end, and `ktui broker demote` and `undo`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Self

import click
import msgspec

from ktui.cli.broker.status import broker_argument, read_plan_layout
from ktui.cli.context.claim import OwnerChoice, ownership_options
from ktui.cli.context.cluster import (
    Cluster,
    ClusterChoice,
    Target,
    check_same_cluster,
    cluster_options,
    read_cluster_id,
    warn_of_tls,
)
from ktui.cli.context.option import GroupedCommand, add_option
from ktui.cli.context.terminal import NOT_ALL_DONE, BadInput, print_note
from ktui.cli.follow import EXIT_CODES, Engine, follow
from ktui.cli.options import common
from ktui.cli.options.plan import allowance_options
from ktui.cli.options.run import MADE_BY_KTUI, concurrent_option
from ktui.cli.options.throttle import complete_limits
from ktui.cli.output.plan_check import gate_line, shut_gate
from ktui.cli.plan.make import in_its_order
from ktui.cli.process import Launch, launch_left_run
from ktui.cli.start import (
    StartOptions,
    carry_out,
    check_new_run,
    report_findings,
    show_dry_run,
    start_options,
)
from ktui.cluster.clock import SystemClock
from ktui.cluster.partition import TopicPartition
from ktui.execution import RunProblem, RunRefused
from ktui.execution.broker.removal import RemovalFile
from ktui.execution.broker.status import unknown_broker
from ktui.execution.forecast.progress_text import run_ending
from ktui.execution.host.client import RunClient
from ktui.execution.host.hand_over import refuse_exported
from ktui.execution.host.process import AttachedEngine
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.states import CancelKind
from ktui.ops.broker.removal import Stopped
from ktui.ops.broker.runs import (
    DEMOTE,
    free_run_name,
    last_run_of,
    left_text,
    made_run,
    make,
    plan_text,
)
from ktui.ops.broker.undo import RunUndo, find_undo, left_as_is_lines, roll_back
from ktui.ops.start import CheckedRun
from ktui.planning.check.findings import Allowances
from ktui.planning.intents.made_plan import CannotMake
from ktui.planning.plan import Plan


def check_broker_run(
    name: str, words: str, plan: Plan, allowed: Allowances, target: Target, how: StartOptions
) -> CheckedRun:
    """Check a run that is called after its purpose, not after the file of a plan."""
    context = target.cluster.context
    limits = in_its_order(how.limits, plan, complete_limits(context.limits, how.limits))
    how = msgspec.structs.replace(how, limits=limits)
    new = how.new_run(context, name, plan, plan_name=words, allowed=allowed)
    return check_new_run(new, target, how)


def begin_run(checked: CheckedRun, target: Target, how: StartOptions) -> int:
    """Start a checked run, follow it to its end, and return the exit code.

    Ends the program on a problem. If there is nothing to do any more, no run is made.
    """
    if checked.preview.idle:
        return 0
    report_findings(checked)
    return carry_out(checked, target, how)


class LeftRuns(msgspec.Struct, frozen=True):
    """How runs that exist already are carried on, each in an engine process of its own."""

    target: Target
    state: StateDir
    json: bool
    how: Mapping[str, Any]  # further arguments of each launch

    @classmethod
    def of(cls, target: Target, how: StartOptions) -> Self:
        launch = {"ownership": how.ownership, "until": how.until, "concurrent": how.concurrent}
        return cls(target, how.state, how.json, launch)

    def cancel(self, name: str, kind: CancelKind, partitions: Collection[TopicPartition]) -> int:
        """Cancel some partitions of a run, and return the exit code of the run.

        The run may have ended. Repeated, this goes on with what is left of it.
        """
        return self.go_on(name, CancelMoves(kind, (), tuple(partitions)))

    def go_on(self, name: str, cancel: CancelMoves | None = None) -> int:
        """Carry a run on to its end, in its engine if it has one, and return the exit code."""
        client = RunClient.find(self.state, name)
        found = client.read_begun()
        if found.damage is not None:
            print_note(f"damaged: {found.damage}. The run goes on from what comes before")
        refuse_exported(found.run)
        if cancel is None and found.run.ended:
            return EXIT_CODES[run_ending(found.run)]

        def ask() -> None:
            if cancel is not None:
                client.ask(cancel)

        cluster_id = found.begun.cluster_id
        shut = shut_gate(self.state, cluster_id)
        if shut is not None:
            print_note(f"{gate_line(shut, self.state, client.name)}. Until then only cancels go on")
        start = partial(self._engine, client, cluster_id, ask)
        return follow(start, self.state, json=self.json, after=found.run.seq)

    def _engine(self, client: RunClient, cluster_id: str, ask: Callable[[], None]) -> Engine:

        def attached() -> AttachedEngine | None:
            owner = client.owner
            if owner is None:
                return None
            ask()
            return AttachedEngine(client.folder, owner)

        if (engine := attached()) is not None:
            return engine
        launch = Launch.on(self.target, self.state, cluster_id, client.name, **self.how)
        try:
            return launch_left_run(launch, ask)
        except RunProblem:  # perhaps because another engine was being started
            if (engine := attached()) is None:
                raise
            return engine


@click.command("demote", cls=GroupedCommand, context_settings=MADE_BY_KTUI)
@broker_argument
@cluster_options
@allowance_options
@start_options
def command(broker: int, choice: ClusterChoice, *, allowed: Allowances, how: StartOptions) -> None:
    """Move leadership away from broker ID: others lead its partitions.

    Starts a run that puts the broker last in every list of replicas, and lets the new first ones
    lead, under limits as `ktui start` does. Nothing is copied. `ktui broker undo ID` restores order
    and leaders. An unfinished run of an earlier call is carried on.

    Exit codes are those of `ktui start`; 3 also where the broker keeps a leadership, because no
    other replica is in sync.
    """
    target = choice.target()
    warn_of_tls(target.cluster)
    words = DEMOTE.words(broker)
    unfinished = _unfinished(target.cluster, how.state, words)
    if unfinished is not None and not how.dry_run:
        print_note(f"going on with run {unfinished}")
        sys.exit(LeftRuns.of(target, how).go_on(unfinished))
    layout = read_plan_layout(target.cluster)
    if broker not in layout.known:
        raise BadInput(unknown_broker(broker, layout.known))
    try:
        made = make(DEMOTE, broker, layout)
    except CannotMake as nothing:
        print_note(f"nothing to do: {nothing}")
        sys.exit(0)
    for line in left_text(made):
        print_note(line)
    if not made.plan.partitions:
        sys.exit(NOT_ALL_DONE)
    name = free_run_name(how.state, DEMOTE.run_name(broker))
    checked = check_broker_run(name, words, made.plan, allowed, target, how)
    if how.dry_run:
        show_dry_run(checked, json=how.json)
    report_findings(checked)
    print_note(f"{words}: {plan_text(made)}")
    code = carry_out(checked, target, how)
    sys.exit(code or (NOT_ALL_DONE if made.left else 0))


def _unfinished(cluster: Cluster, state: StateDir, words: str) -> str | None:
    last = last_run_of(state, asyncio.run(read_cluster_id(cluster)), words)
    run = None if last is None else made_run(state, last.name)
    return None if run is None or run.ended else run.name


@click.command("undo")
@broker_argument
@cluster_options
@add_option("--dry-run", "Show what would be undone, and send nothing.")
@add_option("--json", "Print each event as a line of JSON.")
@concurrent_option
@ownership_options
@common.state_dir_option
def undo(
    broker: int,
    choice: ClusterChoice,
    *,
    dry_run: bool,
    json: bool,
    concurrent: bool,
    ownership: OwnerChoice,
    state: StateDir,
) -> None:
    """Undo the last `ktui broker demote` of broker ID.

    Every partition gets its earlier order back, and its earlier leader, under the limits of that
    run. Partitions that others have changed since are left as they are, each with the reason. An
    undo that was interrupted goes on.

    Exit code 0 if all is as before, 3 if some is not, 2 if there is nothing to undo.
    """
    target = choice.target(changes=not dry_run)
    warn_of_tls(target.cluster)
    cluster_id = asyncio.run(read_cluster_id(target.cluster))
    _refuse_removal(RemovalFile(state, cluster_id, broker), broker)
    last = last_run_of(state, cluster_id, DEMOTE.words(broker))
    if last is None:
        raise BadInput(
            f"no run in {state.path} has demoted broker {broker} by `ktui broker demote`. To undo "
            "another run: ktui cancel RUN --rollback"
        )
    runs = LeftRuns(target, state, json, {"concurrent": concurrent, "ownership": ownership})
    back = _find_undo(runs, last.name)
    for line in left_as_is_lines(back.left):
        print_note(line)
    if not back.partitions:
        print_note(f"nothing to do: nothing of run {last.name} is left to be undone")
    elif dry_run:
        click.echo(back.text)
        click.echo("nothing was sent")
    else:
        print_note(back.text)
        try:
            if not roll_back(back, state, runs.cancel):
                sys.exit(NOT_ALL_DONE)
        except Stopped as stopped:
            sys.exit(stopped.code)
    sys.exit(NOT_ALL_DONE if back.left else 0)


def _find_undo(runs: LeftRuns, name: str) -> RunUndo:
    found = RunClient.find(runs.state, name).read_begun()
    same_cluster = partial(check_same_cluster, runs.target)
    return runs.target.cluster.ask(
        lambda reader: find_undo(reader, SystemClock(), found, same_cluster)
    )


def _refuse_removal(file: RemovalFile, broker: int) -> None:
    removal = file.load()
    if removal is not None and removal.unregistered_at is None:
        raise RunRefused(
            f"broker {broker} is being removed, and its leadership with it. To undo that: "
            f"ktui broker remove {broker} --undo"
        )
