"""`ktui broker status`, `cordon` and the like: what one broker holds, and what Kafka does to it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import aclosing

import click

from ktui.cli.context.claim import CORDON_CLAIM, OwnerChoice, check_owner, take_over_option
from ktui.cli.context.cluster import (
    Cluster,
    ClusterChoice,
    ControllerChoice,
    cluster_options,
    controller_options,
    warn_of_tls,
)
from ktui.cli.context.option import Option, add_option
from ktui.cli.context.terminal import (
    NOT_ALL_DONE,
    BadInput,
    confirm,
    print_note,
    telling_interrupts,
)
from ktui.cli.options import common
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cli.plan.make_options import EXCLUDE, parse_patterns
from ktui.cluster.clock import SystemClock
from ktui.cluster.settings import CORDONED
from ktui.cluster.text import clean
from ktui.columns import table_of
from ktui.execution import RunProblem, RunRefused
from ktui.execution.broker.cordon import Cordoner, CordonState, down_words
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
from ktui.execution.broker.unregister import check_unregister, kept_text, unregister_for_good
from ktui.execution.host.state_dir import StateDir
from ktui.ops.broker import runs
from ktui.ops.broker.runs import runs_on
from ktui.planning.intents.layout import Layout
from ktui.planning.plan import join_all
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


_dry_run_option = add_option("--dry-run", "Show the change, and send nothing.")

Act = Callable[[Cordoner], Awaitable[None]]


@click.command("cordon")
@broker_argument
@add_option(
    "--log-dir PATH",
    "Only this log dir, as `ktui broker status` shows it; may be repeated.",
    "paths",
    multiple=True,
)
@cluster_options
@_dry_run_option
@take_over_option
@common.state_dir_option
def cordon(
    broker: int,
    choice: ClusterChoice,
    *,
    paths: tuple[str, ...],
    dry_run: bool,
    take_over: bool,
    state: StateDir,
) -> None:
    """Keep new partitions from broker ID.

    Needs Kafka 4.3 or later. Sets cordoned.log.dirs of the broker, and reads back that the broker
    has it in force. Replicas that are there stay. On Kafka 4.3, reassignments may still bring
    others. From 4.4 on, Kafka refuses every list that names a cordoned broker: demote it first.
    """

    async def act(cordoner: Cordoner) -> None:
        before = await cordoner.read()
        _check_paths(before, paths)
        value = before.with_cordons(paths)
        if before.has(value):
            click.echo(
                f"nothing to do: broker {broker} is cordoned already: {clean(before.summary)}"
            )
            return
        click.echo(f"broker {broker}: {CORDONED}: {clean(before.value)} -> {clean(value)}")
        if dry_run:
            click.echo("nothing was sent")
            return
        click.echo(clean((await cordoner.cordon(before, value)).outcome))

    _run(choice, broker, state, act, take_over=take_over, dry_run=dry_run)


@click.command("uncordon")
@broker_argument
@cluster_options
@_dry_run_option
@take_over_option
@common.state_dir_option
def uncordon(
    broker: int, choice: ClusterChoice, *, dry_run: bool, take_over: bool, state: StateDir
) -> None:
    """Let new partitions come to broker ID again.

    Shows the cordon, no matter who set it, and removes it. What the broker's properties file
    cordons stays cordoned, and ktui says so.
    """

    async def act(cordoner: Cordoner) -> None:
        before = await cordoner.read()
        if before.setting.own is None:
            if before.cordoned:
                raise RunRefused(f"nothing was sent: {clean(before.by_file)}")
            click.echo(f"nothing to do: broker {broker} has no cordon")
            return
        click.echo(f"broker {broker}: {CORDONED}: {clean(before.value)} -> not set")
        if dry_run:
            click.echo("nothing was sent")
            return
        after = await cordoner.uncordon()
        if after.cordoned:
            raise RunProblem(f"the setting is removed, but {clean(after.by_file)}")
        click.echo(clean(after.outcome))

    _run(choice, broker, state, act, take_over=take_over, dry_run=dry_run)


def _run(
    choice: ClusterChoice, broker: int, state: StateDir, act: Act, *, take_over: bool, dry_run: bool
) -> None:
    cluster = choice.target(changes=not dry_run).cluster
    warn_of_tls(cluster)

    async def acted() -> None:
        async with cluster.ports() as ports:
            described = await ports.reader.describe_cluster()
            if broker not in described.online:
                raise BadInput(down_words(broker, described.online))
            if not dry_run:
                ownership = OwnerChoice(take_over)
                await check_owner(cluster, state, described.cluster_id, CORDON_CLAIM, ownership)
            await act(Cordoner(ports, broker, SystemClock()))

    with telling_interrupts(
        "interrupted: the change may have been sent. To see what is in force: ktui broker status "
        f"{broker}"
    ):
        asyncio.run(acted())


def _check_paths(now: CordonState, paths: tuple[str, ...]) -> None:
    unknown = [path for path in paths if path not in now.paths]
    if unknown:
        raise BadInput(
            f"--log-dir {clean(unknown[0])}: broker {now.broker} has {join_all(now.paths)}"
        )


CLAIM = "ktui broker unregister"
YES = "--yes"
GOES_FIRST = (
    "its throttles and its cordon go first, through a controller: they would outlive its "
    "registration. Other settings of its id stay"
)


@click.command("unregister")
@broker_argument
@add_option("--dry-run", "Check everything, and send nothing.")
@add_option(YES, "Unregister the broker without asking.")
@cluster_options
@controller_options
@take_over_option
@common.state_dir_option
def unregister(
    broker: int,
    choice: ClusterChoice,
    controllers: ControllerChoice,
    *,
    dry_run: bool,
    yes: bool,
    take_over: bool,
    state: StateDir,
) -> None:
    """Remove broker ID from the cluster, once it is down for good and holds nothing.

    Kafka itself would unregister any broker. ktui refuses while the broker is up, while any
    partition has it among its replicas, and while a run brings replicas to it. It reads back that
    the broker is gone. A broker that is started again registers again.

    Before that it deletes the broker's throttles and cordon through a controller: they would bind
    the next broker of this id.

    Exit code 0 if it is gone, 3 if it is gone and these settings may have stayed, 2 if nothing was
    changed, 1 if it stays without these settings, or nobody knows.
    """
    cluster = controllers.of(choice.target(changes=not dry_run).cluster)
    warn_of_tls(cluster)
    runs_of = runs_on(state)

    async def check() -> None:
        async with aclosing(cluster.reader()) as reader:
            found = await check_unregister(reader, broker, runs_of)
        if not (dry_run or take_over):
            await check_owner(cluster, state, found.cluster_id, CLAIM)

    async def send() -> str | None:  # it reads everything again after the question
        async with cluster.ports() as ports:
            cluster_id = (await ports.reader.describe_cluster()).cluster_id
            await check_owner(cluster, state, cluster_id, CLAIM, OwnerChoice(take_over))
            return await unregister_for_good(ports, broker, SystemClock(), runs_of, click.echo)

    asyncio.run(check())
    click.echo(f"broker {broker} is down, and no partition has it among its replicas")
    click.echo(GOES_FIRST)
    if dry_run:
        click.echo("nothing was sent")
        return
    if not yes:
        confirm(lambda: typed_id(broker), YES)
    with telling_interrupts(
        "interrupted: the request may have been sent. To see whether the broker is still "
        f"registered: ktui broker status {broker}"
    ):
        kept = asyncio.run(send())
    click.echo(f"broker {broker} is no longer registered")
    if kept is not None:
        click.echo(kept_text(broker, kept))
        sys.exit(NOT_ALL_DONE)


def typed_id(broker: int) -> bool:
    """Ask the operator for the broker's id, and return whether that was typed."""
    typed = click.prompt(
        f"To unregister broker {broker}, type its id", default="", show_default=False
    )
    return str(typed).strip() == str(broker)
