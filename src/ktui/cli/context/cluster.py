"""The cluster that a verb works on, named by options, by a run or by the config file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
import msgspec

from ktui.cli.context.config import Config, Context, load_config
from ktui.cli.context.option import Grouped, add_option
from ktui.cli.context.terminal import BadInput, print_note
from ktui.cluster.clock import SystemClock
from ktui.cluster.ports import CanaryObstacles, ClusterPorts, Permissions
from ktui.cluster.text import clean
from ktui.execution import RunRefused
from ktui.inputfile import MOST_BYTES, Unreadable, expand_home, open_input
from ktui.kafka.connection.connection import Connection
from ktui.kafka.connection.properties import ConnectionProblem
from ktui.kafka.reader import KafkaReader

if TYPE_CHECKING:  # what only some verbs need is imported where it is used: `ktui list` is light
    from ktui.cluster.ownership import ClusterClaim, ClusterOwner
    from ktui.execution.run.events import Started
    from ktui.kafka.writer import KafkaWriter

T = TypeVar("T")

TLS_UNVERIFIED = "TLS unverified"

NONE_NAMED = """\
no cluster named.
Name one by its brokers: --bootstrap-server HOST:PORT
or by its context:       --context NAME"""


class Cluster(msgspec.Struct, frozen=True):
    """The chosen cluster, and how its user wants to see it."""

    name: str
    """The context's name, or the first bootstrap server.

    Both, if an option replaced the context's brokers.
    """
    connection: Connection
    context: Context
    theme: str | None
    bell: bool = True

    @property
    def unverified(self) -> tuple[str, ...]:
        """The checks that TLS leaves out, one sentence for each setting that disables one."""
        return self.connection.unverified

    async def permissions(self, topics: Collection[str]) -> Permissions:
        from ktui.kafka.capabilities import Capabilities  # noqa: PLC0415 - no light verb needs it

        async with aclosing(Capabilities(self.connection)) as capabilities:
            return await capabilities.permissions(topics)

    async def release(self) -> str | None:
        """Return the oldest Kafka release of the brokers that are up; None where not known."""
        from ktui.kafka.capabilities import Capabilities, oldest_release  # noqa: PLC0415 - no light verb needs it

        async with aclosing(Capabilities(self.connection)) as capabilities:
            return oldest_release(await capabilities.brokers())

    async def canary_obstacles(self, topic: str) -> CanaryObstacles:
        """Find out what keeps a canary from its topic, without a change to the cluster."""
        from ktui.kafka.canary import find_obstacles  # noqa: PLC0415 - only a canary needs the second client

        return await find_obstacles(self.connection, topic)

    def reader(self) -> KafkaReader:
        return KafkaReader(self.connection)

    def writer(self) -> KafkaWriter:
        from ktui.kafka.writer import KafkaWriter  # noqa: PLC0415 - no light verb needs it

        return KafkaWriter(self.connection)

    def ask(self, read: Callable[[KafkaReader], Coroutine[Any, Any, T]]) -> T:
        """Return what one use of a reader brings, outside of any event loop."""

        async def ask() -> T:
            async with aclosing(self.reader()) as reader:
                return await read(reader)

        return asyncio.run(ask())

    @asynccontextmanager
    async def ports(self) -> AsyncIterator[ClusterPorts]:
        async with aclosing(self.reader()) as reader, aclosing(self.writer()) as writer:
            yield ClusterPorts(reader, writer)

    def claim(
        self, me: ClusterOwner, cluster_id: str, over: KafkaReader | None = None
    ) -> ClusterClaim:
        """Return a claim; one that only reads shares the connections of `over`, a reader."""
        from ktui.cluster.group_claim import GroupClaim  # noqa: PLC0415 - no light verb needs it
        from ktui.kafka.claim import KafkaGroups  # noqa: PLC0415 - no light verb needs it

        groups = KafkaGroups(self.connection, wire=None if over is None else over.wire)
        return GroupClaim(groups, cluster_id, me, SystemClock())


def choose_cluster(
    bootstrap_server: str | None, command_config: Path | None, context_name: str | None
) -> Cluster:
    """Choose a cluster. An option wins over the same setting of the context.

    KTUI_CONTEXT counts only without any of the options. KTUI_BOOTSTRAP_SERVER counts only without
    --bootstrap-server and --context. So an option's credentials go to no cluster but its own.
    """
    config = load_config()
    bootstrap_server, command_config, context_name = _resolve_names(
        bootstrap_server, command_config, context_name
    )
    if context_name is None and bootstrap_server is None and command_config is None:
        raise BadInput(f"{NONE_NAMED}\n{_contexts(config)}")
    context = Context() if context_name is None else config.context(context_name)
    connection = _connection(config, context_name, context, bootstrap_server, command_config)
    return Cluster(
        _name(context_name, bootstrap_server, connection),
        connection,
        context,
        context.theme or config.theme,
        config.bell,
    )


def _resolve_names(
    bootstrap_server: str | None, command_config: Path | None, context_name: str | None
) -> tuple[str | None, Path | None, str | None]:
    """Return the names of the cluster: the options, or else the environment."""
    if context_name is None and bootstrap_server is None:
        bootstrap_server = os.environ.get("KTUI_BOOTSTRAP_SERVER") or None
        if command_config is None:
            context_name = os.environ.get("KTUI_CONTEXT") or None
    return bootstrap_server, command_config, context_name


def _name(context: str | None, bootstrap_server: str | None, connection: Connection) -> str:
    first = clean(connection.bootstrap_servers[0])
    if context is None:
        return first
    name = clean(context)
    return name if bootstrap_server is None else f"{name} at {first}"


def _connection(
    config: Config,
    name: str | None,
    context: Context,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> Connection:
    properties: Mapping[str, object] = context.properties
    where = "the options" if name is None else config.place(name, "properties")
    places: Mapping[str, str] = {}
    if name is not None:
        places = {str(key): config.place(name, "properties", str(key)) for key in properties}
    if name is not None and command_config is None and context.command_config is not None:
        command_config = _beside(config, config.place(name, "command_config"), context)
    try:
        return Connection.of(
            properties,
            where=where,
            places=places,
            folder=config.path.parent,
            file=config.path,
            command_config=command_config,
            bootstrap_server=bootstrap_server,
            cluster_id=context.cluster_id,
        )
    except ConnectionProblem as problem:
        raise BadInput(str(problem)) from problem


def _beside(config: Config, where: str, context: Context) -> Path:
    """Return the path of a context's file, which may be relative to the config file."""
    file = context.command_config or ""
    try:
        path = config.path.parent / expand_home(file)
        with open_input(path, MOST_BYTES):
            return path
    except Unreadable as why:
        raise BadInput(
            f"{where}: command_config: cannot read {clean(file)}: {why}. Name a client properties "
            "file; a relative path begins where config.yaml is"
        ) from None


