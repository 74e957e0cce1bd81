"""`ktui runs`: list every run of the state directory."""

from __future__ import annotations

from datetime import datetime

import click
import msgspec

from ktui.cli.context.lazy_group import LazyGroup, refuse_options_before_verb
from ktui.cli.options import common
from ktui.cli.output.gate import CancelGateJson, gate_json, gate_line, shut_gate
from ktui.cli.output.json_form import SCHEMA_VERSION, encode, utc
from ktui.cli.output.table import table
from ktui.cli.output.throttle_json import RatesJson, rates_json
from ktui.cluster.text import clean
from ktui.execution.host.catalog import RunState, RunSummary, all_runs
from ktui.execution.host.ownership import Holder
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.event_text import event_sentence
from ktui.execution.run.events import Recording
from ktui.execution.run.run import ClusterLost
from ktui.execution.run.states import State
from ktui.planning.names import join_some

_LEFT_OUT = (State.CHANGED_ELSEWHERE, State.TOPIC_GONE)
_BY_OPERATOR = (
    State.STOPPED,
    State.ROLLED_BACK,
    State.STOPPING,
    State.ROLLING_BACK,
    State.REFUSED,
)
_STATES = {RunState.RESUMABLE: "waiting for resume"}


class OwnerJson(msgspec.Struct, frozen=True):
    """The process that owns a run: its engine."""

    pid: int
    host: str
    user: str
    since: str


class OutageJson(msgspec.Struct, frozen=True):
    """A cluster that does not answer the engine: since when, and why."""

    since: str
    reason: str


class RecordingJson(msgspec.Struct, frozen=True):
    """Whether the engine of a run records, and the problem that stopped it."""

    on: bool
    problem: str | None


class RunJson(msgspec.Struct, frozen=True, kw_only=True):
    """One run. If it is unreadable, all but `name`, `state` and `problem` may be null."""

    name: str
    state: RunState
    cluster_id: str | None
    plan: str | None
    started_at: str | None
    ended_at: str | None
    owner: OwnerJson | None
    outage: OutageJson | None
    """Null while the cluster answers, and without an engine."""
    last_look_at: str | None
    """The time of the last poll by an engine of the run; null where it is not noted."""
    partitions: int
    counts: dict[State, int]
    throttle: RatesJson
    """The rates that the run wants."""
    open_requests: tuple[str, ...]
    """The partitions with a request that may take effect after the run has ended."""
    throttle_left: str | None
    """The throttles that stay though nothing is left to move, or the run has no engine; and why."""
    extra_replicas: str | None
    """How many partitions keep extra replicas since the run has no engine; null for none."""
    recording: RecordingJson
    note: str | None
    """The last note of an operator."""
    problem: str | None


class RunsJson(msgspec.Struct, frozen=True):
    """The output of `ktui runs --json`."""

    schema_version: int
    state_dir: str
    runs: tuple[RunJson, ...]
    cancel_gates: tuple[CancelGateJson, ...]
    """The shut gates among the runs' clusters."""


_VERBS = {
    "export": "ktui.cli.run.hand_over:export",
    "import": "ktui.cli.run.hand_over:import_",
}
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
        all_runs_json, all_shut = tuple(map(_run_json, runs)), tuple(map(gate_json, gates))
        click.echo(encode(RunsJson(SCHEMA_VERSION, str(state.path), all_runs_json, all_shut)))
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
        return f"No runs: there is no folder {state.path}. A start makes it: ktui start PLAN"
    if not state.runs.exists() and any(state.path.iterdir()):
        return f"No runs: ktui has never run a plan in {state.path}. Name another: --state-dir DIR"
    return f"No runs in {state.path} yet. Start one: ktui start PLAN"


def owner_json(owner: Holder | None) -> OwnerJson | None:
    """Return the JSON form of a run's owner."""
    if owner is None:
        return None
    return OwnerJson(owner.pid, owner.host, owner.user, utc(owner.since))


