"""Plans made from a run's journal, printed or written to a file."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from ktui.cli.context.cluster import ClusterChoice, check_same_cluster, cluster_options
from ktui.cli.context.terminal import NOT_ALL_DONE, print_note
from ktui.cli.options import common
from ktui.cluster.clock import SystemClock
from ktui.cluster.text import clean
from ktui.durable import write_output
from ktui.execution import RunRefused
from ktui.execution.host.client import RunClient
from ktui.execution.host.launch import rollback_plan
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.ops.broker.undo import left_as_is_lines, read_undo_plan
from ktui.planning.plan import PartitionTarget, Plan, plan_as_json
from ktui.quantities import as_count

output_option = common.output_option("File to write the plan to. Default: standard output.")


def _run_from_journal(state: StateDir, name: str) -> Run:
    found = RunClient.find(state, name).read()
    _warn_of(found.run, found.damage)
    return found.run


def _warn_of(run: Run, damage: str | None) -> None:
    if damage is not None:
        print_note(f"damaged: {damage}. Only what comes before counts")
    if run.exported is not None:
        file = clean(run.exported.file)
        print_note(
            f"warning: run {run.name} was exported to {file}. This plan shows it as it was then"
        )


def output_plan(plan: Plan, output: Path | None) -> None:
    """Print a plan, or write it to a file."""
    if output is None:
        click.echo(plan_as_json(plan), nl=False)
    else:
        write_output(output, plan_as_json(plan).encode())
        click.echo(f"{output}: {as_count(len(plan.partitions), 'partition')}", err=True)


@click.command("rollback")
@common.run_argument
@output_option
@common.state_dir_option
def rollback_command(name: str, *, output: Path | None, state: StateDir) -> None:
    """Write a plan that restores the replicas from before RUN, in their order.

    The plan has the format of Kafka's own tool, with KIP-236's original_replicas. Nothing is sent;
    `ktui cancel RUN --rollback` does that. Partitions of deleted topics are left out. Exit code 2
    if no partition is left: a plan cannot be empty.
    """
    plan = rollback_plan(_run_from_journal(state, name))
    if not plan.partitions:
        raise RunRefused(f"run {name} has no partition to roll back. See: ktui status {name}")
    output_plan(plan, output)


@click.command("undo")
@common.run_argument
@cluster_options
@output_option
@common.state_dir_option
def undo_command(name: str, choice: ClusterChoice, *, output: Path | None, state: StateDir) -> None:
    """Write a plan that puts back what RUN has changed, as far as only RUN has changed it.

    Reads the cluster. Only partitions that are as RUN left them are in the plan, each with its
    replicas from before RUN, in their order. What others have changed since is named with the
    reason, and left out. Sends nothing.

    A start of the plan also elects the first replica where another one led before RUN.
    `ktui cancel RUN --rollback` restores leaders, too. Exit code 0, 3 if something is left out,
    2 if there is nothing to undo.
    """
    found = RunClient.find(state, name).read_begun()
    _warn_of(found.run, found.damage)
    where = choice.or_of_run(found.begun).target(changes=False)
    same_cluster = partial(check_same_cluster, where)
    undo = where.cluster.ask(
        lambda reader: read_undo_plan(reader, SystemClock(), found, same_cluster)
    )
    for line in left_as_is_lines(undo.left):
        print_note(line)
    if not undo.plan.partitions:
        raise RunRefused(f"nothing of run {name} is left to be undone")
    output_plan(undo.plan, output)
    sys.exit(NOT_ALL_DONE if undo.left else 0)


@click.command("remaining")
@common.run_argument
@output_option
@common.state_dir_option
def remaining_command(name: str, *, output: Path | None, state: StateDir) -> None:
    """Write a plan of the partitions of RUN that are not done, in the format of Kafka's own tool.

    Partitions that were stopped or rolled back are included. Partitions of deleted topics are left
    out. Exit code 2 if no partition is left: a plan cannot be empty.
    """
    plan = remaining(_run_from_journal(state, name))
    if not plan.partitions:
        raise RunRefused(f"nothing is left of run {name}. See its outcome: ktui status {name}")
    output_plan(plan, output)


def remaining(run: Run) -> Plan:
    """Return the targets of the partitions that are not done, in the order of the run's plan."""
    over = (State.DONE, State.TOPIC_GONE)
    left = (track for track in run.tracks.values() if track.state not in over)
    return Plan(tuple(PartitionTarget(t.tp.topic, t.tp.partition, t.target) for t in left))
