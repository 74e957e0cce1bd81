"""Plans made from a run's journal, printed or written to a file."""

from __future__ import annotations

from pathlib import Path

import click

from ktui.cli.options import common
from ktui.cluster.text import clean
from ktui.execution.errors import RunRefused
from ktui.execution.host.catalog import find_run
from ktui.execution.host.rollback_plan import rollback_plan
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.follower import RunFollower
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.planning.plan import PartitionTarget, Plan, plan_as_json
from ktui.quantities import as_count

output_option = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File to write the plan to. Default: standard output.",
)


def run_from_journal(state: StateDir, name: str) -> Run:
    """Return a run as its journal has it, with a warning if the journal is damaged."""
    with RunFollower(find_run(state, name).journal) as follower:
        follower.refresh()
    if follower.damage is not None:
        click.echo(f"damaged: {follower.damage}. Only what comes before counts", err=True)
    if follower.run.exported is not None:
        file = clean(follower.run.exported.file)
        click.echo(
            f"warning: run {name} was exported to {file}. This plan shows it as it was then",
            err=True,
        )
    return follower.run


def output_plan(plan: Plan, output: Path | None) -> None:
    """Print a plan, or write it to a file."""
    if output is None:
        click.echo(plan_as_json(plan), nl=False)
    else:
        output.write_text(plan_as_json(plan), encoding="utf-8")
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
    plan = rollback_plan(run_from_journal(state, name))
    if not plan.partitions:
        raise RunRefused(f"run {name} has no partition to roll back. See: ktui status {name}")
    output_plan(plan, output)


@click.command("remaining")
@common.run_argument
@output_option
@common.state_dir_option
def remaining_command(name: str, *, output: Path | None, state: StateDir) -> None:
    """Write a plan of the partitions of RUN that are not done, in the format of Kafka's own tool.

    Partitions that were stopped or rolled back are included. Partitions of deleted topics are left
    out. Exit code 2 if no partition is left: a plan cannot be empty.
    """
    plan = remaining(run_from_journal(state, name))
    if not plan.partitions:
        raise RunRefused(f"nothing is left of run {name}. See its outcome: ktui status {name}")
    output_plan(plan, output)


def remaining(run: Run) -> Plan:
    """Return the targets of the partitions that are not done, in the order of the run's plan."""
    over = (State.DONE, State.TOPIC_GONE)
    left = (track for track in run.tracks.values() if track.state not in over)
    return Plan(tuple(PartitionTarget(t.tp.topic, t.tp.partition, t.target) for t in left))
