"""What `ktui pipeline run` does; also a program for spark-submit, with the same arguments.

spark-submit --py-files ktui.zip job.py --recordings URI --lake URI
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from ktui.execution.statedir import StateDir
from ktui.insights.file import share_insights
from ktui.pipeline.decode import Choice
from ktui.pipeline.options import lake_of, lake_option, master_option, spark_for, state_dir_option
from ktui.pipeline.outlook_options import asked_of, outlook_options
from ktui.pipeline.problem import PipelineProblem
from ktui.pipeline.run import Outcome, Wanted, run
from ktui.quantities import as_count
from ktui.recording.milliseconds import wall_ms


class Moment(click.ParamType[datetime]):
    """A date, or a date and time; local unless an offset stands with it."""

    name = "moment"

    def convert(
        self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Read one."""
        if isinstance(value, datetime):
            return value
        try:
            return datetime.fromisoformat(value).astimezone()
        except (ValueError, OverflowError):
            self.fail(
                f"{value!r} is no time. Give a date, or a date and time: 2026-11-21, "
                "2026-11-21T15:00, 2026-11-21T15:00+01:00",
                param,
                ctx,
            )


@click.command("run")
@click.option(
    "--recordings",
    metavar="DIR",
    multiple=True,
    help="A file or folder of recordings, searched however deep, by path or URI; may be repeated. "
    "Else the state directory.",
)
@lake_option
@master_option
@click.option("--cluster", "clusters", metavar="ID", multiple=True, help="Only this cluster's.")
@click.option(
    "--since", type=Moment(), metavar="TIME", help="Only segments with anything from then on."
)
@click.option(
    "--until", type=Moment(), metavar="TIME", help="Only segments with anything up to then."
)
@outlook_options
@state_dir_option
def command(
    *,
    recordings: tuple[str, ...],
    lake: str | None,
    master: str | None,
    clusters: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    state: StateDir,
    **outlook: Any,
) -> None:
    """Bring the tables up to date with the recordings.

    Only segments that are new to the lake are read; the tables of the clusters that they are of are
    worked out anew, those of all others stay. Readers of the lake see the version before until all
    of the new one is written, and nothing else if this is ended before.

    Segments that are left out by --cluster, --since or --until are read by a later run without.
    """
    choice = Choice(
        since_ms=None if since is None else wall_ms(since),
        until_ms=None if until is None else wall_ms(until),
        clusters=frozenset(clusters),
    )
    places = recordings or (str(state.path),)
    asked = asked_of(outlook)
    wanted = Wanted(places, lake_of(lake, state), choice, asked)
    with spark_for(master, state) as (spark, tell):
        outcome = run(spark, wanted, tell)
    click.echo(told(outcome, wanted.lake))
    if outcome.insights is not None and not outlook["keep_insights"]:
        share_insights(outcome.insights, state.path)
    for problem in outcome.problems:
        click.echo(f"ktui: {problem}", err=True)


def told(outcome: Outcome, lake: str) -> str:
    """Say what a run did."""
    return "\n".join(_told(outcome, lake))


def _told(outcome: Outcome, lake: str) -> Iterator[str]:
    if outcome.read:
        read = as_count(outcome.read, "new segment")
        clusters = as_count(len(outcome.clusters), "cluster")
        yield f"{lake}, version {outcome.manifest.version}: {read} of {clusters}"
        for name, parts in outcome.manifest.tables.items():
            yield f"  {name:<12} {sum(part.rows for part in parts.values()):>14,} rows"
    else:
        yield f"{lake}: nothing new in {as_count(outcome.found, 'segment')}"
    if outcome.copies:
        yield f"Left out: {as_count(outcome.copies, 'file')} with the bytes of others"
    if outcome.unfinished:
        yield f"Left out: {as_count(outcome.unfinished, 'segment')} being written; run this later"


def main() -> None:
    """Be the program that spark-submit starts."""
    try:
        command()
    except PipelineProblem as problem:
        click.echo(f"ktui: {problem}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