def _contexts(config: Config) -> str:
    if not config.contexts:
        if config.file is None:
            return f"There is no {config.path} yet; contexts are defined there."
        return f"{config.path} defines no contexts yet."
    rows = [f"  {name:<20} {_servers(c)}" for name, c in sorted(config.contexts.items())]
    return "\n".join((f"Contexts of {config.path}:", *rows))


def _servers(context: Context) -> str:
    match context.properties.get("bootstrap.servers"):
        case str() as servers:
            return servers
        case list() as servers:
            return ",".join(map(str, servers))
    return context.command_config or ""


class ClusterChoice(NamedTuple):
    """The options that name a cluster; an absent one is None."""

    bootstrap_server: str | None = None
    command_config: Path | None = None
    context: str | None = None

    def or_of_run(self, begun: Started) -> ClusterChoice:
        """Return the same options; without any, those that named the cluster of a run."""
        if any(name is not None for name in self):
            return self
        at_start = begun.connection
        config = Path(at_start["command_config"]) if "command_config" in at_start else None
        return ClusterChoice(at_start.get("bootstrap_server"), config, at_start.get("context"))

    def cluster(self) -> Cluster:
        """Return the cluster, to be read only."""
        return choose_cluster(*self)

    def target(self, *, changes: bool = True) -> Target:
        """Return the cluster with its names. BadInput: it is not to be changed, or not named."""
        chosen = ClusterChoice(*_resolve_names(*self))
        cluster = chosen.cluster()
        if changes and cluster.context.read_only:
            raise BadInput(
                f"context {chosen.context} is read_only: nothing may be changed on it. Remove that "
                "line from config.yaml, or name another context"
            )
        config = chosen.command_config
        options = {**chosen._asdict(), "command_config": config and config.absolute()}
        names = {name: str(value) for name, value in options.items() if value is not None}
        for name, value in names.items():
            _check_text(f"--{name.replace('_', '-')}", value)
        return Target(cluster, names)


