"""`ktui broker status` and `empty`: what a broker holds, what keeps it, and whether it may go."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Iterator
from contextlib import aclosing

import click

from ktui.cli.context.cluster import Cluster, ClusterChoice
from ktui.cli.context.option import Option, add_option
from ktui.cli.context.terminal import NOT_ALL_DONE, BadInput, print_note
from ktui.cli.options import common
from ktui.cli.options.cluster import cluster_options
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cli.output.table import table_of
from ktui.cli.plan.make_options import EXCLUDE, parse_patterns
from ktui.cluster.text import clean
from ktui.execution.broker.status import (
    EMPTY,
    LOG_DIR_COLUMNS,
    TOPIC_COLUMNS,
    BrokerStatus,
    HeldReplica,
    Stay,
    advice_lines,
    but_for,
    held_line,
    held_words,
    state_words,
    total,
    unknown_broker,
    why_unknown,
)
from ktui.execution.errors import RunProblem
from ktui.execution.host.state_dir import StateDir
from ktui.ops.broker import runs
from ktui.planning.intents.layout import Layout
from ktui.quantities import as_bytes, as_count

broker_argument = click.argument("broker", metavar="ID", type=click.IntRange(0))


def exclude_option(purpose: str) -> Option:
    """Return the option that leaves topics out, as `exclude`."""
    return add_option(f"{EXCLUDE} T,...", purpose, multiple=True, reads=parse_patterns)


async def read_view(
    cluster: Cluster,
    state: StateDir,
    broker: int,
    *,
    fresh: bool = False,
    exclude: Collection[str] = (),
) -> BrokerStatus:
    """Read what a broker holds, and why. Args, Raises: as `read_status`."""
    async with aclosing(cluster.reader()) as reader:
        status = await runs.read_status(reader, state, broker, fresh=fresh, exclude=exclude)
    if not status.facts.known:
        raise BadInput(unknown_broker(broker, status.facts.brokers))
    return status


def read_plan_layout(cluster: Cluster) -> Layout:
    """Read what plans are made from, and warn of what could not be read."""
    return cluster.ask(lambda reader: runs.read_plan_layout(reader, print_note))


def status_text(status: BrokerStatus, *, most: int | None) -> str:
    """Describe a broker, its log dirs, and at most so many of its topics; None for all."""
    lines = "\n".join(_lines(status, most)).split("\n")
    return "\n".join(map(clean, lines))


def _lines(status: BrokerStatus, most: int | None) -> Iterator[str]:
    facts = status.facts
    yield f"broker {facts.id}: {state_words(facts)}"
    yield from held_words(status.holdings)
    if status.removal is not None and status.removal.unregistered_at is None:
        undo = " --undo" if status.removal.undoing else ""
        yield f"it is being removed. Go on: ktui broker remove {facts.id}{undo}"
    if facts.log_dirs:
        yield ""
        log_dirs = sorted(facts.log_dirs, key=lambda log_dir: log_dir.path)
        yield table_of(LOG_DIR_COLUMNS, log_dirs)
    topics = status.holdings.topics()
    if topics:
        yield ""
        yield table_of(TOPIC_COLUMNS, topics[:most])
    if most is not None and (others := topics[most:]):
        replicas = as_count(sum(len(topic.replicas) for topic in others), "replica")
        size = as_bytes(total(topic.bytes for topic in others))
        yield f"and {as_count(len(others), 'topic')} more: {replicas}, {size}. All of them: --all"
    yield from advice_lines(status, topics)


def status_json(cluster: str, view: BrokerStatus) -> dict[str, object]:
    """Return the JSON form of a broker's status. `log_dirs` is null where it does not answer."""
    facts, held = view.facts, view.holdings.replicas
    broker = facts.broker
    log_dirs = [
        {
            "path": each.path,
            "error": each.error,
            "total_bytes": each.total_bytes,
            "usable_bytes": each.usable_bytes,
            "cordoned": each.cordoned,
        }
        for each in sorted(facts.log_dirs, key=lambda log_dir: log_dir.path)
    ]
    return {
        "schema_version": SCHEMA_VERSION,
        "cluster": cluster,
        "cluster_id": facts.cluster_id,
        "broker": facts.id,
        "registered": broker is not None,
        "alive": broker is not None and broker.alive,
        "rack": None if broker is None else broker.rack,
        "log_dirs": None if facts.on_disk is None else log_dirs,
        "replicas": len(held),
        "bytes": view.holdings.bytes,
        "leads": sum(each.leads for each in held),
        "preferred": sum(each.preferred for each in held),
        "only_in_sync": sum(each.only_in_sync for each in held),
        "whys": {why: view.holdings.count(why) for why in Stay},
        "topics": [
            {"topic": each.topic, "bytes": each.bytes, "replicas": [*map(_replica, each.replicas)]}
            for each in view.holdings.topics()
        ],
        "without_engine": view.without_engine,
        "unread": facts.unread,
    }


def _replica(held: HeldReplica) -> dict[str, object]:
    return {
        "partition": held.tp.partition,
        "bytes": held.size,
        "why": held.why,
        "run": held.run or None,
        "leaves": held.why.leaves,
        "leads": held.leads,
        "preferred": held.preferred,
        "only_in_sync": held.only_in_sync,
        "offline": held.offline,
        "moves_dirs": held.moves_dirs,
    }


FIRST_TOPICS = 20


@click.command("status")
@broker_argument
@cluster_options
@add_option("--all", f"Every topic, not only the first {FIRST_TOPICS}.", "every")
@common.state_dir_option
@common.json_option
def command(
    broker: int, choice: ClusterChoice, *, every: bool, state: StateDir, json: bool
) -> None:
    """Show what broker ID holds, and why.

    For each topic ktui shows what takes its replicas away, if anything does.

    Changes nothing. Of runs of other hosts and state directories, only the reassignments in flight
    are seen, as somebody else's.
    """
    cluster = choice.cluster()
    view = asyncio.run(read_view(cluster, state, broker))
    if json:
        click.echo(encode(status_json(cluster.name, view)))
    else:
        click.echo(status_text(view, most=None if every else FIRST_TOPICS))


@click.command("empty")
@broker_argument
@cluster_options
@exclude_option("Do not count these topics: names or shell patterns.")
@common.state_dir_option
def empty(broker: int, choice: ClusterChoice, *, exclude: tuple[str, ...], state: StateDir) -> None:
    """Check whether broker ID is empty: it holds no replica, and none is on its way to it.

    ktui never guesses: metadata must be proven to be current, and the broker's own log dirs must
    agree with it. A broker that is down cannot be asked, and is not known to be empty.

    Exit code 0 if it is empty, also but for the topics of --exclude, which are then named; 3 if it
    is not, 1 if that is not known, 2 for bad input.
    """
    view = asyncio.run(read_view(choice.cluster(), state, broker, fresh=True, exclude=exclude))
    if view.holdings.replicas:
        click.echo(held_line(view))
        sys.exit(NOT_ALL_DONE)
    if view.facts.unread:
        raise RunProblem(f"broker {broker} is not known to be empty: {clean(why_unknown(view))}")
    click.echo(clean(f"broker {broker} is {EMPTY if not but_for(view) else but_for(view)}"))
