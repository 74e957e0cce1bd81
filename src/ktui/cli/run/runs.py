"""`ktui runs` and `ktui insights`: the runs of the state directory, and what earlier ones show."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import click
import msgspec

from ktui.cli.context.option import LazyGroup, add_option, refuse_options_before_verb
from ktui.cli.context.terminal import BadInput
from ktui.cli.options import common
from ktui.cli.output.json_form import encode, encode_record
from ktui.cli.output.plan_check import gate_line, shut_gate
from ktui.cluster.text import clean, marked
from ktui.columns import Column, column, table_of
from ktui.execution.forecast.run_progress import RunProgress, all_runs
from ktui.execution.host.catalog import RunState
from ktui.execution.host.ownership import Holder, ShutGate
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.states import Stage
from ktui.insights import (
    NOTHING,
    ClusterInsights,
    Insights,
    InsightsSection,
    insights_in,
    read_insights,
    sections,
)
from ktui.planning.plan import join_some
from ktui.quantities import as_count

_STATES = {RunState.RESUMABLE: "waiting for resume"}


class RunsJson(msgspec.Struct, frozen=True):
    """The output of `ktui runs --json`."""

    state_dir: str
    runs: tuple[RunProgress, ...]
    cancel_gates: tuple[ShutGate, ...]  # the shut gates among the runs' clusters


_VERBS = {"export": "ktui.cli.run.hand_over:export", "import": "ktui.cli.run.hand_over:import_"}
"""These verbs talk to a cluster; the list does not."""


@click.command("runs", cls=LazyGroup, verbs=_VERBS, invoke_without_command=True)
@common.state_dir_option
@common.json_option
@click.pass_context
def command(context: click.Context, *, state: StateDir, json: bool) -> None:
    """List the runs of the state directory, newest first.

    The verbs move a run to another state directory.
    """
    if context.invoked_subcommand is None:
        _list(state, json=json)
    else:
        refuse_options_before_verb(context)


def _list(state: StateDir, *, json: bool) -> None:
    runs = all_runs(state)
    clusters = dict.fromkeys(run.cluster_id for run in runs if run.cluster_id is not None)
    gates = [shut for each in clusters if (shut := shut_gate(state, each)) is not None]
    if json:
        click.echo(encode_record(RunsJson(str(state.path), tuple(runs), tuple(gates))))
    elif runs:
        _print_table(runs)
        for gate in gates:
            name = next(run.name for run in runs if run.cluster_id == gate.cluster_id)
            click.echo(gate_line(gate, state, name))
    else:
        click.echo(_why_none(state))


def _why_none(state: StateDir) -> str:
    """Return why no run is listed: a state directory that was mistyped has none, either."""
    if not state.path.exists():
        return (
            f"No runs: there is no folder {state.path}. The first run creates it: ktui start PLAN"
        )
    if not state.runs.exists() and any(state.path.iterdir()):
        return f"No runs: ktui has never run a plan in {state.path}. Name another: --state-dir DIR"
    return f"No runs in {state.path} yet. Start one: ktui start PLAN"


def local_time(at: datetime | None) -> str:
    """Format a moment in local time, for people: "2026-11-21 15:02:31+01:00"."""
    return "-" if at is None else at.astimezone().isoformat(" ", timespec="seconds")


def state_in_words(state: RunState) -> str:
    """Return the words for the state of a run."""
    return _STATES.get(state, state.value)


def _print_table(runs: list[RunProgress]) -> None:
    click.echo(table_of(_COLUMNS, runs))
    for run in runs:
        if run.note is not None and run.state is not RunState.ENDED:
            by = f", by {run.note.who}" if run.note.who else ""
            what = clean(f"note: {run.note.text}{by}")
            click.echo(f"run {clean(run.name)}: {what}, {local_time(run.note.at)}")
    for run in runs:
        for words in filter(None, (run.problem, run.silence, run.extra_replicas, _late(run))):
            click.echo(f"ktui: run {clean(run.name)}: {clean(words)}", err=True)


def _late(run: RunProgress) -> str:
    """Name the requests of an ended run that may still take effect."""
    if not run.open_requests:
        return ""
    named = join_some([f"{each.topic}-{each.partition}" for each in run.open_requests], most=5)
    return (
        f"requests for {named} were not answered before it ended, and may take effect late. "
        "`ktui doctor` reports any that did"
    )


def _state(run: RunProgress) -> str:
    also = (
        (run.outage, "cluster lost"),
        (run.silence, "silent"),
        (run.throttle.remains, "throttle left"),
    )
    unknown = run.state is RunState.UNREADABLE
    words = () if unknown else (what for fact, what in also if fact is not None)
    return ", ".join((state_in_words(run.state), *words))


def _column(
    heading: str, cell: Callable[[RunProgress], str], *, right: bool = False
) -> Column[str]:
    """Return a column that is empty for a run whose journal cannot be read."""

    def of_run(run: RunProgress) -> str:
        return "-" if run.state is RunState.UNREADABLE else cell(run)

    return Column(heading=heading, cell=of_run, right=right)


def _ended(heading: str, stage: Stage) -> Column[str]:
    return _column(heading, lambda run: f"{run.stages.get(stage, 0):,}", right=True)


def _owner(owner: Holder | None) -> str:
    return "-" if owner is None else clean(f"{owner.pid} of {owner.user} on {owner.host}")


_COLUMNS = (
    column("RUN", lambda run: clean(run.name)),
    column("STATE", _state),
    _column("DONE", lambda run: f"{run.done:,}/{run.partitions:,}", right=True),
    _ended("CALLED OFF", Stage.CALLED_OFF),
    _ended("FAILED", Stage.FAILED),
    _ended("LEFT OUT", Stage.LEFT_OUT),
    _column("STARTED", lambda run: local_time(run.started_at)),
    _column("OWNER", lambda run: _owner(run.owner)),
    _column("CLUSTER", lambda run: clean(run.cluster_id or "-")),
    _column("PLAN", lambda run: clean(run.plan or "-")),
)


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
def insights_command(
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
