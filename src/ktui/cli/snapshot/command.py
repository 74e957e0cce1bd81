"""`ktui snapshot`: save the twin of a cluster as a scenario file. Changes nothing."""

from __future__ import annotations

from pathlib import Path

import click

from ktui.cli.context.cluster import ClusterChoice
from ktui.cli.context.terminal import print_note
from ktui.cli.options import common
from ktui.cli.options.cluster import cluster_options
from ktui.cli.options.plan import read_plan_argument
from ktui.cli.options.recording import redaction
from ktui.cli.twin.taking import (
    TwinReading,
    twin_contents,
    twin_notes,
    twin_of_cluster,
    twin_reading_options,
)
from ktui.durable import write_output
from ktui.execution.host.state_dir import StateDir
from ktui.simulated.twin.make import keep
from ktui.simulated.twin.text import twin_text

_LONGEST_TITLE = 100
_PRIVATE = 0o600


@click.command("snapshot")
@click.argument("path", metavar="[PLAN]", type=click.Path(path_type=Path), required=False)
@cluster_options
@click.option(
    "-o",
    "--output",
    type=common.OutputFile(),
    metavar="FILE",
    help="File to write the twin to. Default: standard output.",
)
@twin_reading_options
@click.option(
    "--redact", is_flag=True, help="Hide the names of topics, racks and the cluster in the file."
)
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
    text = twin_text(twin, title, f"The twin of a real cluster: {twin_contents(twin)}.")
    if output is None:
        click.echo(text, nl=False)
    else:
        write_output(output, text.encode(), mode=_PRIVATE)
        print_note(f"{output}: {twin_contents(twin)}")
    for line in twin_notes(twin):
        print_note(line)
