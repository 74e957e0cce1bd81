"""`ktui pause`: a run submits nothing new until it is told to go on."""

from __future__ import annotations

import click

from ktui.cli.options import common
from ktui.cli.options.common import check_scope
from ktui.cli.process.send_command import ask, owned_run
from ktui.cluster.partition import TopicPartition
from ktui.execution.host.catalog import find_run
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import Continue, Pause


@click.command("continue")
@common.run_argument
@common.topics_option("Only this topic; may be repeated.")
@common.partitions_option("Only this partition; may be repeated.")
@common.state_dir_option
@common.json_option
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


@click.command("pause")
@common.run_argument
@common.topics_option("Only this topic; may be repeated.")
@common.partitions_option("Only this partition; may be repeated.")
@common.state_dir_option
@common.json_option
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
