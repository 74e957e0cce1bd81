"""Take the twin of a real cluster; `ktui snapshot` saves it as a scenario file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from ktui.cli.context.cluster import Cluster, ClusterChoice, cluster_options
from ktui.cli.context.option import Grouped, add_option
from ktui.cli.context.terminal import BadInput, print_note
from ktui.cli.options import common
from ktui.cli.options.outward import redaction
from ktui.cli.options.plan import read_plan_argument
from ktui.cluster.clock import SystemClock
from ktui.cluster.text import clean
from ktui.durable import write_output
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.host.state_dir import StateDir
from ktui.insights import read_insights
from ktui.planning.plan import Plan
from ktui.quantities import Seconds, as_bytes, as_count, as_duration, as_rate
from ktui.simulated.layout import VERSIONS
from ktui.simulated.scenario.file import RatesFrom, SnapshotRates
from ktui.simulated.twin import CannotSnapshot, ClusterTwin, Hide, keep, take_twin, twin_text
from ktui.simulated.twin_parts import rates_of

R = TypeVar("R")
_MEASURED = "60s"


class TwinReading(msgspec.Struct, frozen=True):
    """How a cluster is read for its twin."""

    measure: str | None = None
    insights: Path | None = None

    @property
    def measure_s(self) -> float:
        """How long inbound rates are measured, in seconds; 0 for not at all."""
        measure = _MEASURED if self.measure is None else self.measure
        return common.parse_amount("--measure", Seconds, measure)

    @property
    def named(self) -> str | None:
        if self.measure is not None:
            return "--measure"
        return None if self.insights is None else "--insights"


twin_reading_options = Grouped(
    "reading",
    TwinReading,
    add_option(
        "--measure TIME",
        f"Measure for this time what producers write, such as 5m; {_MEASURED} by default. "
        "0 for not at all.",
    ),
    add_option(
        "--insights FILE",
        "Take the copy rates from these insights. Default: those of the state directory.",
        type=click.Path(path_type=Path),
    ),
)


def twin_of_cluster(
    cluster: Cluster, plan: Plan | None, reading: TwinReading, state: StateDir, hide: Hide = keep
) -> ClusterTwin:
    """Read a cluster, say so, and return its twin."""
    measure_s = reading.measure_s
    if measure_s:
        print_note(f"reading {cluster.name}, and measuring for {as_duration(measure_s)}")
    try:
        return asyncio.run(take_cluster_twin(cluster, plan, reading, state, hide))
    except CannotSnapshot as problem:
        raise BadInput(str(problem)) from None


def _twin_contents(twin: ClusterTwin) -> str:
    topics = twin.spec.topics
    partitions = sum(len(topic.replicas) for topic in topics)
    held = sum(topic.size(number) for topic in topics for number in range(len(topic.replicas)))
    brokers, of = as_count(len(twin.spec.brokers), "broker"), as_count(len(topics), "topic")
    return f"{as_count(partitions, 'partition')} of {of} on {brokers}, {as_bytes(held)}"


def twin_notes(twin: ClusterTwin) -> Iterator[str]:
    """Yield what was assumed, and what is left out."""
    rates = twin.info.rates
    figures = f"{as_rate(rates.usual)} ({as_rate(rates.slow)} to {as_rate(rates.fast)})"
    if rates.source is RatesFrom.RECORDED:
        yield f"a broker takes copies in at {figures}, as earlier runs show"
    else:
        yield (
            f"a broker takes copies in at {figures}: assumed, for no earlier run shows it. See: "
            "ktui insights"
        )
    for note in twin.notes:
        yield f"note: {note}"


async def take_cluster_twin(
    cluster: Cluster, plan: Plan | None, reading: TwinReading, state: StateDir, hide: Hide = keep
) -> ClusterTwin:
    """Read a cluster through a connection of its own, and return its twin."""
    version = _version(await cluster.release())
    async with aclosing(cluster.reader()) as reader:
        return await take_twin(
            reader,
            SystemClock(),
            rates=partial(_rates, reading.insights, state),
            plan=plan,
            measure_s=reading.measure_s,
            version=version,
            hide=hide,
        )


def _version(release: str | None) -> str | None:
    if release is None or release in VERSIONS:
        return release
    return VERSIONS[0] if release.startswith("before") else VERSIONS[-1]


def _rates(path: Path | None, state: StateDir, cluster_id: str) -> SnapshotRates:
    if path is None:
        return rates_of(EarlierRuns(state)(cluster_id))
    insights = read_insights(path)
    found = insights.of(cluster_id)
    if found is None:
        known = ", ".join(each.cluster_id for each in insights.clusters) or "none"
        raise BadInput(
            f"--insights {path}: there are no insights into cluster {clean(cluster_id)}. Known "
            f"clusters: {clean(known)}"
        )
    return rates_of(found.prior)


_LONGEST_TITLE = 100
_PRIVATE = 0o600


@click.command("snapshot")
@click.argument("path", metavar="[PLAN]", type=click.Path(path_type=Path), required=False)
@cluster_options
@common.output_option("File to write the twin to. Default: standard output.")
@twin_reading_options
@add_option("--redact", "Hide the names of topics, racks and the cluster in the file.")
@common.state_dir_option
def command(
    path: Path | None,
    choice: ClusterChoice,
    *,
    output: Path | None,
    reading: TwinReading,
    redact: bool,
    state: StateDir,
) -> None:
    """Save the twin of a cluster: a scenario file, on which plans can be tried.

    Reads brokers, topics, sizes, settings, reassignments under way, and what producers write. With
    PLAN, a file in the format of kafka-reassign-partitions, only topics that share its brokers are
    in the twin. Changes nothing on the cluster. To play the file: `ktui demo FILE`. To rehearse a
    plan on it: `ktui rehearse PLAN --on FILE`.
    """
    plan = None if path is None else read_plan_argument(path)[1]
    cluster = choice.cluster()
    hide = redaction(state).hide if redact else keep
    twin = twin_of_cluster(cluster, plan, reading, state, hide)
    title = f"Snapshot of {hide('cluster', cluster.name)}"[:_LONGEST_TITLE]
    text = twin_text(twin, title, f"The twin of a real cluster: {_twin_contents(twin)}.")
    if output is None:
        click.echo(text, nl=False)
    else:
        write_output(output, text.encode(), mode=_PRIVATE)
        print_note(f"{output}: {_twin_contents(twin)}")
    for line in twin_notes(twin):
        print_note(line)
