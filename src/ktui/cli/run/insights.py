"""`ktui insights`: what earlier runs show about a cluster."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from ktui.cli.context.errors import BadInput
from ktui.cli.context.option import add_option
from ktui.cli.options import common
from ktui.cli.output.json_form import encode
from ktui.cli.run.runs import local_time
from ktui.cluster.text import clean, marked
from ktui.execution.host.state_dir import StateDir
from ktui.insights import (
    NOTHING,
    ClusterInsights,
    Insights,
    InsightsSection,
    insights_in,
    read_insights,
    sections,
)
from ktui.quantities import as_count


def insights_text(insights: Insights) -> str:
    """Return the insights of all clusters; without any, how to make them."""
    if not insights.clusters:
        return NOTHING
    made = f"made {local_time(insights.made_at)} by ktui {insights.version}"
    return "\n\n".join([made, *map(_cluster, insights.clusters)])


def _cluster(of: ClusterInsights) -> str:
    span = f", {local_time(of.began)} to {local_time(of.ended)}" if of.began is not None else ""
    basis = f"{as_count(of.runs, 'run')}, {as_count(of.moves, 'move')}{span}"
    cluster = marked(of.cluster_id, of.cluster_id)
    return "\n\n".join([f"cluster {cluster}: {basis}", *map(_section, sections(of))])


def _section(section: InsightsSection) -> str:
    more = [section.more] if section.more else []
    return "\n".join([section.title, *section.lines(), *more])


@click.command("insights")
@click.argument("path", metavar="[FILE]", type=click.Path(path_type=Path), required=False)
@add_option(
    "--lake DIR",
    "Read the insights that `ktui pipeline run` wrote into this lake.",
    type=click.Path(path_type=Path, file_okay=False),
)
@add_option("--cluster ID", "Show this cluster only.")
@common.state_dir_option
@common.json_option
def command(
    path: Path | None, lake: Path | None, cluster: str | None, *, state: StateDir, json: bool
) -> None:
    """Show what recordings of earlier runs reveal: rates, stalls, forecasts, limits to choose.

    Insights come from FILE, from a lake, or else from the state directory. `ktui pipeline run`
    writes them there, and the live view reads them there, too.
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
        raise BadInput(
            f"--cluster {cluster}: there are no insights for it. Known clusters: {clean(known)}"
        )
    return msgspec.structs.replace(insights, clusters=(of,))
