"""`ktui plan remaining`: what is left of a run, as a plan."""

from __future__ import annotations

from pathlib import Path

import click

from ktui.cli import options
from ktui.execution.follow import RunFollower
from ktui.execution.problem import RunRefused
from ktui.execution.run import Run
from ktui.execution.runs import find_run
from ktui.execution.statedir import StateDir
from ktui.execution.states import State
from ktui.planning.plan import PartitionTarget, Plan, written
from ktui.quantities import as_count


@click.command("remaining")
@options.run_argument
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where to write the plan; else on standard output.",
)
@options.state_dir_option
def command(name: str, *, output: Path | None, state: StateDir) -> None:
    """Write a plan of the partitions of RUN that are not done, in the format of Kafka's own tool.

    Partitions whose topics are gone are left out. Exit code 2 when nothing is left: no plan is
    empty.
    """
    run_dir = find_run(state, name)
    with RunFollower(run_dir.journal) as follower:
        follower.refresh()
    if follower.damage is not None:
        click.echo(f"damaged: {follower.damage}; what is before it counts", err=True)
    plan = remaining(follower.run)
    if not plan.partitions:
        raise RunRefused(
            f"nothing is left of run {name}; see what became of it: ktui status {name}"
        )
    if output is None:
        click.echo(written(plan), nl=False)
    else:
        output.write_text(written(plan), encoding="utf-8")
        click.echo(f"{output}: {as_count(len(plan.partitions), 'partition')}", err=True)


def remaining(run: Run) -> Plan:
    """Give the targets of what is not done, in the order of the run's plan."""
    over = (State.DONE, State.TOPIC_GONE)
    left = (track for track in run.tracks.values() if track.state not in over)
    return Plan(
        tuple(
            PartitionTarget(track.tp.topic, track.tp.partition, track.planned.target)
            for track in left
        )
    )
