"""`ktui watch`, which is also bare `ktui`: the live view."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import click

from ktui.cli import options
from ktui.cli.cluster import Cluster, choose_cluster
from ktui.cli.config import config_dir
from ktui.cli.terminal import need_terminal
from ktui.cluster.clock import SystemClock
from ktui.cluster.observer import Observer
from ktui.tui.app import KtuiApp
from ktui.tui.themes import load_themes

LEAST_PATIENCE_S = 0.5
PATIENCE = 0.75
"""Share of the poll interval that a slow broker may take before the poll goes on without it."""


@click.command("watch")
@options.cluster_options
@options.topics_option("Show all partitions of this topic first; may be repeated.")
@click.option(
    "--poll-interval",
    type=click.FloatRange(0.1, 3600),
    metavar="SECONDS",
    help="Time between two polls; 1 s unless the context says otherwise.",
)
@click.option("--theme", metavar="NAME", help="The colour theme to start with.")
def command(
    bootstrap_server: str | None,
    command_config: Path | None,
    context: str | None,
    *,
    topics: tuple[str, ...],
    poll_interval: float | None,
    theme: str | None,
) -> None:
    """Watch partition reassignments live. Changes nothing on the cluster."""
    cluster = choose_cluster(bootstrap_server, command_config, context)
    need_terminal()
    interval_s = poll_interval or cluster.context.poll_interval
    asyncio.run(_watch(cluster, frozenset(topics), interval_s, theme or cluster.theme))


async def _watch(
    cluster: Cluster, topics: frozenset[str], interval_s: float, theme: str | None
) -> None:
    clock, reader = SystemClock(), cluster.reader()
    patience_s = max(LEAST_PATIENCE_S, PATIENCE * interval_s)
    observer = Observer(reader, clock, patience_s=patience_s)
    app = KtuiApp(
        observer,
        cluster_name=cluster.name,
        read_only=True,
        poll_interval_s=interval_s,
        theme=theme,
        themes=load_themes(config_dir() / "themes"),
        topics=topics,
        clock=clock,
    )
    # Ended by another process, the view still gives the terminal back as it was.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, app.exit)
    try:
        await app.run_async()
    finally:
        await observer.aclose()
        await reader.aclose()
