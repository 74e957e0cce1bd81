"""`ktui insights`: what earlier runs tell of a cluster."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from ktui.cli import options
from ktui.cli.errors import BadInput
from ktui.cli.insights_text import insights_text
from ktui.cli.partition_json import encode
from ktui.cluster.text import clean
from ktui.execution.statedir import StateDir
from ktui.insights.file import insights_in, read_insights
from ktui.insights.insights import Insights


@click.command("insights")
@click.argument("path", metavar="[FILE]", type=click.Path(path_type=Path), required=False)
@click.option(
    "--lake",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Those that `ktui pipeline run` left in this lake.",
)
@click.option("--cluster", metavar="ID", help="Of this cluster only.")
@options.state_dir_option
@options.json_option
def command(
    path: Path | None, lake: Path | None, cluster: str | None, *, state: StateDir, json: bool
) -> None:
    """Show what recordings of earlier runs tell: rates, stalls, forecasts, limits to take.

    They are those of FILE, of a lake, or else of the state directory, where the live view finds
    them, too: `ktui pipeline run` puts them there.
    """
    if path is not None and lake is not None:
        raise click.UsageError("FILE and --lake exclude each other.")
    insights = read_insights(path) if path is not None else insights_in(lake or state.path)
    if cluster is not None:
        insights = _only(insights, cluster)
    if json:
        click.echo(encode(insights))
        return
    for line in insights_text(insights).split("\n"):
        click.echo(clean(line))


def _only(insights: Insights, cluster: str) -> Insights:
    of = insights.of(cluster)
    if of is None:
        known = ", ".join(each.cluster_id for each in insights.clusters) or "none"
        raise BadInput(f"--cluster {cluster}: nothing is known of it; known are: {clean(known)}")
    return msgspec.structs.replace(insights, clusters=(of,))
