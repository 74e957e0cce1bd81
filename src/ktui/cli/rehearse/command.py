"""`ktui rehearse`: carry a plan out on a simulated twin of its cluster. Sends nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import click
import msgspec

from ktui.cli.context.errors import BadInput
from ktui.cli.context.terminal import has_terminal, print_note
from ktui.cli.options import common
from ktui.cli.options.plan import BAD_PLAN, allowance_options, read_plan_argument
from ktui.cli.output.plan_report import finding_line
from ktui.cli.rehearse.options import (
    RehearseOptions,
    StartCommand,
    TwinSource,
    options_as_given,
    rehearse_options,
)
from ktui.cli.twin.report import Report, rehearsal_json, rehearsal_text
from ktui.cli.twin.snapshot import twin_notes, twin_of_cluster
from ktui.planning.check.findings import Allowances
from ktui.planning.plan import Plan
from ktui.quantities import as_count
from ktui.rehearsal.twin import Twin, load_twin, twin_of
from ktui.rehearsal.twins import Prepared, Thresholds, check, prepare, rehearse
from ktui.simulated.scenario.record import FASTEST

DOES_NOT_HOLD = 3
USUAL_SPEED = 10.0
"""Seconds of the twin in a second of the view."""


@click.command("rehearse")
@click.argument("path", metavar="PLAN", type=click.Path(path_type=Path))
@common.json_option
@allowance_options
@click.option("--headless", is_flag=True, help="Print the report, as fast as it can be had.")
@common.speed_option(
    0.1, FASTEST, f"In the view: simulate N seconds in each second; {USUAL_SPEED:g} by default."
)
@rehearse_options
def command(
    path: Path,
    *,
    source: TwinSource,
    json: bool,
    headless: bool,
    speed: float | None,
    allowed: Allowances,
    how: RehearseOptions,
) -> None:
    """Carry out PLAN on a simulated twin of its cluster, and show what it would do. Sends nothing.

    On a terminal, the live view shows the usual twin, marked as SIMULATED, and one may break it
    there. With --headless, --json or a threshold, and without a terminal, there is a report.

    The twin is a snapshot of the cluster, taken now, or with --on a file that `ktui snapshot` or
    you have made: then no cluster is needed.

    The engine, its limits and its throttles are those of `ktui start`. Where the copy rate is not
    known, a report is about three twins: a slow, a usual and a fast one.

    Exit code of a report: 0 when every partition comes to its target on each twin and all
    thresholds hold, 3 when not, 2 when a start would be refused or an option cannot be used.
    """
    in_view = _in_view(speed, headless=headless, json=json, how=how)
    plan_source, plan = read_plan_argument(path)
    twin = _twin(source, plan)
    if how.rate is not None:
        twin = twin.at(float(how.rate))
    faults = how.faults(twin.spec)
    prepared = prepare(how.rehearsed_run(source.context, path, plan, allowed), twin)
    for finding in prepared.preview.findings:
        print_note(finding_line(plan_source, finding))
    if prepared.rehearsal is None:
        _end_without_rehearsal(prepared)
    rehearsal = msgspec.structs.replace(prepared.rehearsal, faults=faults)
    start = StartCommand(
        path=path,
        given=options_as_given(),
        context=source.context,
        state=source.state,
        exclude_internal=how.exclude_internal,
    )
    if in_view:
        from ktui.cli.rehearse.live import LivePlan, show_rehearsal  # noqa: PLC0415 - slow to import

        live = LivePlan(
            plan=plan_source,
            rehearsal=rehearsal,
            twin=twin,
            given_rate=how.rate is not None,
            findings=prepared.preview.findings,
            start=start,
            record=how.record,
        )
        click.echo(show_rehearsal(live, speed or USUAL_SPEED))
        return
    if sys.stderr.isatty():
        twins = as_count(len(twin.paces), "twin")
        print_note(f"rehearsing {as_count(len(plan.partitions), 'partition')} on {twins}")
    rehearsed = rehearse(rehearsal, twin, start=how.now, record=how.record)
    report = Report(
        plan=plan_source,
        twin=twin,
        given_rate=how.rate is not None,
        findings=prepared.preview.findings,
        twins=rehearsed,
        checks=check(rehearsed, how.thresholds),
        start=start.lines(rehearsed[0].summary.settings),
    )
    click.echo(rehearsal_json(report) if json else rehearsal_text(report))
    sys.exit(0 if report.holds else DOES_NOT_HOLD)


def _in_view(speed: float | None, *, headless: bool, json: bool, how: RehearseOptions) -> bool:
    """Return whether the rehearsal is shown in the view; else there is a report.

    Raises:
        BadInput: the options ask for a report, and for a speed.
    """
    asks = {
        "--headless": headless,
        "--json": json,
        "a threshold": how.thresholds != Thresholds(),
    }
    asked = next((option for option, given in asks.items() if given), None)
    if asked is None:
        return has_terminal()
    if speed is not None:
        raise BadInput(
            f"--speed is for the view, and {asked} asks for a report, which comes as fast as it "
            "can. Leave one of them out"
        )
    return False


def _twin(source: TwinSource, plan: Plan) -> Twin:
    """Return the twin to rehearse on: that of a file, or one of the cluster as it is now.

    Raises:
        BadInput: there is no twin of the cluster, or an option cannot be used.
        ClusterError: the cluster cannot be read.
        FileProblem: a file cannot be used; with the line.
    """
    if isinstance(source.twin, Path):
        return load_twin(source.twin)
    taken = twin_of_cluster(source.twin, plan, source.reading, source.state)
    for line in twin_notes(taken):
        print_note(line)
    return twin_of(source.twin.name, taken.spec, taken.info)


def _end_without_rehearsal(prepared: Prepared) -> NoReturn:
    if prepared.preview.problems:
        print_note("a start would be refused, so nothing was rehearsed")
        sys.exit(BAD_PLAN)
    print_note("nothing to do")
    sys.exit(0)
