"""Plans that are made of runs: read from a run's journal, printed or written to a file."""

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
    help="Where to write the plan; else on standard output.",
)


def journalled_run(state: StateDir, name: str) -> Run:
    """Give a run as its journal has it; what of that is damaged is told."""
    with RunFollower(find_run(state, name).journal) as follower:
        follower.refresh()
    if follower.damage is not None:
        click.echo(f"damaged: {follower.damage}; what is before it counts", err=True)
    if follower.run.exported is not None:
        file = clean(follower.run.exported.file)
        click.echo(f"warning: run {name} was exported to {file}: this is how it was then", err=True)
    return follower.run


def give_plan(plan: Plan, output: Path | None) -> None:
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
    """Write a plan of the replicas that the partitions of RUN had before, in their order.

    It is in the format of Kafka's own tool, with KIP-236's original_replicas, and sends nothing:
    `ktui cancel RUN --rollback` does. Partitions whose topics are gone are left out. Exit code 2
    when nothing is left: no plan is empty.
    """
    plan = rollback_plan(journalled_run(state, name))
    if not plan.partitions:
        raise RunRefused(f"run {name} has no partition to go back with; see: ktui status {name}")
    give_plan(plan, output)


@click.command("remaining")
@common.run_argument
@output_option
@common.state_dir_option
def remaining_command(name: str, *, output: Path | None, state: StateDir) -> None:
    """Write a plan of the partitions of RUN that are not done, in the format of Kafka's own tool.

    Those that were stopped or rolled back are among them. Partitions whose topics are gone are left
    out. Exit code 2 when nothing is left: no plan is empty.
    """
    plan = remaining(journalled_run(state, name))
    if not plan.partitions:
        raise RunRefused(
            f"nothing is left of run {name}; see what became of it: ktui status {name}"
        )
    give_plan(plan, output)


def remaining(run: Run) -> Plan:
    """Give the targets of what is not done, in the order of the run's plan."""
    over = (State.DONE, State.TOPIC_GONE)
    left = (track for track in run.tracks.values() if track.state not in over)
    return Plan(tuple(PartitionTarget(t.tp.topic, t.tp.partition, t.target) for t in left))
