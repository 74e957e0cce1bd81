"""`ktui pipeline run`: recordings into tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from ktui.cli.pipeline.lake_option import lake_of, lake_option
from ktui.cli.pipeline.options import (
    asked_of,
    master_option,
    outlook_options,
    spark_for,
    state_dir_option,
)
from ktui.cluster.text import clean
from ktui.execution.host.state_dir import StateDir
from ktui.insights.file import publish_insights
from ktui.pipeline.ingest.decode import SegmentSelection
from ktui.pipeline.run.follow import Follower
from ktui.pipeline.run.follow_report import FollowPrinter, ended_by_signals
from ktui.pipeline.run.run import PipelineOutcome, PipelineRequest, run
from ktui.pipeline.spark.executors import check_executors
from ktui.quantities import as_count
from ktui.recording.milliseconds import wall_ms
from ktui.units import Seconds, parse_quantity

_EVERY = "60s"
_MOST_TOLD = 50
"""Files of which it is said what is wrong with them."""


class MomentType(click.ParamType[datetime]):
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
    "--since", type=MomentType(), metavar="TIME", help="Only segments with anything from then on."
)
@click.option(
    "--until", type=MomentType(), metavar="TIME", help="Only segments with anything up to then."
)
@click.option(
    "--follow",
    is_flag=True,
    help="Go on, and read each segment when it is whole, until Ctrl-C or SIGTERM.",
)
@click.option(
    "--every",
    metavar="TIME",
    help=f"With --follow: time between two looks for segments, as 5m; {_EVERY} unless given.",
)
@outlook_options
@state_dir_option
def command(  # noqa: PLR0913 - an option each
    *,
    recordings: tuple[str, ...],
    lake: str | None,
    master: str | None,
    clusters: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    follow: bool,
    every: str | None,
    state: StateDir,
    **outlook: Any,
) -> None:
    """Bring the tables up to date with the recordings.

    Only segments that are new to the lake are read; the tables of the clusters that they are of are
    worked out anew, those of all others stay. Readers of the lake see the version before until all
    of the new one is written, and nothing else if this is ended before.

    Segments that are left out by --cluster, --since or --until are read by a later run without.

    With --follow it goes on so, and says a line for each version of the lake that it writes. Ended
    by Ctrl-C or SIGTERM, its exit code is 0; started again, it goes on where it was.
    """
    every_s = _every_s(every, follow=follow)
    choice = SegmentSelection(
        since_ms=None if since is None else wall_ms(since),
        until_ms=None if until is None else wall_ms(until),
        clusters=frozenset(clusters),
    )
    places = recordings or (str(state.path),)
    asked = asked_of(outlook)
    wanted = PipelineRequest(places, lake_of(lake, state), choice, asked)
    share = None if outlook["keep_insights"] else state.path
    if follow:
        _follow(wanted, every_s, master, state, share)
        return
    with _interrupted_in_words(wanted.lake), spark_for(master, state) as (spark, line):
        check_executors(spark.sparkContext, places, wanted.lake, line.tell)
        outcome = run(spark, wanted, line.tell)
    click.echo(told(outcome, wanted.lake))
    if outcome.insights is not None and share is not None:
        publish_insights(outcome.insights, share)
    for problem in outcome.problems[:_MOST_TOLD]:
        click.echo(f"ktui: {clean(problem)}", err=True)
    if len(outcome.problems) > _MOST_TOLD:
        others = as_count(len(outcome.problems) - _MOST_TOLD, "more file")
        click.echo(f"ktui: and {others} with something wrong", err=True)


@contextmanager
def _interrupted_in_words(lake: str) -> Iterator[None]:
    """Say what an interrupt means for the lake, wherever it comes."""
    try:
        yield
    except KeyboardInterrupt:
        words = "is whole; what is not in it yet is read by the next run"
        click.echo(f"ktui: interrupted; {lake} {words}", err=True)
        raise


def _follow(
    wanted: PipelineRequest, every_s: float, master: str | None, state: StateDir, share: Path | None
) -> None:
    with spark_for(master, state, "pipeline-follow.log") as (spark, line):
        check_executors(spark.sparkContext, wanted.recordings, wanted.lake, line.tell)
        said = FollowPrinter(line, wanted, every_s, share)
        follower = Follower(spark, wanted, every_s, said)
        with ended_by_signals(follower.end):
            follower.follow()
        said.ended()


def _every_s(text: str | None, *, follow: bool) -> float:
    """Read --every, in seconds."""
    if text is not None and not follow:
        raise click.UsageError("--every: goes with --follow")
    try:
        seconds: Seconds = parse_quantity(Seconds, text or _EVERY)
    except ValueError as error:
        raise click.UsageError(f"--every: {error}") from error
    if seconds <= 0:
        raise click.UsageError("--every: give a time above 0, such as 60s")
    return float(seconds)


def told(outcome: PipelineOutcome, lake: str) -> str:
    """Say what a run did."""
    return "\n".join(_told(outcome, lake))


def _told(outcome: PipelineOutcome, lake: str) -> Iterator[str]:
    if outcome.read:
        parse_quantity = as_count(outcome.read, "new segment")
        clusters = as_count(len(outcome.clusters), "cluster")
        yield f"{lake}, version {outcome.manifest.version}: {parse_quantity} of {clusters}"
        for name, parts in outcome.manifest.tables.items():
            yield f"  {name:<12} {sum(part.rows for part in parts.values()):>14,} rows"
    else:
        yield f"{lake}: nothing new in {as_count(outcome.found, 'segment')}"
    if outcome.copies:
        yield f"Left out: {as_count(outcome.copies, 'file')} with the bytes of others"
    if outcome.unfinished:
        yield f"Left out: {as_count(outcome.unfinished, 'segment')} being written; run this later"


__all__ = ["command"]
