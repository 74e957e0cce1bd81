"""The engine of a run: launched, for a new run or one to resume, and sent commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

import msgspec

from ktui.cli.context.claim import (
    AS_CONTEXT,
    NO_OWNERSHIP,
    ClaimRequest,
    OwnerChoice,
    claim_request,
    own_cluster,
)
from ktui.cli.context.terminal import print_note
from ktui.cli.options.common import state_option
from ktui.cli.output.plan_check import cancel_cluster_options, check_gate_open, options_of_names
from ktui.cluster.clock import SystemClock
from ktui.execution import RunProblem, RunRefused
from ktui.execution.engine.gates import Leaving
from ktui.execution.host.catalog import check_one_throttle
from ktui.execution.host.client import RunClient
from ktui.execution.host.hand_over import refuse_exported
from ktui.execution.host.launch import make_run, reserve_start
from ktui.execution.host.ownership import LiveRun, OwnedElsewhere, lock_starts
from ktui.execution.host.process import EngineProcess, start_engine
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.run.events import AnyRunEvent, Started

if TYPE_CHECKING:  # a verb that only sends a command loads no client
    from ktui.cli.context.cluster import Target


import sys

import click

from ktui.cli.context.terminal import BAD_INPUT
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cluster.text import clean
from ktui.execution.journal.commands import Answer, Command


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how an engine runs."""

    state: StateDir
    name: str
    cluster_id: str
    names: Mapping[str, str]
    until: datetime | None = None
    concurrent: bool = True
    record: bool | None = None  # None, here and in the next two, follows the run's options
    on_event: str | None = None
    metrics_file: str | None = None
    owner: ClaimRequest | None = None  # the claim on the cluster; None without ownership
    leave: Leaving | None = None
    """When the engine leaves the run before its end; None to carry it on."""

    @classmethod
    def on(
        cls,
        target: Target,
        state: StateDir,
        cluster_id: str,
        name: str,
        ownership: OwnerChoice = AS_CONTEXT,
        *,
        only_ends: bool = False,
        **how: Any,
    ) -> Self:
        """Return the launch of a run, with its claim: see `claim_request`. `how`: other fields."""
        owner = claim_request(
            target.cluster, state, cluster_id, name, ownership, only_ends=only_ends
        )
        names = target.names
        return cls(state=state, name=name, cluster_id=cluster_id, names=names, owner=owner, **how)

    @property
    def arguments(self) -> list[str]:
        """The command line of the engine. It contains no secret."""
        until = None if self.until is None else self.until.isoformat()
        values = {
            "state_dir": self.state.path,
            **self.names,
            "until": until,
            "on_event": self.on_event,
            "metrics_file": self.metrics_file,
            "leave": self.leave,
        }
        record = {None: [], True: ["--record"], False: ["--no-record"]}[self.record]
        unowned = [] if self.owner is not None else [NO_OWNERSHIP]
        return ["engine", self.name, *options_of_names(values), *record, *unowned]

    def owned(self) -> AbstractContextManager[None]:
        return nullcontext() if self.owner is None else own_cluster(self.owner)


def launch_new_run(
    launch: Launch, first: Sequence[AnyRunEvent], before: Callable[[], None] = lambda: None
) -> EngineProcess:
    """Create a run once nothing forbids it, after `before`, and return its engine."""
    throttled = any(isinstance(e, Started) and e.options.throttles for e in first)

    def beside(live: Sequence[LiveRun]) -> None:
        check_gate_open(launch.state, launch.cluster_id, cancel_cluster_options(launch.names))
        _beside(live, launch)

    state, name = launch.state, launch.name
    with (
        reserve_start(state, launch.cluster_id, name, throttled=throttled, beside=beside),
        launch.owned(),
    ):
        before()
        return start_engine(make_run(state, name, first, SystemClock()), launch.arguments)


def launch_left_run(launch: Launch, ask: Callable[[], None] = lambda: None) -> EngineProcess:
    """Start an engine for a run that has none, once nothing forbids it, after `ask`."""
    with lock_starts(launch.state, launch.cluster_id) as live:
        for other in live:
            if other.name == launch.name:
                raise OwnedElsewhere(launch.name, other.holder)
        folder = launch.state.run(launch.name)
        run = RunClient(folder).read().run
        refuse_exported(run)
        _beside(live, launch)
        _refuse_copy(launch.state, folder, live)
        if run.throttles and launch.leave is not Leaving.SETTLED:
            check_one_throttle(launch.state, launch.cluster_id, launch.name, resumed=True)
        with launch.owned():
            ask()
            return start_engine(folder, launch.arguments)


def resume_command(state: StateDir, name: str) -> str:
    """Return the command that resumes a run, for any shell like this one."""
    return f"ktui resume {name}{state_option(state)}"


def _beside(live: Sequence[LiveRun], launch: Launch) -> None:
    if not live:
        return
    others = "; ".join(f"run {other.name}, owned by {other.holder}" for other in live)
    if not launch.concurrent:
        raise RunRefused(
            f"another run is live on this cluster: {others}. Each run keeps only its own limits. "
            f"Add the plan to that run (ktui add {live[0].name} PLAN), wait for its end, or run "
            "both with --concurrent"
        )
    print_note(f"warning: also live on this cluster: {others}. The limits of both add up")


def _refuse_copy(state: StateDir, run: RunDir, live: Sequence[LiveRun]) -> None:
    """Refuse the copy of a live run: each would take the other's steps for its own."""
    ours = RunClient(run).first_entry()
    for other in live:
        try:
            theirs = RunClient(state.run(other.name)).first_entry()
        except RunProblem as problem:
            raise RunRefused(
                f"run {other.name}, owned by {other.holder}, has an unreadable journal: {problem}. "
                f"Run {run.name} may be a copy of it. Have its engine leave it first: "
                f"kill {other.holder.pid}"
            ) from None
        if theirs == ours:
            raise RunRefused(
                f"run {run.name} is a copy of run {other.name}, which is owned by {other.holder}. "
                f"Only one of them may go on. Wait for the end of run {other.name}"
            )


def send_command(run: RunClient, command: Command, *, json: bool) -> None:
    """Send a command to a run's engine, and print the answer. A refusal ends the program."""
    number, answer = run.send(command)
    if json:
        click.echo(encode(answer_json(run.folder, number, answer)))
        end_if_refused(answer)
    else:
        print_answer(run.folder, answer)


def print_answer(run_dir: RunDir, answer: Answer) -> None:
    """Print an answer for people; a refusal ends the program."""
    words = clean(answer.words)
    if answer.accepted:
        click.echo(f"run {run_dir.name}: {words}")
    else:
        click.echo(f"ktui: run {run_dir.name}: refused: {words}", err=True)
    end_if_refused(answer)


def end_if_refused(answer: Answer) -> None:
    """End the program with the exit code of bad input, where the answer is a refusal."""
    if not answer.accepted:
        sys.exit(BAD_INPUT)


def answer_json(run_dir: RunDir, number: int, answer: Answer) -> dict[str, object]:
    """Return the --json output of a verb that sends a command to a run."""
    return {
        "schema_version": SCHEMA_VERSION,
        "run": run_dir.name,
        "command": number,
        "accepted": answer.accepted,
        "words": clean(answer.words),
        "batch": answer.batch,  # the first decision that the command binds; null: it binds none
    }
