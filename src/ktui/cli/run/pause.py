"""`ktui pause` and `ktui continue`: stop a run from submitting steps, and let it again."""

from __future__ import annotations

import click

from ktui.cli.options import common
from ktui.cli.process.send_command import send_command
from ktui.cluster.partition import TopicPartition
from ktui.execution.host.client import RunClient
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import Continue, Pause

_only_topics = common.topics_option("Only this topic; may be repeated.")
_only_partitions = common.partitions_option("Only this partition; may be repeated.")


@click.command("continue")
@common.run_argument
@_only_topics
@_only_partitions
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
    _send(RunClient.find(state, name), Continue(topics=topics, partitions=partitions), json=json)


@click.command("pause")
@common.run_argument
@_only_topics
@_only_partitions
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
    _send(RunClient.find(state, name), Pause(topics=topics, partitions=partitions), json=json)


def _send(run: RunClient, command: Pause | Continue, *, json: bool) -> None:
    common.check_scope(run.read_live(), command.topics, command.partitions)
    send_command(run, command, json=json)
