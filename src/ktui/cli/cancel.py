"""`ktui cancel`: stop, roll back or trim partitions, or open the cancel gate."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing, closing
from typing import Any

import click
import msgspec

from ktui.cli.cancel_report import (
    cancel_json,
    found_parts,
    outcome_lines,
    preview_text,
    report_json,
)
from ktui.cli.context.claim import OwnerChoice, check_owner
from ktui.cli.context.cluster import (
    Cluster,
    ClusterChoice,
    Target,
    check_same_cluster,
    cluster_options,
    read_cluster_id,
)
from ktui.cli.context.option import add_option
from ktui.cli.context.terminal import INTERRUPTED, NOT_ALL_DONE, BadInput, print_note
from ktui.cli.options import common
from ktui.cli.options.common import check_on_cluster, check_scope, find_on_brokers
from ktui.cli.options.run import cancel_options, check_scope_given, read_cancel_request
from ktui.cli.output.json_form import encode, encode_record
from ktui.cli.output.plan_check import gate_line, shut_gate
from ktui.cli.process import Launch, answer_json, end_if_refused, launch_left_run, print_answer
from ktui.cluster.asking import ONE_POLL_PATIENCE_S
from ktui.cluster.clock import SystemClock
from ktui.cluster.errors import ClusterError
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, Observer
from ktui.cluster.partition import TopicPartition
from ktui.cluster.text import clean
from ktui.execution import RunProblem
from ktui.execution.cancel_preview import CancelPreview
from ktui.execution.host.catalog import find_movers, find_run
from ktui.execution.host.client import BegunRun, RunClient
from ktui.execution.host.hand_over import refuse_exported
from ktui.execution.host.ownership import CancelGateFile, holder, this_process
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.commands import Answer, CancelMoves, Pause
from ktui.execution.run.events import PauseOrigin, Started
from ktui.execution.run.run import Run
from ktui.execution.run.scope import CancelScope
from ktui.execution.run.states import CancelKind
from ktui.execution.run.text import KIND_IN_WORDS
from ktui.ops.cancel import CancelRequest, ClusterCancel

CANCELLING = "ktui cancel --cluster"
_SLOW_BROKER_S = 2.0  # seconds that one poll waits for a slow broker's settings


async def _cancelled(
    cluster: Cluster, state: StateDir, request: CancelRequest, *, json: bool
) -> int:
    """Cancel the reassignments of a cluster; return the exit code, 3 if one is not as asked."""
    clock = SystemClock()
    async with (
        aclosing(cluster.reader()) as reader,
        aclosing(cluster.writer()) as writer,
        aclosing(Observer(reader, clock, patience_s=_SLOW_BROKER_S)) as observer,
    ):

        async def refuse_owned() -> None:
            cluster_id = (await reader.describe_cluster()).cluster_id
            ownership = OwnerChoice(request.take_over)
            await check_owner(cluster, state, cluster_id, CANCELLING, ownership)

        cancel = ClusterCancel(
            observer, writer, clock, state=state, request=request, refuse_owned=refuse_owned
        )
        with closing(cancel):
            if not request.dry_run:
                await refuse_owned()
            seen = await cancel.look()
            named = (request.topics, request.partitions, request.brokers)
            await check_on_cluster(reader, clock, seen, *named)
            cancel.find(seen)
            if not json:
                click.echo("\n\n".join(found_parts(cancel)))
            if not request.dry_run:
                await cancel.carry_out()
    if json:
        click.echo(encode(report_json(cluster.name, cancel)))
    elif outcomes := "\n".join(outcome_lines(cancel)):
        click.echo(f"\n{outcomes}")
    if cancel.interrupted:
        return INTERRUPTED
    return 0 if request.dry_run or cancel.as_asked else NOT_ALL_DONE


def open_gate(run: RunDir, state: StateDir, *, json: bool) -> None:
    """Open the gate of a run's cluster; the cluster need not answer."""
    started = RunClient(run).read().run.started
    if started is None:
        raise RunProblem(
            f"{run.journal}: the journal does not name the run's cluster. Name the cluster "
            "yourself: ktui cancel --cluster --remove-cancel"
        )
    _open(started.cluster_id, state, json=json)


