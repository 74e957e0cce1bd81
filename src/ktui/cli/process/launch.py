"""Making a run, or taking one up again, in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path

import click
import msgspec

from ktui.cli.context.claim import NO_OWNERSHIP, Claiming, owned
from ktui.cli.context.cluster import Cluster, choose_cluster, named
from ktui.cli.context.errors import BadInput
from ktui.cli.options.common import state_option
from ktui.cli.output.gate import cluster_options, of_cluster, refuse_shut
from ktui.cluster.clock import SystemClock
from ktui.cluster.text import clean
from ktui.execution.errors import RunProblem, RunRefused
from ktui.execution.host.catalog import check_one_throttle
from ktui.execution.host.hand_over import refuse_exported
from ktui.execution.host.launch import make_run, may_begin
from ktui.execution.host.ownership import LiveRun, OwnedElsewhere, starting
from ktui.execution.host.process import EngineProcess, spawn
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.follower import RunFollower
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import AnyRunEvent, JournalEntry, Started
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.check.snapshot import take_snapshot
from ktui.planning.plan import Plan

TLS_UNVERIFIED = "TLS unverified"

Names = tuple[str | None, Path | None, str | None]
"""How a cluster is named: bootstrap_server, command_config, context."""


class Target(msgspec.Struct, frozen=True):
    """The cluster of a run, and how it was named: a process of its own finds it by that."""

    cluster: Cluster
    names: Mapping[str, str]
    """bootstrap_server, command_config (absolute), context: those that were given."""


def target(
    bootstrap_server: str | None,
    command_config: Path | None,
    context: str | None,
    *,
    changes: bool = True,
) -> Target:
    """Choose a cluster that may be changed; or any, where nothing is to be.

    Raises:
        BadInput: none is named, its settings cannot be used, or the context is read-only.
        FileProblem: the config file cannot be used.
    """
    bootstrap_server, command_config, context = named(bootstrap_server, command_config, context)
    cluster = choose_cluster(bootstrap_server, command_config, context)
    if changes and cluster.context.read_only:
        raise BadInput(
            f"context {context} is read_only: nothing may be changed on it. Take that line out of "
            "config.yaml, or name another context"
        )
    names = {
        "bootstrap_server": bootstrap_server,
        "command_config": None if command_config is None else str(command_config.absolute()),
        "context": context,
    }
    given = {name: value for name, value in names.items() if value is not None}
    for name, value in given.items():
        _check_text(f"--{name.replace('_', '-')}", value)
    return Target(cluster, given)


def run_names(names: Names, begun: Started) -> Names:
    """Name the cluster of a run as at its start, unless an option names one."""
    if any(name is not None for name in names):
        return names
    then = begun.connection
    config = Path(then["command_config"]) if "command_config" in then else None
    return then.get("bootstrap_server"), config, then.get("context")


def _check_text(option: str, value: str) -> None:
    """See that a run can keep in mind what names its cluster.

    Raises:
        BadInput: it has bytes that are no text.
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadInput(
            f"{option} {clean(value)}: is not UTF-8, and is to be kept with the run. Rename it"
        ) from None


async def look(where: Target, plan: Plan, *, measure: bool = False) -> tuple[str, ClusterSnapshot]:
    """Give the cluster's id, and all that a plan is about.

    Args:
        where: the cluster.
        plan: what is asked for.
        measure: also what a throttle is held against, which takes some seconds.

    Raises:
        ClusterError: it cannot be asked.
    """
    reader = where.cluster.reader()
    try:
        cluster = await reader.describe_cluster()
        seen = await take_snapshot(reader, plan, SystemClock() if measure else None)
        return cluster.cluster_id, seen
    finally:
        await reader.aclose()


async def check_cluster(where: Target, cluster_id: str) -> None:
    """See that a cluster is the one that a run is of.

    Raises:
        RunRefused: it is another.
        ClusterError: it cannot be asked.
    """
    reader = where.cluster.reader()
    try:
        found = (await reader.describe_cluster()).cluster_id
    finally:
        await reader.aclose()
    if found != cluster_id:
        raise RunRefused(
            f"{where.cluster.name} is cluster {found}, and the run is of {cluster_id}. Name that "
            "one with --bootstrap-server, --command-config or --context"
        )


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run goes on, and how."""

    state: StateDir
    name: str
    cluster_id: str
    names: Mapping[str, str]
    until: datetime | None
    concurrent: bool
    """Whether another run may be live on the cluster."""
    record: bool | None = None
    """Whether the process records what it sees; None for as the run's options say."""
    owner: Claiming | None = None
    """How the cluster is owned; None for not at all."""

    @property
    def arguments(self) -> list[str]:
        """The command line of the process. There is no secret in it."""
        named = cluster_options(self.names)
        until = [] if self.until is None else ["--until", self.until.isoformat()]
        record = {None: [], True: ["--record"], False: ["--no-record"]}[self.record]
        unowned = [] if self.owner is not None else [NO_OWNERSHIP]
        where = ["--state-dir", str(self.state.path)]
        return ["engine", self.name, *where, *named, *until, *record, *unowned]

    def owned(self) -> AbstractContextManager[None]:
        """Own the cluster while the run is made, and from then on; see `claiming.owned`."""
        return nullcontext() if self.owner is None else owned(self.owner)


