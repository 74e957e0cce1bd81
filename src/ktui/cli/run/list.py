"""`ktui list`: print the reassignments of a cluster, once."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import click

from ktui.cli.context.cluster import Cluster, ClusterChoice, cluster_options
from ktui.cli.context.option import add_option
from ktui.cli.options import common
from ktui.cli.options.common import check_on_cluster
from ktui.cluster.asking import ONE_POLL_PATIENCE_S
from ktui.cluster.clock import SystemClock
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, Observer
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.columns import column, figures, table_of
from ktui.json_text import encode
from ktui.progress.fold import fold
from ktui.progress.timeline import Lane, Progress, Timeline
from ktui.tui.draw.format import as_bytes, as_messages, as_share


@click.command("list")
@cluster_options
@common.topics_option("Only this topic; may be repeated.")
@common.partitions_option("Only this partition; may be repeated.")
@common.json_option
@add_option(
    "--kafka-json", "Print the targets in the format of --reassignment-json-file (KIP-455)."
)
def command(
    choice: ClusterChoice,
    *,
    topics: tuple[str, ...],
    partitions: tuple[TopicPartition, ...],
    json: bool,
    kafka_json: bool,
) -> None:
    """List the partition reassignments under way, with the lag of each replica being added."""
    if json and kafka_json:
        raise click.UsageError("--json and --kafka-json exclude each other.")
    chosen = set(partitions)
    cluster = choice.cluster()
    observation = asyncio.run(_poll(cluster, topics, partitions))
    timelines = [
        timeline
        for tp, timeline in sorted(fold(Progress(), observation).timelines.items())
        if timeline.state.reassigning and _in_scope(tp, topics, chosen)
    ]
    if kafka_json:
        click.echo(encode(_plan(timelines)))
    elif json:
        from ktui.cli.output.json_form import list_json  # noqa: PLC0415 - a table needs none of it

        click.echo(encode(list_json(observation, timelines)))
    else:
        _print_table(observation, timelines, filtered=bool(topics or chosen))


async def _poll(
    cluster: Cluster, topics: tuple[str, ...], partitions: tuple[TopicPartition, ...]
) -> Observation:
    interest, clock = Interest(frozenset(topics), frozenset(partitions)), SystemClock()
    async with (
        aclosing(cluster.reader()) as reader,
        aclosing(Observer(reader, clock, patience_s=ONE_POLL_PATIENCE_S)) as observer,
    ):
        seen = await observer.poll(interest)
        await check_on_cluster(reader, clock, seen, topics, partitions)
        return seen


def _in_scope(tp: TopicPartition, topics: tuple[str, ...], chosen: set[TopicPartition]) -> bool:
    return not (topics or chosen) or tp.topic in topics or tp in chosen


def _plan(timelines: list[Timeline]) -> dict[str, object]:
    """Return Kafka's plan format; by KIP-455 an empty object when nothing moves."""
    if not timelines:
        return {}
    partitions = [
        {"topic": t.tp.topic, "partition": t.tp.partition, "replicas": list(t.target)}
        for t in timelines
    ]
    return {"version": 1, "partitions": partitions}


def _print_table(observation: Observation, timelines: list[Timeline], *, filtered: bool) -> None:
    if timelines:
        click.echo(table_of(_COLUMNS, timelines))
    else:
        scope = " of what you asked for" if filtered else ""
        click.echo(f"Nothing{scope} is being reassigned.")
    for failure in observation.failures:
        click.echo(f"ktui: {failure.sentence}", err=True)


def _leader(state: PartitionState) -> str:
    if not state.described:
        return "?"
    return "none" if state.leader is None else str(state.leader)


def _brokers(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "-"


def _lag(timeline: Timeline) -> str:
    if timeline.lag_messages is not None:
        return as_messages(timeline.lag_messages)
    return "?" if timeline.lag_bytes is None else as_bytes(timeline.lag_bytes)


def _shares(lanes: tuple[Lane, ...]) -> str:
    shown = [f"{x.broker}:{as_share(x.share, approximate=x.approximate)}" for x in lanes]
    return " ".join(shown) or "-"


_COLUMNS = (
    column("PARTITION", lambda row: str(row.tp)),
    column("REPLICAS", lambda row: _brokers(row.state.replicas)),
    column("ADDING", lambda row: _brokers(row.state.adding)),
    column("REMOVING", lambda row: _brokers(row.state.removing)),
    column("ISR", lambda row: _brokers(row.state.isr) if row.state.described else "?"),
    figures("LEADER", lambda row: _leader(row.state)),
    figures("LAG", _lag),
    figures("CAUGHT UP", lambda row: _shares(row.catching_up)),
    column("TROUBLE", lambda row: "" if row.stall is None else row.stall.detail),
)
