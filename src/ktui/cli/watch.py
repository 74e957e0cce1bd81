"""`ktui watch`, which is also bare `ktui`: the live view."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from pathlib import Path

import click
import msgspec

from ktui.cli import options
from ktui.cli.cluster import Cluster, choose_cluster
from ktui.cli.config import config_dir
from ktui.cli.start_launch import target
from ktui.cli.terminal import need_terminal
from ktui.cli.watch_engines import ProcessEngines
from ktui.cluster.clock import SystemClock
from ktui.cluster.observer import Observer
from ktui.execution.statedir import StateDir
from ktui.tui.app import KtuiApp
from ktui.tui.themes import load_themes

LEAST_PATIENCE_S = 0.5
PATIENCE = 0.75
"""Share of the poll interval that a slow broker may take before the poll goes on without it."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A live view, and what it may do."""

    cluster: Cluster
    state: StateDir
    names: Mapping[str, str] | None = None
    """How the cluster is named to a process of its own; None for a view that is read-only."""
    run: Path | None = None
    """The folder of the run to show; None for the cluster's live one, if there is one."""
    topics: frozenset[str] = frozenset()
    poll_interval_s: float | None = None
    theme: str | None = None


@click.command("watch")
@options.cluster_options
@options.topics_option("Show all partitions of this topic first; may be repeated.")
@click.option("--write", is_flag=True, help="Let runs be started and changed from the view.")
@click.option(
    "--poll-interval",
    type=click.FloatRange(0.1, 3600),
    metavar="SECONDS",
    help="Time between two polls; 1 s unless the context says otherwise.",
)
@click.option("--theme", metavar="NAME", help="The colour theme to start with.")
@options.state_dir_option
def command(  # noqa: PLR0913 - an option each
    bootstrap_server: str | None,
    command_config: Path | None,
    context: str | None,
    *,
    topics: tuple[str, ...],
    write: bool,
    poll_interval: float | None,
    theme: str | None,
    state: StateDir,
) -> None:
    """Watch partition reassignments live, and the run that moves them.

    Changes nothing on the cluster; with --write, runs can be started and changed from the view.
    """
    names = None
    if write:
        chosen = target(bootstrap_server, command_config, context)
        cluster, names = chosen.cluster, chosen.names
    else:
        cluster = choose_cluster(bootstrap_server, command_config, context)
    need_terminal()
    show(
        View(
            cluster=cluster,
            state=state,
            names=names,
            topics=frozenset(topics),
            poll_interval_s=poll_interval,
            theme=theme,
        )
    )


def show(view: View) -> None:
    """Show a live view until it is closed."""
    asyncio.run(_shown(view))


async def _shown(view: View) -> None:
    cluster = view.cluster
    clock, reader = SystemClock(), cluster.reader()
    interval_s = view.poll_interval_s or cluster.context.poll_interval
    patience_s = max(LEAST_PATIENCE_S, PATIENCE * interval_s)
    observer = Observer(reader, clock, patience_s=patience_s)
    engines = None
    if view.names is not None:
        engines = ProcessEngines(cluster, reader, view.names, view.state)
    app = KtuiApp(
        observer,
        cluster_name=cluster.name,
        read_only=view.names is None,
        poll_interval_s=interval_s,
        theme=view.theme or cluster.theme,
        themes=load_themes(config_dir() / "themes"),
        topics=view.topics,
        clock=clock,
        run=view.run,
        state_dir=view.state,
        engines=engines,
    )
    # Ended by another process, the view still gives the terminal back as it was.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, app.exit)
    try:
        await app.run_async()
    finally:
        await observer.aclose()
        await reader.aclose()
