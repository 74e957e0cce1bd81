"""The cluster that a verb works on, chosen by its options and the config file."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from ktui.cli.context.config import Config, Context, load_config
from ktui.cli.context.errors import BadInput
from ktui.cluster.clock import SystemClock
from ktui.cluster.group_claim import GroupClaim
from ktui.cluster.ownership import ClusterClaim, ClusterOwner
from ktui.cluster.text import clean
from ktui.inputfile import Unreadable, expand_home
from ktui.kafka.capabilities import Capabilities, Permissions
from ktui.kafka.claim import KafkaGroups
from ktui.kafka.connection.connection import Connection
from ktui.kafka.connection.errors import ConnectionProblem
from ktui.kafka.reader import KafkaReader
from ktui.kafka.writer import KafkaWriter

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

    @property
    def unverified(self) -> tuple[str, ...]:
        """The checks that TLS leaves out, one sentence for each setting that disables one."""
        return self.connection.unverified

    async def permissions(self, topics: Collection[str]) -> Permissions:
        """Read what the principal may do on the cluster and on topics.

        Raises:
            ClusterError: no broker answers.
        """
        capabilities = Capabilities(self.connection)
        try:
            return await capabilities.permissions(topics)
        finally:
            await capabilities.aclose()

    def reader(self) -> KafkaReader:
        """Return a reader; it connects at its first call."""
        return KafkaReader(self.connection)

    def writer(self) -> KafkaWriter:
        """Return a writer; it connects at its first call."""
        return KafkaWriter(self.connection)

    def claim(self, me: ClusterOwner, cluster_id: str) -> ClusterClaim:
        """Return a claim; it connects at its first call."""
        return GroupClaim(KafkaGroups(self.connection), cluster_id, me, SystemClock())


def choose_cluster(
    bootstrap_server: str | None, command_config: Path | None, context_name: str | None
) -> Cluster:
    """Choose a cluster. An option wins over the same setting of the context.

    KTUI_CONTEXT counts only without any of the options. KTUI_BOOTSTRAP_SERVER counts only without
    --bootstrap-server and --context. So an option's credentials go to no cluster but its own.

    Raises:
        BadInput: no cluster is named, or its connection settings cannot be used.
        FileProblem: the config file cannot be used, or has no such context.
    """
    config = load_config()
    bootstrap_server, command_config, context_name = resolve_names(
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
    )


def resolve_names(
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
    resolve_names = clean(context)
    return resolve_names if bootstrap_server is None else f"{resolve_names} at {first}"


def _connection(
    config: Config,
    name: str | None,
    context: Context,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> Connection:
    properties: Mapping[str, object] = context.properties
    where = "the options" if name is None else f"{config.path}, context {name}"
    if command_config is None and context.command_config is not None:
        command_config = _beside(config, where, context.command_config)
    try:
        return Connection.of(
            properties,
            where=where,
            folder=config.path.parent,
            file=config.path,
            command_config=command_config,
            bootstrap_server=bootstrap_server,
        )
    except ConnectionProblem as problem:
        raise BadInput(str(problem)) from problem


def _beside(config: Config, where: str, file: str) -> Path:
    """Return the path of a context's file, which may be relative to the config file."""
    try:
        return config.path.parent / expand_home(file)
    except Unreadable as why:
        raise BadInput(f"{where}: command_config: cannot read {clean(file)}: {why}") from None


def _contexts(config: Config) -> str:
    if not config.contexts:
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