def begin(launch: Launch, first: Sequence[AnyRunEvent]) -> EngineProcess:
    """Make a new run, and give the process that carries it on.

    Raises:
        RunRefused: the name is taken, the state directory cannot be used, the cluster's cancel
            gate is shut, another run is live on it, or another state directory owns it.
        RunProblem: the journal cannot be written, or the process has died.
    """
    throttled = any(isinstance(e, Started) and e.options.throttle for e in first)

    def beside(live: Sequence[LiveRun]) -> None:
        refuse_shut(launch.state, launch.cluster_id, of_cluster(launch.names))
        _beside(live, launch)

    state, name = launch.state, launch.name
    with (
        may_begin(state, launch.cluster_id, name, throttled=throttled, beside=beside),
        launch.owned(),
    ):
        return spawn(make_run(state, name, first, SystemClock()), launch.arguments)


def take_up(launch: Launch, ask: Callable[[], None] = lambda: None) -> EngineProcess:
    """Give a process that carries a run on which no process owns.

    Args:
        launch: the run.
        ask: asks of the process what it is to begin with, once nothing is in its way.

    Raises:
        RunRefused: a process owns it by now, it was exported, another run is live on the cluster,
            or another state directory owns that.
        RunProblem: the journal cannot be read or written, or the process has died.
    """
    with starting(launch.state, launch.cluster_id) as live:
        for other in live:
            if other.name == launch.name:
                raise OwnedElsewhere(launch.name, other.holder)
        run = launch.state.run(launch.name)
        with RunFollower(run.journal) as follower:
            follower.refresh()
        refuse_exported(follower.run)
        _beside(live, launch)
        _refuse_copy(launch.state, run, live)
        if follower.run.throttled.rates:
            check_one_throttle(launch.state, launch.cluster_id, launch.name, resumed=True)
        with launch.owned():
            ask()
            return spawn(run, launch.arguments)


def say(line: str) -> None:
    """Tell the operator something beside what the verb is for."""
    click.echo(line, err=True)


def warn_of_tls(cluster: Cluster) -> None:
    """Warn the operator of what TLS does not verify."""
    for sentence in cluster.unverified:
        say(f"warning: {TLS_UNVERIFIED}: {sentence}")


def resume_command(state: StateDir, name: str) -> str:
    """Give the command that goes on with a run, from any shell like this one."""
    return f"ktui resume {name}{state_option(state)}"


def _beside(live: Sequence[LiveRun], launch: Launch) -> None:
    if not live:
        return
    others = "; ".join(f"run {other.name}, owned by {other.holder}" for other in live)
    if not launch.concurrent:
        raise RunRefused(
            f"another run is live on this cluster: {others}. Limits of runs know nothing of each "
            f"other. Have that run take a further plan: ktui add {live[0].name} PLAN; wait for its "
            "end; or let both go on with --concurrent"
        )
    say(f"warning: also live on this cluster: {others}. The limits of both add up")


def _refuse_copy(state: StateDir, run: RunDir, live: Sequence[LiveRun]) -> None:
    """See that a run is not the copy of one that is live.

    Each would take the other's steps for its own.

    Raises:
        RunRefused: it is.
    """
    ours = _first(run)
    for other in live:
        try:
            theirs = _first(state.run(other.name))
        except RunProblem as problem:
            raise RunRefused(
                f"run {other.name}, owned by {other.holder}, has no journal that can be read: "
                f"{problem}. Whether run {run.name} is a copy of it cannot be told. Have that "
                f"process leave it first: kill {other.holder.pid}"
            ) from None
        if theirs == ours:
            raise RunRefused(
                f"run {run.name} is a copy of run {other.name}, which is owned by {other.holder}. "
                f"One of them may go on. Wait for the end of run {other.name}"
            )


def _first(run: RunDir) -> JournalEntry | None:
    with Journal.open(run.journal, SystemClock(), read_only=True) as journal:
        return journal.first()
