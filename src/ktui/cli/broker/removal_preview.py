"""The stages of a removal, and what each would do now. Sends nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing

from ktui.cli.broker.plans import (
    DEMOTE,
    DRAIN,
    Purpose,
    left_text,
    make,
    plan_text,
    read_plan_layout,
)
from ktui.cli.broker.removal_request import RemovalRequest, stage_line
from ktui.cli.broker.removing import standing
from ktui.cli.broker.runs import BrokerRun, check_run, made_run
from ktui.cli.output.plan_report import finding_line
from ktui.cluster.clock import SystemClock
from ktui.cluster.cordon import CORDONED
from ktui.cluster.ports import ClusterPorts
from ktui.execution.broker.cordon import Cordoner, NoCordon
from ktui.execution.forecast.progress_text import progress_line
from ktui.planning.check.findings import Severity
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import CannotMake
from ktui.planning.intents.wishes import Wishes
from ktui.planning.preflight.text import time_in_words
from ktui.quantities import as_count


class RemovalPreview:
    """What a removal would do from here.

    Args:
        request: what was asked for.
    """

    def __init__(self, request: RemovalRequest) -> None:
        self._broker = request.broker
        self._target = request.target
        self._how = request.how
        self._options = request.options
        self._allowed = request.allowed
        self._removal = standing(request)
        self._is_up = request.broker in request.cluster.online
        self._stays = 0
        """The replicas that the last run shown would leave on the broker."""
        self.problems = False
        """Whether a stage could not begin; known once all lines were read."""

    def lines(self) -> Iterator[str]:
        """Yield what each stage would do, in order.

        Raises:
            ClusterError, RunProblem: the cluster or a run cannot be read.
        """
        yield stage_line("cordon", asyncio.run(self._cordon()))
        layout = read_plan_layout(self._target.cluster)
        removal = self._removal
        drains = () if removal is None else removal.drains
        if self._options.demote and self._is_up and not drains:
            demotes = () if removal is None else removal.demotes
            yield from self._run("demote", DEMOTE, layout, demotes)
        else:
            yield stage_line("demote", "left out")
        yield from self._run("drain", DRAIN, layout, drains)
        if stays := self._stays:
            replicas = as_count(stays, "replica")
            verb = "stays" if stays == 1 else "stay"
            yield stage_line(
                "empty",
                f"not reached while {replicas} {verb}, as said above: the removal then waits for "
                "you, with exit code 3, and goes on below once that is mended",
            )
        else:
            of_disks = " and by its own log dirs" if self._is_up else ""
            yield stage_line(
                "empty", f"to be proven by metadata that is known to be current{of_disks}"
            )
        yield stage_line("stop", "you stop it" if self._is_up else "it is down")
        asked = "" if self._options.unregister else ", once you type its id or give --unregister"
        yield stage_line("unregister", f"the cluster forgets broker {self._broker}{asked}")

    def _on_broker(self, layout: Layout) -> int:
        """Count the replicas that a plan has to take away; those of canaries need none."""
        wishes = Wishes(exclude=self._options.exclude)
        return sum(
            self._broker in state.target and wishes.includes(tp.topic)
            for tp, state in layout.partitions.items()
        )

    async def _cordon(self) -> str:
        if not self._options.cordon:
            return "left out"
        if not self._is_up:
            return "not possible: the broker is down"
        cluster = self._target.cluster
        async with aclosing(cluster.reader()) as reader, aclosing(cluster.writer()) as writer:
            cordoner = Cordoner(ClusterPorts(reader, writer), self._broker, SystemClock())
            try:
                now = await cordoner.read()
            except NoCordon as refused:
                self.problems = True
                return f"{refused}; --skip-cordon goes on without"
        value = now.with_cordons(())
        if now.has(value):
            return f"{CORDONED} is {now.value} already"
        return f"{CORDONED}: {now.value} -> {value}"

    def _run(
        self, stage: str, purpose: Purpose, layout: Layout, names: tuple[str, ...]
    ) -> Iterator[str]:
        self._stays = 0
        for name in names:
            run = made_run(self._how.state, name)
            if run is not None and not run.ended:
                yield stage_line(stage, f"goes on: {progress_line(run)}")
                return
        options, broker = self._options, self._broker
        try:
            made = make(
                purpose, broker, layout, rack_aware=options.rack_aware, exclude=options.exclude
            )
        except CannotMake as nothing:
            self._stays = self._on_broker(layout)
            yield stage_line(stage, f"{'' if self._stays else 'nothing to do: '}{nothing}")
            return
        gone = sum(broker not in each.replicas for each in made.plan.partitions)
        self._stays = self._on_broker(layout) - gone
        for line in left_text(made):
            yield stage_line(stage, line)
        if not made.plan.partitions:
            return
        words = purpose.words_in_removal(self._broker)
        run_name = purpose.run_name(self._broker)
        _, request = check_run(
            BrokerRun(run_name, words, made.plan, self._allowed), self._target, self._how
        )
        time = time_in_words(request.preflight().time_s)
        yield stage_line(stage, f"{plan_text(made)}; {time}")
        for finding in request.findings:
            if finding.severity is Severity.PROBLEM:
                self.problems = True
                yield finding_line(words, finding)
