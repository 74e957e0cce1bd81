"""The runs about one broker: begun, continued and rolled back, each followed to its end."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Self

import msgspec

from ktui.cli.context.claim import claim_request
from ktui.cli.context.cluster import Target
from ktui.cli.context.terminal import print_note
from ktui.cli.options.limits import complete_limits
from ktui.cli.output.gate import gate_line, shut_gate
from ktui.cli.plan.make import in_its_order
from ktui.cli.process.launch import Launch, launch_left_run
from ktui.cli.start.follow import EXIT_CODES, Engine, follow
from ktui.cli.start.new_run import StartOptions, carry_out, check_new_run, report_findings
from ktui.cluster.partition import TopicPartition
from ktui.execution.errors import RunProblem
from ktui.execution.forecast.progress_text import run_ending
from ktui.execution.host.client import BegunRun, RunClient
from ktui.execution.host.hand_over import refuse_exported
from ktui.execution.host.process import AttachedEngine
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.states import CancelKind
from ktui.ops.start import CheckedRun
from ktui.planning.check.findings import Allowances
from ktui.planning.plan import Plan


def check_broker_run(
    name: str, words: str, plan: Plan, allowed: Allowances, target: Target, how: StartOptions
) -> CheckedRun:
    """Check a run that is called after its purpose, not after the file of a plan.

    Raises:
        BadInput: options contradict the context.
        ClusterError: the cluster cannot be read.
    """
    context = target.cluster.context
    limits = in_its_order(how.limits, plan, complete_limits(context.limits, how.limits))
    how = msgspec.structs.replace(how, limits=limits)
    new = how.new_run(context, name, plan, plan_name=words, allowed=allowed)
    return check_new_run(new, target, how)


def begin_run(checked: CheckedRun, target: Target, how: StartOptions) -> int:
    """Start a checked run, follow it to its end, and return the exit code.

    Ends the program on a problem. If there is nothing to do any more, no run is made.

    Raises:
        RunRefused: something forbids the start.
        RunProblem: the journal cannot be written, or the engine has died.
    """
    if checked.preview.idle:
        return 0
    report_findings(checked)
    return carry_out(checked, target, how)


class LeftRuns(msgspec.Struct, frozen=True, kw_only=True):
    """How runs that exist already are carried on, each in an engine process of its own."""

    target: Target
    state: StateDir
    until: datetime | None = None
    concurrent: bool = False
    take_over: bool = False
    no_ownership: bool = False
    json: bool = False
    """Whether each event is printed as a line of JSON."""

    @classmethod
    def of(cls, target: Target, how: StartOptions) -> Self:
        return cls(
            target=target,
            state=how.state,
            until=how.until,
            concurrent=how.concurrent,
            take_over=how.take_over,
            no_ownership=how.no_ownership,
            json=how.json,
        )

    def go_on(self, name: str) -> int:
        """Carry a run on to its end, in its engine if it has one, and return the exit code.

        Raises:
            RunRefused: the run was exported, or another run or owner forbids it.
            RunProblem: its journal cannot be read, or its engine has died.
        """
        client, found = self._found(name)
        if found.run.ended:
            return EXIT_CODES[run_ending(found.run)]
        return self._carry_on(client, found)

    def cancel(self, name: str, kind: CancelKind, partitions: Collection[TopicPartition]) -> int:
        """Cancel some partitions of a run, and return the exit code of the run.

        The run may have ended. Repeated, this goes on with what is left of it.

        Raises:
            RunRefused: the run was exported, or another run or owner forbids it.
            RunProblem: its journal cannot be read or written, or its engine has died.
        """
        client, found = self._found(name)
        command = CancelMoves(kind, (), tuple(partitions))

        def ask() -> None:
            client.ask(command)

        return self._carry_on(client, found, ask)

    def _found(self, name: str) -> tuple[RunClient, BegunRun]:
        client = RunClient.find(self.state, name)
        found = client.read_begun()
        if found.damage is not None:
            print_note(f"damaged: {found.damage}. The run goes on from what comes before")
        refuse_exported(found.run)
        return client, found

    def _carry_on(
        self, client: RunClient, found: BegunRun, ask: Callable[[], None] = lambda: None
    ) -> int:

        def attached() -> AttachedEngine | None:
            owner = client.owner
            if owner is None:
                return None
            ask()
            return AttachedEngine(client.folder, owner)

        def start() -> Engine:
            if (engine := attached()) is not None:
                return engine
            try:
                return launch_left_run(self._launch(client.name, found), ask)
            except RunProblem:  # perhaps because another engine was being started
                if (engine := attached()) is None:
                    raise
                return engine

        shut = shut_gate(self.state, found.begun.cluster_id)
        if shut is not None:
            print_note(f"{gate_line(shut, self.state, client.name)}. Until then only cancels go on")
        return follow(start, self.state, json=self.json, after=found.run.seq)

    def _launch(self, name: str, found: BegunRun) -> Launch:
        cluster_id = found.begun.cluster_id
        return Launch(
            state=self.state,
            name=name,
            cluster_id=cluster_id,
            names=self.target.names,
            until=self.until,
            concurrent=self.concurrent,
            owner=claim_request(
                self.target.cluster,
                self.state,
                cluster_id,
                name,
                off=self.no_ownership,
                take_over=self.take_over,
            ),
        )
