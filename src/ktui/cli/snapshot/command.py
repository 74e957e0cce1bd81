"""`ktui snapshot`: save the twin of a cluster as a scenario file. Changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from functools import partial
from pathlib import Path

import click

from ktui.cli.context.cluster import Cluster, ClusterChoice
from ktui.cli.context.errors import BadInput
from ktui.cli.context.terminal import print_note
from ktui.cli.options import common
from ktui.cli.options.cluster import cluster_options
from ktui.cli.options.plan import read_plan_argument
from ktui.cli.options.recording import redaction
from ktui.cluster.clock import SystemClock
from ktui.cluster.text import clean
from ktui.durable import write_whole
from ktui.execution.host.state_dir import StateDir
from ktui.insights.file import insights_of, read_insights
from ktui.planning.plan import Plan
from ktui.quantities import as_bytes, as_count, as_duration, as_rate
from ktui.simulated.layout import VERSIONS
from ktui.simulated.scenario.record import RatesFrom, SnapshotRates
from ktui.simulated.twin.rates import rates_of
from ktui.simulated.twin.scope import CannotSnapshot
from ktui.simulated.twin.take import ClusterTwin, Hide, keep, take_twin
from ktui.simulated.twin.text import twin_text

_LONGEST_TITLE = 100
_MEASURED = "60s"

RatesOf = Callable[[str], SnapshotRates]
"""Returns the rates of a cluster by its id."""


@click.command("snapshot")
@click.argument("path", metavar="[PLAN]", type=click.Path(path_type=Path), required=False)
@cluster_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File to write the twin to. Default: standard output.",
)
@click.option(
    "--measure",
    metavar="TIME",
    default=_MEASURED,
    help=f"Measure for this time what producers write, such as 5m; {_MEASURED} by default. 0 for "
    "not at all.",
)
@click.option(
    "--insights",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Take the copy rates from these insights. Default: those of the state directory.",
)
@click.option(
    "--redact", is_flag=True, help="Hide the names of topics, racks and the cluster in the file."
)
@common.state_dir_option
def command(
    path: Path | None,
    choice: ClusterChoice,
    *,
    output: Path | None,
    measure: str,
    insights: Path | None,
    redact: bool,
    state: StateDir,
) -> None:
    """Save the twin of a cluster: a scenario file, on which plans can be tried.

    Reads brokers, topics, sizes, settings, reassignments under way, and what producers write. With
    PLAN, a file in the format of kafka-reassign-partitions, only topics that share its brokers are
    in the twin. Changes nothing on the cluster. To play the file: `ktui demo FILE`.
    """
    measure_s = common.parse_time("--measure", measure)
    if output is not None and not output.absolute().parent.is_dir():
        raise BadInput(f"-o {output}: there is no folder {output.absolute().parent}. Make it first")
    plan = None if path is None else read_plan_argument(path)[1]
    cluster = choice.cluster()
    rates = partial(_rates, insights, state)
    hide = redaction(state).hide if redact else keep
    if measure_s:
        print_note(f"reading {cluster.name}, and measuring for {as_duration(measure_s)}")
    try:
        twin = asyncio.run(_take(cluster, plan, measure_s, rates, hide))
    except CannotSnapshot as problem:
        raise BadInput(str(problem)) from None
    title = f"Snapshot of {hide('cluster', cluster.name)}"[:_LONGEST_TITLE]
    text = twin_text(twin, title, f"The twin of a real cluster: {_contents(twin)}.")
    if output is None:
        click.echo(text, nl=False)
    else:
        write_whole(output, text.encode())
        print_note(f"{output}: {_contents(twin)}")
    for line in _notes(twin):
        print_note(line)


async def _take(
    cluster: Cluster, plan: Plan | None, measure_s: float, rates: RatesOf, hide: Hide
) -> ClusterTwin:
    version = _version(await cluster.release())
    async with aclosing(cluster.reader()) as reader:
        return await take_twin(
            reader,
            SystemClock(),
            rates=rates,
            plan=plan,
            measure_s=measure_s,
            version=version,
            hide=hide,
        )


def _version(release: str | None) -> str | None:
    """Return the version of the simulator that is closest to a release of Kafka."""
    if release is None or release in VERSIONS:
        return release
    return VERSIONS[0] if release.startswith("before") else VERSIONS[-1]


def _rates(path: Path | None, state: StateDir, cluster_id: str) -> SnapshotRates:
    """Return the rates of a cluster: by the file that is named, or by the state directory."""
    if path is None:
        return rates_of(insights_of(state.path, cluster_id))
    insights = read_insights(path)
    found = insights.of(cluster_id)
    if found is None:
        known = ", ".join(each.cluster_id for each in insights.clusters) or "none"
        raise BadInput(
            f"--insights {path}: there are no insights into cluster {clean(cluster_id)}. Known "
            f"clusters: {clean(known)}"
        )
    return rates_of(found)


def _contents(twin: ClusterTwin) -> str:
    topics = twin.spec.topics
    partitions = sum(len(topic.replicas) for topic in topics)
    held = sum(topic.size(number) for topic in topics for number in range(len(topic.replicas)))
    brokers, of = as_count(len(twin.spec.brokers), "broker"), as_count(len(topics), "topic")
    return f"{as_count(partitions, 'partition')} of {of} on {brokers}, {as_bytes(held)}"


def _notes(twin: ClusterTwin) -> Iterator[str]:
    rates = twin.info.rates
    figures = f"{as_rate(rates.usual)} ({as_rate(rates.slow)} to {as_rate(rates.fast)})"
    if rates.source is RatesFrom.RECORDED:
        yield f"a broker takes copies in at {figures}, as recorded runs show"
    else:
        yield (
            f"a broker takes copies in at {figures}: assumed, for no recorded run shows it. See: "
            "ktui insights"
        )
    for note in twin.notes:
        yield f"note: {note}"