class ControllerChoice(NamedTuple):
    """The options that name controllers, where those that brokers name cannot be reached."""

    bootstrap_controller: str | None = None
    controller_config: Path | None = None

    def of(self, cluster: Cluster) -> Cluster:
        """Return the cluster with these controllers; without an option, as it is."""
        servers, config = self
        if servers is None:
            if config is not None:
                raise BadInput("--controller-config needs --bootstrap-controller HOST:PORT")
            return cluster
        try:
            named = Connection.of(command_config=config, bootstrap_server=servers)
        except ConnectionProblem as problem:
            raise BadInput(f"--bootstrap-controller: {problem}") from problem
        if config is None:  # as the brokers are reached
            named = cluster.connection.at(servers, "")
        connection = cluster.connection.with_controllers(named)
        return msgspec.structs.replace(cluster, connection=connection)


class Target(msgspec.Struct, frozen=True):
    """The cluster of a run, and its names, by which the engine finds the cluster."""

    cluster: Cluster
    names: Mapping[str, str]
    """bootstrap_server, command_config (absolute) and context, without the absent ones."""


def _check_text(option: str, value: str) -> None:
    """Refuse bytes that are not text, which the journal of a run cannot store."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadInput(
            f"{option} {clean(value)}: is not UTF-8, so the run cannot store it. Rename it"
        ) from None


async def read_cluster_id(cluster: Cluster) -> str:
    """Read the id of a cluster. Raises ClusterError: the cluster cannot be read."""
    async with aclosing(cluster.reader()) as reader:
        return (await reader.describe_cluster()).cluster_id


async def check_cluster(where: Target, cluster_id: str) -> None:
    """Check that a cluster is the cluster of a run."""
    check_same_cluster(where, await read_cluster_id(where.cluster), cluster_id)


def check_same_cluster(where: Target, found: str, cluster_id: str) -> None:
    """Check that the id of a cluster is that of a run's cluster."""
    if found != cluster_id:
        raise RunRefused(
            f"{where.cluster.name} is cluster {found}, but the run belongs to cluster "
            f"{cluster_id}. Name that one with --bootstrap-server, --command-config or --context"
        )


def warn_of_tls(cluster: Cluster) -> None:
    """Warn the operator of the checks that TLS leaves out."""
    for sentence in cluster.unverified:
        print_note(f"warning: {TLS_UNVERIFIED}: {sentence}")


def complete_context(_context: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    """Return the contexts of config.yaml whose names begin so, for a shell."""
    return [name for name in load_config().contexts if name.startswith(begun)]


cluster_options = Grouped(
    "choice",
    ClusterChoice,
    add_option(
        "--bootstrap-server HOST:PORT,...",
        "Brokers to connect to first. Default: $KTUI_BOOTSTRAP_SERVER.",
    ),
    add_option(
        "--command-config FILE",
        "Client properties file, with Java's or librdkafka's property names.",
        type=click.Path(path_type=Path),
    ),
    add_option(
        "--context NAME",
        "A cluster from your config.yaml. Default: $KTUI_CONTEXT.",
        shell_complete=complete_context,
    ),
)

controller_options = Grouped(
    "controllers",
    ControllerChoice,
    add_option(
        "--bootstrap-controller HOST:PORT,...",
        "Controllers, through which settings of a broker that is down are deleted. Default: "
        "those that the brokers name.",
    ),
    add_option(
        "--controller-config FILE",
        "Client properties file for them. Default: the brokers' connection settings.",
        type=click.Path(path_type=Path),
    ),
)
