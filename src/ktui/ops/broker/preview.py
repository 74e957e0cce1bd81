"""The stages of a removal, and what each would do now. Sends nothing."""

from __future__ import annotations

from collections.abc import Iterator

from ktui.cluster.settings import CORDONED
from ktui.cluster.text import clean
from ktui.execution.broker.cordon import NoCordon
from ktui.execution.forecast.progress_text import progress_line
from ktui.execution.forecast.run_progress import run_progress
from ktui.ops.broker.removal import REFUSED, RemovalRequest, Stage, place
from ktui.ops.broker.runs import DEMOTE, DRAIN, Purpose, left_text, made_run, plan_text
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import CannotMake
from ktui.planning.intents.wishes import Wishes
from ktui.preview.text import finding_text, time_text
from ktui.quantities import as_count

Line = tuple[Stage | None, str]
"""What a stage would do; without a stage, a finding about the run before."""


class RemovalPreview:
    """What a removal would do from here."""

    def __init__(self, request: RemovalRequest) -> None:
        self._request = request
        self._broker = request.broker
        self._options = request.options
        self._removal = request.standing
        self._is_up = request.broker in request.cluster.online
        self._order = request.order(None)
        self._closed = False
        """Whether Kafka refuses lists that name the broker now."""
        self._stays = 0
        """The replicas that the last run shown would leave on the broker."""
        self.problems = False
        """Whether a stage could not begin; known once all lines were read."""

    def lines(self) -> Iterator[str]:
        """Yield a line for what each stage would do, in order.

        Raises:
            ClusterError, RunProblem: the cluster or a run cannot be read.
        """
        for stage, words in self._lines():
            yield words if stage is None else clean(f"{place(stage, self._order)}: {words}")

    def _lines(self) -> Iterator[Line]:
        cordon = self._cordon()
        layout = self._request.layout()
        removal = self._removal
        demotes, drains = ((), ()) if removal is None else (removal.demotes, removal.drains)
        for stage in self._order:
            if stage is Stage.CORDON:
                yield stage, cordon
            elif stage is Stage.DRAIN:
                yield from self._run(stage, DRAIN, layout, drains)
            elif stage is Stage.DEMOTE:
                if not self._options.demote or not self._is_up or drains:
                    yield stage, "left out"
                elif self._closed:
                    yield stage, f"left out: {REFUSED.format(self._broker)}"
                else:
                    yield from self._run(stage, DEMOTE, layout, demotes)
        if stays := self._stays:
            replicas = as_count(stays, "replica")
            verb = "stays" if stays == 1 else "stay"
            words = (
                f"not reached while {replicas} {verb}, as said above: the removal then waits for "
                "you, with exit code 3, and goes on below once that is mended"
            )
            yield Stage.EMPTY, words
        else:
            of_disks = " and by its own log dirs" if self._is_up else ""
            yield Stage.EMPTY, f"to be proven by metadata that is known to be current{of_disks}"
        yield Stage.STOP, "you stop it" if self._is_up else "it is down"
        asked = "" if self._options.unregister else ", once you type its id or give --unregister"
        yield Stage.UNREGISTER, f"the cluster forgets broker {self._broker}{asked}"

    def _on_broker(self, layout: Layout) -> int:
        """Count the replicas that a plan has to take away; those of canaries need none."""
        wishes = Wishes(exclude=self._options.exclude)
        return sum(
            self._broker in state.target and wishes.includes(tp.topic)
            for tp, state in layout.partitions.items()
        )

    def _cordon(self) -> str:
        """Return what becomes of the cordon, and find out whether it is there already."""
        if not self._is_up:
            return "not possible: the broker is down" if self._options.cordon else "left out"
        try:
            now = self._request.read_cordon()
        except NoCordon as refused:
            self.problems = True
            return str(refused)
        self._order = self._request.order(now)
        self._closed = self._request.is_closed(now)
        if now is None or not self._options.cordon:
            return "left out"
        value = now.with_cordons(())
        if now.has(value):
            return f"{CORDONED} is {now.value} already"
        straight = self._request.refuses and self._options.cordon_first
        then = "; from then on each partition goes straight to its target" if straight else ""
        return f"{CORDONED}: {now.value} -> {value}{then}"

    def _run(
        self, stage: Stage, purpose: Purpose, layout: Layout, names: tuple[str, ...]
    ) -> Iterator[Line]:
        self._stays = 0
        for name in names:
            run = made_run(self._request.state, name)
            if run is not None and not run.ended:
                yield stage, f"goes on: {progress_line(run_progress(run))}"
                return
        broker = self._broker
        try:
            made = self._request.make(purpose, layout)
        except CannotMake as nothing:
            self._stays = self._on_broker(layout)
            yield stage, f"{'' if self._stays else 'nothing to do: '}{nothing}"
            return
        gone = sum(broker not in each.replicas for each in made.plan.partitions)
        self._stays = self._on_broker(layout) - gone
        for line in left_text(made):
            yield stage, line
        if not made.plan.partitions:
            return
        words = purpose.words_in_removal(broker)
        preview = self._request.program.preview_run(purpose.run_name(broker), words, made.plan)
        yield stage, f"{plan_text(made)}; {time_text(preview)}"
        self.problems = self.problems or bool(preview.problems)
        for finding in preview.findings:
            yield None, f"{words}: {finding_text(finding)}"
