"""`ktui pause`: a run submits nothing new until it is told to go on."""

from __future__ import annotations

import click

from ktui.cli import options
from ktui.cli.asking import ask, owned_run
from ktui.cli.scope import check_scope
from ktui.cluster.partition import TopicPartition
from ktui.execution.commands import Pause
from ktui.execution.runs import find_run
from ktui.execution.statedir import StateDir


@click.command("pause")
@options.run_argument
@options.topics_option("Only this topic; may be repeated.")
@options.partitions_option("Only this partition; may be repeated.")
@options.state_dir_option
@options.json_option
def pause(
    name: str,
    *,
    topics: tuple[str, ...],
    partitions: tuple[TopicPartition, ...],
    state: StateDir,
    json: bool,
) -> None:
    """Have RUN submit nothing new; what is in flight finishes. `ktui continue` lifts it.

    Waits up to 30 s for the answer of the process that carries the run on.
    """
    run_dir = find_run(state, name)
    check_scope(owned_run(run_dir), topics, partitions)
    ask(run_dir, Pause(topics=topics, partitions=partitions), json=json)