def outage_json(lost: ClusterLost | None) -> OutageJson | None:
    """Return the JSON form of an outage of the cluster."""
    return None if lost is None else OutageJson(utc(lost.since), lost.reason)


def recording_json(recording: Recording) -> RecordingJson:
    """Return the JSON form of a run's recording."""
    return RecordingJson(recording.on, recording.reason or None)


def local_time(at: datetime | None) -> str:
    """Format a moment in local time, for people: "2026-11-21 15:02:31+01:00"."""
    return "-" if at is None else at.astimezone().isoformat(" ", timespec="seconds")


def state_in_words(state: RunState) -> str:
    """Return the words for the state of a run."""
    return _STATES.get(state, state.value)


def _print_table(runs: list[RunSummary]) -> None:
    header = (
        "RUN",
        "STATE",
        "DONE",
        "CANCELLED",
        "FAILED",
        "LEFT OUT",
        "STARTED",
        "OWNER",
        "CLUSTER",
        "PLAN",
    )
    click.echo(table(header, [_row(run) for run in runs], right=(2, 3, 4, 5)))
    for run in runs:
        if run.note is not None and run.state is not RunState.ENDED:
            what = clean(event_sentence(run.note.event))
            click.echo(f"run {clean(run.name)}: {what}, {local_time(run.note.at)}")
    for run in runs:
        for words in filter(None, (run.problem, run.silence, run.extra_replicas, _late(run))):
            click.echo(f"ktui: run {clean(run.name)}: {clean(words)}", err=True)


def _late(run: RunSummary) -> str:
    """Name the requests of an ended run that may still take effect."""
    if not run.open_requests:
        return ""
    named = join_some([f"{each.topic}-{each.partition}" for each in run.open_requests], most=5)
    return (
        f"requests for {named} were not answered before it ended, and may take effect late. "
        "`ktui doctor` reports any that did"
    )


def _row(run: RunSummary) -> tuple[str, ...]:
    name, state = clean(run.name), state_in_words(run.state)
    if run.state is RunState.UNREADABLE:
        return (name, state, *("-" * 8))
    if run.outage is not None:
        state += ", cluster lost"
    if run.silence is not None:
        state += ", silent"
    if run.throttle_left is not None:
        state += ", throttle left"
    counts = run.counts
    return (
        name,
        state,
        f"{counts.get(State.DONE, 0):,}/{run.partitions:,}",
        f"{sum(counts.get(each, 0) for each in _BY_OPERATOR):,}",
        f"{counts.get(State.FAILED, 0):,}",
        f"{sum(counts.get(each, 0) for each in _LEFT_OUT):,}",
        local_time(run.started_at),
        _owner(run.holder),
        clean(run.cluster_id or "-"),
        clean(run.plan or "-"),
    )


def _owner(owner: Holder | None) -> str:
    return "-" if owner is None else clean(f"{owner.pid} of {owner.user} on {owner.host}")


def _run_json(run: RunSummary) -> RunJson:
    return RunJson(
        name=run.name,
        state=run.state,
        cluster_id=run.cluster_id,
        plan=run.plan,
        started_at=None if run.started_at is None else utc(run.started_at),
        ended_at=None if run.ended_at is None else utc(run.ended_at),
        owner=owner_json(run.holder),
        outage=outage_json(run.outage),
        last_look_at=None if run.last_look_at is None else utc(run.last_look_at),
        partitions=run.partitions,
        counts={state: run.counts.get(state, 0) for state in State},
        throttle=rates_json(run.throttle),
        open_requests=tuple(f"{each.topic}-{each.partition}" for each in run.open_requests),
        throttle_left=run.throttle_left,
        extra_replicas=run.extra_replicas,
        recording=recording_json(run.recording),
        note=None if run.note is None else run.note.event.text,
        problem=run.problem,
    )
