"""`ktui plan rollback`: the way back from a run, as a plan."""

from __future__ import annotations

from pathlib import Path

import click

from ktui.cli import options
from ktui.cli.plan_of_run import give_plan, journalled_run, output_option
from ktui.execution.problem import RunRefused
from ktui.execution.rollback_plan import rollback_plan
from ktui.execution.statedir import StateDir


@click.command("rollback")
@options.run_argument
@output_option
@options.state_dir_option
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