def _open(cluster_id: str, state: StateDir, *, json: bool) -> None:
    shut = CancelGateFile(state, cluster_id).open()
    if json:
        click.echo(encode_record({"cluster_id": cluster_id, "had_shut": shut}))
    elif shut is None:
        click.echo(f"the cancel gate of cluster {cluster_id} was already open")
    else:
        click.echo(
            f"the cancel gate of cluster {cluster_id} is now open. It was shut by "
            f"{clean(shut.words)}"
        )


def _cancel_run(
    run_dir: RunDir, request: CancelRequest, choice: ClusterChoice, state: StateDir, *, json: bool
) -> None:
    found = RunClient(run_dir).read_begun()
    run = found.run
    refuse_exported(run)
    _check(run, request)
    on_brokers = find_on_brokers(run, request.brokers)
    request = msgspec.structs.replace(request, on_brokers=on_brokers)
    where = choice.or_of_run(found.begun).target(changes=not request.dry_run)
    live = holder(run_dir) is not None
    preview = CancelPreview(CancelScope(run, request.kind, request.topics, request.all_partitions))
    preview.movers = find_movers(state, found.begun.cluster_id, run.name)
    _read_cluster(preview, where, found.begun, needed=request.dry_run or not live)
    starts = not live and not preview.scope.over
    cancel = _Cancel(run_dir, state, found, request, preview, where, json, starts)
    if found.damage is not None:
        print_note(f"damaged: {found.damage}. ktui uses the entries before the damage")
    if not json:
        click.echo(preview_text(preview, request, state))
    if request.dry_run or not (live or starts):
        cancel.report_only()
    elif live:
        cancel.ask()
    else:
        cancel.launch()


def _check(run: Run, request: CancelRequest) -> None:
    check_scope(run, request.topics, request.partitions)
    if not run.ended:
        check_scope_given(request)
    elif request.kind is CancelKind.STOP:
        raise BadInput(
            f"run {run.name} has ended, so there is nothing to stop. Undo it with --rollback, or "
            "drop replicas beyond the original number with --trim"
        )


def _read_cluster(preview: CancelPreview, where: Target, begun: Started, *, needed: bool) -> None:
    """Preview each partition by a fresh poll, without which the cancel may be unable to go on."""
    effects = preview.scope.effects.items()
    read = frozenset(tp for tp, effect in effects if effect.needs_read)  # not a long queue
    try:
        preview.update(asyncio.run(_poll(read, where, begun)))
    except ClusterError as error:
        if needed:
            raise
        preview.problem = str(error)


async def _poll(
    partitions: frozenset[TopicPartition], where: Target, begun: Started
) -> Observation:
    async with (
        aclosing(where.cluster.reader()) as reader,
        aclosing(Observer(reader, SystemClock(), patience_s=ONE_POLL_PATIENCE_S)) as observer,
    ):
        cluster_id = (await reader.describe_cluster()).cluster_id
        check_same_cluster(where, cluster_id, begun.cluster_id)
        return await observer.poll(Interest(partitions=partitions, fresh=True, log_dirs=True))


