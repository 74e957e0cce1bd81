"""`ktui continue`: a paused run goes on."""

from __future__ import annotations

import click

from ktui.cli import options
from ktui.cli.asking import ask, owned_run
from ktui.cli.scope import check_scope
from ktui.cluster.partition import TopicPartition
from ktui.execution.commands import Continue
from ktui.execution.runs import find_run
from ktui.execution.statedir import StateDir


@click.command("continue")
@options.run_argument
@options.topics_option("Only this topic; may be repeated.")
@options.partitions_option("Only this partition; may be repeated.")
@options.state_dir_option
@options.json_option
def continue_(
    name: str,
    *,
    topics: tuple[str, ...],
    partitions: tuple[TopicPartition, ...],
    state: StateDir,
    json: bool,
) -> None:
    """Lift pauses of RUN: of the topics and partitions named, or else every one.

    Waits up to 30 s for the answer of the process that carries the run on. A run that no process
    carries on is not paused: `ktui resume` has one carry it on.
    """
    run_dir = find_run(state, name)
    check_scope(owned_run(run_dir), topics, partitions)
    ask(run_dir, Continue(topics=topics, partitions=partitions), json=json)
