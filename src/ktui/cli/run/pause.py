"""`ktui pause` and `ktui continue`: stop a run from submitting steps, and let it again."""

from __future__ import annotations

import click

from ktui.cli.options import common
from ktui.cli.options.common import check_scope
from ktui.cli.process.send_command import run_with_engine, send_command
from ktui.cluster.partition import TopicPartition
from ktui.execution.host.catalog import find_run
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import Continue, Pause


@click.command("continue")
@common.run_argument
@common.topics_option("Only this topic. Repeatable.")
@common.partitions_option("Only this partition. Repeatable.")
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
    """Lift pauses of RUN: those of the named topics and partitions, or else all.

    Waits up to 30 s for the engine's answer. A run without an engine is not paused: start one with
    `ktui resume`.
    """
    run_dir = find_run(state, name)
    check_scope(run_with_engine(run_dir), topics, partitions)
    send_command(run_dir, Continue(topics=topics, partitions=partitions), json=json)


@click.command("pause")
@common.run_argument
@common.topics_option("Only this topic. Repeatable.")
@common.partitions_option("Only this partition. Repeatable.")
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
    """Pause RUN: steps in flight finish, and no new ones are submitted.

    `ktui continue` lifts the pause. Waits up to 30 s for the engine's answer.
    """
    run_dir = find_run(state, name)
    check_scope(run_with_engine(run_dir), topics, partitions)
    send_command(run_dir, Pause(topics=topics, partitions=partitions), json=json)