class _Cancel(msgspec.Struct, frozen=True):
    run_dir: RunDir
    state: StateDir
    found: BegunRun
    request: CancelRequest
    preview: CancelPreview
    where: Target
    json: bool
    would_start: bool
    """Whether the cancel has to start an engine: the run has none, and something is left to do."""

    @property
    def shuts_gate(self) -> bool:
        return self.request.everything and not self.found.run.ended

    @property
    def _command(self) -> CancelMoves:
        return CancelMoves(self.request.kind, self.request.topics, self.request.all_partitions)

    def report_only(self) -> None:
        if self.json:
            self._print_json()
            return
        if self.would_start:
            name, ended = self.run_dir.name, self.found.run.ended
            why = f"Run {name} has ended" if ended else f"Run {name} has no engine"
            rest = " and pause the rest of the run" if self._has_rest else ""
            click.echo(f"{why}. This cancel would start an engine{rest}.")
        if self.shuts_gate and not self.preview.scope.over:
            click.echo("It would also shut the cluster's cancel gate: runs submit nothing else.")
        click.echo("Nothing was changed.")

    def ask(self) -> None:
        self._shut_gate()
        self._print_answer(*RunClient(self.run_dir).send(self._command))

    def launch(self) -> None:
        name, pauses = self.run_dir.name, self._has_rest
        if self.found.run.ended:
            print_note(f"run {name} has ended. Starting an engine that continues from there")
        else:
            rest = "; the rest of the run is paused first" if pauses else ""
            print_note(f"run {name} has no engine. Starting one{rest}")
        client, sent = RunClient(self.run_dir), list[int]()

        def ask() -> None:
            self._shut_gate()
            if pauses:
                client.ask(Pause())
            sent.append(client.ask(self._command))

        launch = Launch.on(
            self.where,
            self.state,
            self.found.begun.cluster_id,
            name,
            OwnerChoice(self.request.take_over),
            only_ends=True,
        )
        try:
            launch_left_run(launch, ask)
        except RunProblem as problem:
            if not sent:
                raise
            raise RunProblem(
                f"{problem}. Your command is in the journal, and takes effect when you resume the "
                f"run: ktui resume {name}"
            ) from None
        self._print_answer(sent[0], client.wait_for_answer(sent[0]))
        if pauses:
            print_note(f"the rest of the run is paused. Continue it: ktui continue {name}")

    @property
    def _has_rest(self) -> bool:
        """Whether the run has unpaused partitions that this cancel leaves alone."""
        run = self.found.run
        off = self.preview.scope.effects
        going = (t for t in run.tracks.values() if t.cancel is None and not t.state.ended)
        return PauseOrigin.OPERATOR not in run.pauses.whole and any(t.tp not in off for t in going)

    def _shut_gate(self) -> None:
        if self.shuts_gate:
            what = f"{KIND_IN_WORDS[self.request.kind]} all of run {self.run_dir.name}"
            gate = CancelGateFile(self.state, self.found.begun.cluster_id)
            gate.shut(SystemClock().now(), this_process().short, what)

    def _print_answer(self, number: int, answer: Answer) -> None:
        if self.json:
            self._print_json(number, answer)
            end_if_refused(answer)
            return
        shut = shut_gate(self.state, self.found.begun.cluster_id)
        if self.shuts_gate and shut is not None:
            click.echo(gate_line(shut, self.state, self.run_dir.name))
        print_answer(self.run_dir, answer)
        click.echo(f"follow the result: ktui status {self.run_dir.name}")

    def _print_json(self, number: int = 0, answer: Answer | None = None) -> None:
        shut = shut_gate(self.state, self.found.begun.cluster_id)
        reply = None if answer is None else answer_json(self.run_dir, number, answer)
        shape = cancel_json(
            self.preview,
            dry_run=self.request.dry_run,
            shuts_gate=self.shuts_gate,
            gate=shut,
            answer=reply,
        )
        click.echo(encode_record(shape))


@click.command("cancel")
@click.argument("name", metavar="[RUN]", required=False, shell_complete=common.complete_run)
@add_option(
    "--cluster",
    "Instead of a run: every reassignment on the cluster, no matter who began it.",
    "of_cluster",
)
@cancel_options
@cluster_options
@common.state_dir_option
@common.json_option
def command(
    name: str | None,
    choice: ClusterChoice,
    *,
    of_cluster: bool,
    chosen: dict[str, Any],
    state: StateDir,
    json: bool,
) -> None:
    """Stop, roll back or trim partitions of RUN.

    ktui shows exactly what will happen first. If the run has not ended, choose its partitions with
    --topic, --partition, --broker or --all. The command returns once the run's engine has
    answered. If the run has no engine, ktui starts one and pauses the rest of the run. Follow the
    result with `ktui status RUN`.

    --all shuts the cancel gate of the cluster. Runs of this state directory then submit only
    cancels and rollbacks there, until --remove-cancel opens the gate.

    Exit code 2 if the cancel cannot be requested.
    """
    request = read_cancel_request(chosen)
    if of_cluster == (name is not None):
        raise BadInput("name a run, or give --cluster instead of one. List the runs: ktui runs")
    if name is not None:
        run = find_run(state, name)
        if request is None:
            open_gate(run, state, json=json)
        else:
            _cancel_run(run, request, choice, state, json=json)
    elif request is None:
        _open(asyncio.run(read_cluster_id(choice.cluster())), state, json=json)
    else:
        _check_on_cluster(request)
        cluster = choice.cluster() if request.dry_run else choice.target().cluster
        sys.exit(asyncio.run(_cancelled(cluster, state, request, json=json)))


def _check_on_cluster(request: CancelRequest) -> None:
    if request.kind is CancelKind.TRIM:
        raise BadInput(
            "--trim needs a run. Only the run's journal has the original number of replicas. "
            "Name the run: ktui cancel RUN --trim"
        )
    check_scope_given(request)
