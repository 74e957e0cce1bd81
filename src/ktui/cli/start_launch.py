"""Making a run, or taking one up again, in a process of its own."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import click
import msgspec

from ktui.cli.cluster import Cluster, choose_cluster, named
from ktui.cli.errors import BadInput
from ktui.cluster.clock import SystemClock
from ktui.cluster.text import clean
from ktui.execution.events import Event, Started
from ktui.execution.follow import RunFollower
from ktui.execution.journal import Journal
from ktui.execution.ownership import Held, LiveRun, starting
from ktui.execution.problem import RunRefused
from ktui.execution.process import EngineProcess, spawn
from ktui.execution.statedir import RunDir, StateDir, state_dir
from ktui.execution.unfinished import check_one_throttle
from ktui.planning.finding import ClusterSnapshot
from ktui.planning.plan import Plan
from ktui.planning.snapshot import take_snapshot


class Target(msgspec.Struct, frozen=True):
    """The cluster of a run, and how it was named: a process of its own finds it by that."""

    cluster: Cluster
    names: Mapping[str, str]
    """bootstrap_server, command_config (absolute), context: those that were given."""


def target(
    bootstrap_server: str | None, command_config: Path | None, context: str | None
) -> Target:
    """Choose a cluster that may be changed.

    Raises:
        BadInput: none is named, its settings cannot be used, or the context is read-only.
        FileProblem: the config file cannot be used.
    """
    bootstrap_server, command_config, context = named(bootstrap_server, command_config, context)
    cluster = choose_cluster(bootstrap_server, command_config, context)
    if cluster.context.read_only:
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

    @property
    def arguments(self) -> list[str]:
        """The command line of the process. There is no secret in it."""
        named = [(f"--{name.replace('_', '-')}", value) for name, value in self.names.items()]
        until = [] if self.until is None else [("--until", self.until.isoformat())]
        options = [("--state-dir", str(self.state.path)), *named, *until]
        return ["engine", self.name, *(word for option in options for word in option)]


def begin(launch: Launch, first: Sequence[Event]) -> EngineProcess:
    """Make a new run, and give the process that carries it on.

    Raises:
        RunRefused: the name is taken, the state directory cannot be used, or another run is live
            on the cluster.
        RunProblem: the journal cannot be written, or the process has died.
    """
    with starting(launch.state, launch.cluster_id) as live:
        throttled = any(isinstance(e, Started) and e.options.throttle for e in first)
        _beside(live, launch, throttled=throttled)
        run = launch.state.create_run(launch.name)
        _write(run, first)
        return spawn(run, launch.arguments)


def take_up(launch: Launch) -> EngineProcess:
    """Give a process that carries a run on which no process owns.

    Raises:
        RunRefused: a process owns it by now, or another run is live on the cluster.
        RunProblem: the journal cannot be read or written, or the process has died.
    """
    with starting(launch.state, launch.cluster_id) as live:
        for other in live:
            if other.name == launch.name:
                raise Held(launch.name, other.holder)
        run = launch.state.run(launch.name)
        with RunFollower(run.journal) as follower:
            follower.refresh()
        _beside(live, launch, throttled=bool(follower.run.throttled.rates))
        return spawn(run, launch.arguments)


def say(line: str) -> None:
    """Tell the operator something beside what the verb is for."""
    click.echo(line, err=True)


def resume_command(state: StateDir, name: str) -> str:
    """Give the command that goes on with a run, from any shell like this one."""
    where = "" if state == state_dir(None) else f" --state-dir {shlex.quote(str(state.path))}"
    return f"ktui resume {name}{where}"


def _beside(live: Sequence[LiveRun], launch: Launch, *, throttled: bool) -> None:
    if not live:
        return
    others = "; ".join(f"run {other.name}, owned by {other.holder}" for other in live)
    if not launch.concurrent:
        raise RunRefused(
            f"another run is live on this cluster: {others}. Limits of runs know nothing of each "
            "other. Wait for its end, or let both go on with --concurrent"
        )
    if throttled:
        check_one_throttle(launch.state, launch.cluster_id, launch.name)
    say(f"warning: also live on this cluster: {others}. The limits of both add up")


def _write(run: RunDir, first: Sequence[Event]) -> None:
    """Write a journal's beginning; without it, there is no run."""
    try:
        with Journal.create(run.journal, SystemClock()) as journal:
            journal.append(first)
    except BaseException:
        shutil.rmtree(run.path, ignore_errors=True)
        raise
