"""`ktui pause` and `ktui continue`: stop a run from submitting steps, and let it again."""

from __future__ import annotations

import click

from ktui.cli.options import common
from ktui.cli.process.send_command import send_command
from ktui.cluster.partition import TopicPartition
from ktui.execution.host.client import RunClient
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import Continue, Pause
from ktui.execution.run.run import Run

_only_topics = common.topics_option("Only this topic; may be repeated.")
_only_partitions = common.partitions_option("Only this partition; may be repeated.")
_only_brokers = common.brokers_option(
    "Only partitions that hold, gain or lose a replica on this broker now; may be repeated."
)


@click.command("continue")
@common.run_argument
@_only_topics
@_only_partitions
@_only_brokers
@common.state_dir_option
@common.json_option
def continue_(
    name: str,
    *,
    topics: tuple[str, ...],
    partitions: tuple[TopicPartition, ...],
    brokers: tuple[int, ...],
    state: StateDir,
    json: bool,
) -> None:
    """Lift pauses of RUN: those of the named topics, partitions and brokers, or else all.

    --broker lifts the pause of each partition that has ever had to do with the broker in RUN.

    Waits up to 30 s for the engine's answer. A run without an engine is not paused: start one with
    `ktui resume`.
    """
    client = RunClient.find(state, name)
    run = _checked(client, topics, partitions)
    scope = (*partitions, *common.find_on_brokers(run, brokers, ever=True))
    send_command(client, Continue(topics=topics, partitions=scope), json=json)


@click.command("pause")
@common.run_argument
@_only_topics
@_only_partitions
@_only_brokers
@common.state_dir_option
@common.json_option
def pause(
    name: str,
    *,
    topics: tuple[str, ...],
    partitions: tuple[TopicPartition, ...],
    brokers: tuple[int, ...],
    state: StateDir,
    json: bool,
) -> None:
    """Pause RUN: steps in flight finish, and no new ones are submitted.

    `ktui continue` lifts the pause. Waits up to 30 s for the engine's answer.
    """
    client = RunClient.find(state, name)
    run = _checked(client, topics, partitions)
    scope = (*partitions, *common.find_on_brokers(run, brokers))
    send_command(client, Pause(topics=topics, partitions=scope), json=json)


def _checked(
    client: RunClient, topics: tuple[str, ...], partitions: tuple[TopicPartition, ...]
) -> Run:
    run = client.read_live()
    common.check_scope(run, topics, partitions)
    return run
