"""`ktui progress`: how far each replica of a plan is (KIP-179)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import click

from ktui.cli.context.cluster import Cluster, ClusterChoice, cluster_options
from ktui.cli.context.option import add_option
from ktui.cli.context.terminal import print_note
from ktui.cli.options import common
from ktui.cli.options.plan import read_plan_argument
from ktui.cli.output.json_form import encode_record
from ktui.cluster.asking import ONE_POLL_PATIENCE_S, FreshMetadata
from ktui.cluster.clock import SystemClock
from ktui.cluster.observer import Interest, Observer
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.text import clean
from ktui.columns import column, figures, table_of
from ktui.progress.fold import fold
from ktui.progress.summary import ReplicaProgress, ReplicaStatus, replica_progress
from ktui.progress.timeline import Progress
from ktui.quantities import as_bytes, as_duration, as_rate
from ktui.speed.answer import Span

Targets = Mapping[TopicPartition, Brokers]


@click.command("progress")
@click.argument("path", metavar="PLAN", type=click.Path(path_type=Path))
@cluster_options
@add_option("--watch", "Go on until all is in sync, or Ctrl-C.")
@common.poll_interval_option
@common.json_option
def command(
    path: Path, choice: ClusterChoice, *, watch: bool, poll_interval: float | None, json: bool
) -> None:
    """Show how far each replica of PLAN is: in sync, or how many messages behind its leader.

    PLAN is a file in the format of kafka-reassign-partitions, or - for standard input. Rates and
    the time left are known from the second poll on, with --watch.
    """
    _, plan = read_plan_argument(path)
    targets = {each.tp: each.replicas for each in plan.partitions}
    cluster = choice.cluster()
    every_s = poll_interval or cluster.context.poll_interval
    asyncio.run(_show(cluster, targets, every_s if watch else None, json=json))


async def _show(cluster: Cluster, targets: Targets, every_s: float | None, *, json: bool) -> None:
    async for progress, rows in poll_progress(cluster, targets, every_s):
        click.echo(_json(cluster, progress, rows) if json else progress_table(rows))
        for failure in () if progress.last is None else progress.last.failures:
            print_note(f"ktui: {failure.sentence}")
        if every_s is not None and not json:
            click.echo()


async def poll_progress(
    cluster: Cluster, targets: Targets, every_s: float | None
) -> AsyncIterator[tuple[Progress, Sequence[ReplicaProgress]]]:
    """Poll the replicas of a plan once, or every so many seconds until all are in sync."""
    clock, progress = SystemClock(), Progress()
    interest = Interest(partitions=frozenset(targets), fresh=True)
    async with (
        aclosing(cluster.reader()) as reader,
        aclosing(Observer(reader, clock, patience_s=ONE_POLL_PATIENCE_S)) as observer,
    ):
        metadata = FreshMetadata(reader, clock)
        while True:
            seen = await observer.poll(interest)
            progress = fold(progress, seen)
            absent = {tp.topic for tp in seen.absent}
            answer, _ = await metadata.describe(absent, within_s=ONE_POLL_PATIENCE_S)
            topics = {tp.topic for tp in targets} - answer.absent
            rows = [*replica_progress(progress, targets, topics)]
            yield progress, rows
            if every_s is None or all(row.status is ReplicaStatus.IN_SYNC for row in rows):
                return
            await clock.sleep(every_s)


def status_text(row: ReplicaProgress) -> str:
    """Return the status in KIP-179's words: "Behind: 10456 messages behind"."""
    if row.status is not ReplicaStatus.BEHIND:
        return row.status.value
    messages = "an unknown number of" if row.messages is None else row.messages
    return f"Behind: {messages} messages behind"


_COLUMNS = (
    column("Topic", lambda row: clean(row.tp.topic)),
    figures("Partition", lambda row: str(row.tp.partition)),
    figures("Broker", lambda row: str(row.broker)),
    column("Status", status_text),
    figures("Left to copy", lambda row: _known(as_bytes, row.bytes)),
    figures("Rate", lambda row: _known(as_rate, row.rate_bytes_s)),
    figures("Time left", lambda row: _known(as_duration, _middle(row.left_s))),
)


def progress_table(rows: Sequence[ReplicaProgress]) -> str:
    """Format the replicas of a plan, a line each."""
    return table_of(_COLUMNS, rows)


def _known(as_text: Callable[[Any], str], figure: float | None) -> str:
    return "" if figure is None else as_text(figure)


def _json(cluster: Cluster, progress: Progress, rows: Sequence[ReplicaProgress]) -> str:
    at = SystemClock().now() if progress.last is None else progress.last.at
    replicas = [
        {
            "topic": row.tp.topic,
            "partition": row.tp.partition,
            "broker": row.broker,
            "status": row.status,
            "messages": row.messages,
            "bytes": row.bytes,
            "rate_bytes_s": row.rate_bytes_s,
            "left_s": _middle(row.left_s),
        }
        for row in rows
    ]
    return encode_record({"cluster": cluster.name, "at": at, "replicas": replicas})


def _middle(left: Span | None) -> float | None:
    return None if left is None else left.middle
