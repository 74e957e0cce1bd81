"""Plans that are made of runs: read from a run's journal, printed or written to a file."""

from __future__ import annotations

from pathlib import Path

import click

from ktui.cluster.text import clean
from ktui.execution.follow import RunFollower
from ktui.execution.run import Run
from ktui.execution.runs import find_run
from ktui.execution.statedir import StateDir
from ktui.planning.plan import Plan, written
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
        click.echo(written(plan), nl=False)
    else:
        output.write_text(written(plan), encoding="utf-8")
        click.echo(f"{output}: {as_count(len(plan.partitions), 'partition')}", err=True)
