"""`ktui plan remaining`: what is left of a run, as a plan."""

from __future__ import annotations

from pathlib import Path

import click

from ktui.cli import options
from ktui.cli.plan_of_run import give_plan, journalled_run, output_option
from ktui.execution.problem import RunRefused
from ktui.execution.run import Run
from ktui.execution.statedir import StateDir
from ktui.execution.states import State
from ktui.planning.plan import PartitionTarget, Plan


@click.command("remaining")
@options.run_argument
@output_option
@options.state_dir_option
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
