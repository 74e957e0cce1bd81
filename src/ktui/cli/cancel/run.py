"""Calling partitions of a run off: said first, then asked of the process that carries it on."""

from __future__ import annotations

import click
import msgspec

from ktui.cli.cancel.options import CancelRequest, check_scope_given
from ktui.cli.cancel.preview import Preview, preview
from ktui.cli.cancel.preview_json import cancel_json
from ktui.cli.cancel.preview_text import preview_text
from ktui.cli.context.claim import claiming
from ktui.cli.context.errors import BadInput
from ktui.cli.context.target import Names, Target, run_names, target
from ktui.cli.context.terminal import say
from ktui.cli.options.common import check_scope
from ktui.cli.output.gate import gate_json, gate_line, gate_of
from ktui.cli.output.json_form import encode
from ktui.cli.process.launch import Launch, take_up
from ktui.cli.process.left_run import LeftRun, found_run
from ktui.cli.process.send_command import answer_json, answer_to, asker, end_if_refused, put, tell
from ktui.cluster.clock import SystemClock
from ktui.execution.cancel.gate import CancelGateFile
from ktui.execution.errors import RunProblem
from ktui.execution.host.hand_over import refuse_exported
from ktui.execution.host.ownership import holder
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.commands import Answer, CallOff, Pause
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.cancel_scope import in_scope
from ktui.execution.run.event_text import KIND_IN_WORDS
from ktui.execution.run.events import By
from ktui.execution.run.run import Run


def cancel_run(run_dir: RunDir, wanted: CancelRequest, names: Names, state: StateDir) -> None:
    """Say what a cancel comes to and, unless that is all, have it done.

    Raises:
        BadInput: it cannot be asked of the run.
        RunRefused: it was exported, the cluster is not its own, or another run's throttle is in
            its way.
        RunProblem: no answer came, or no process could be started.
        ClusterError: the cluster cannot be asked, and has to be.
    """
    found = found_run(run_dir)
    run = found.run
    refuse_exported(run)
    _check(run, wanted)
    where = target(*run_names(names, found.begun), changes=not wanted.dry_run)
    live = holder(run_dir) is not None
    tracks = in_scope(run, wanted.topics, wanted.partitions)
    told = preview(run, wanted, tracks, where.cluster, needed=wanted.dry_run or not live)
    starts = not live and not told.over
    cancel = _Cancel(run_dir, state, found, told, where, starts)
    if found.damage is not None:
        say(f"damaged: {found.damage}; what is before it counts")
    if not wanted.json:
        click.echo(preview_text(told, state))
    if wanted.dry_run or not (live or starts):
        cancel.leave_it()
    elif live:
        cancel.ask()
    else:
        cancel.launch()


def _check(run: Run, wanted: CancelRequest) -> None:
    """See that what is wanted can be asked of a run as it stands.

    Raises:
        BadInput: it cannot.
    """
    check_scope(run, wanted.topics, wanted.partitions)
    if not run.ended:
        check_scope_given(wanted)
    elif wanted.kind is CancelKind.STOP:
        raise BadInput(
            f"run {run.name} has ended: there is nothing to stop. To undo it, --rollback; to drop "
            "replicas beyond the original number, --trim"
        )


class _Cancel(msgspec.Struct, frozen=True):
    """A cancel that has been looked at."""

    run_dir: RunDir
    state: StateDir
    found: LeftRun
    told: Preview
    where: Target
    would_start: bool
    """Whether it takes a process of its own: none carries the run on, and some is to be done."""

    @property
    def shuts_gate(self) -> bool:
        return self.told.wanted.everything and not self.found.run.ended

    @property
    def _call_off(self) -> CallOff:
        wanted = self.told.wanted
        return CallOff(wanted.kind, wanted.topics, wanted.partitions)

    def leave_it(self) -> None:
        """Say that nothing is asked for."""
        if self.told.wanted.json:
            self._print_json()
            return
        if self.would_start:
            name, ended = self.run_dir.name, self.found.run.ended
            why = f"Run {name} has ended" if ended else f"No process carries run {name} on"
            rest = ", with the rest of it paused" if self._has_rest else ""
            click.echo(f"{why}: this would start a process for it{rest}")
        if self.shuts_gate and not self.told.over:
            click.echo("It would also shut the cluster's cancel gate: nothing else is submitted")
        click.echo("Nothing was asked for.")

    def ask(self) -> None:
        """Have the process that carries the run on do it."""
        self._shut_gate()
        number = put(self.run_dir, self._call_off)
        self._tell(number, answer_to(self.run_dir, number))

    def launch(self) -> None:
        """Start a process that does it, with what else there is of the run paused."""
        name, pauses = self.run_dir.name, self._has_rest
        if self.found.run.ended:
            say(f"run {name} has ended: a process is started that carries it on from there")
        else:
            rest = "; first, the rest of it is paused" if pauses else ""
            say(f"no process carries run {name} on: one is started{rest}")
        asked: list[int] = []

        def ask() -> None:
            self._shut_gate()
            if pauses:
                put(self.run_dir, Pause())
            asked.append(put(self.run_dir, self._call_off))

        launch = Launch(
            state=self.state,
            name=name,
            cluster_id=self.found.begun.cluster_id,
            names=self.where.names,
            until=None,
            concurrent=True,
            owner=claiming(
                self.where.cluster,
                self.state,
                self.found.begun.cluster_id,
                name,
                take_over=self.told.wanted.take_over,
                only_ends=True,
            ),
        )
        try:
            take_up(launch, ask)
        except RunProblem as problem:
            if not asked:
                raise
            raise RunProblem(
                f"{problem}. What you asked for is written down, and is done when the run goes "
                f"on: ktui resume {name}"
            ) from None
        self._tell(asked[0], answer_to(self.run_dir, asked[0]))
        if pauses:
            say(f"the rest of it is paused; have it go on: ktui continue {name}")

    @property
    def _has_rest(self) -> bool:
        """Whether something that is not called off would go on that nobody has paused."""
        run = self.found.run
        off = {track.tp for track in self.told.tracks}
        going = (t for t in run.tracks.values() if t.cancel is None and not t.state.ended)
        return By.OPERATOR not in run.pauses.whole and any(t.tp not in off for t in going)

    def _shut_gate(self) -> None:
        if self.shuts_gate:
            what = f"{KIND_IN_WORDS[self.told.wanted.kind]} all of run {self.run_dir.name}"
            gate = CancelGateFile(self.state, self.found.begun.cluster_id)
            gate.shut(SystemClock().now(), asker(), what)

    def _tell(self, number: int, answer: Answer) -> None:
        """Say what was answered; a refusal ends the program."""
        if self.told.wanted.json:
            self._print_json(number, answer)
            end_if_refused(answer)
            return
        shut = gate_of(self.state, self.found.begun.cluster_id)
        if self.shuts_gate and shut is not None:
            click.echo(gate_line(shut, self.state, self.run_dir.name))
        tell(self.run_dir, answer)
        click.echo(f"see what becomes of it: ktui status {self.run_dir.name}")

    def _print_json(self, number: int = 0, answer: Answer | None = None) -> None:
        shut = gate_of(self.state, self.found.begun.cluster_id)
        told = None if answer is None else answer_json(self.run_dir, number, answer)
        shape = cancel_json(
            self.told,
            shuts_gate=self.shuts_gate,
            gate=None if shut is None else gate_json(shut),
            answer=told,
        )
        click.echo(encode(shape))
