"""What the app does when partitions are to be stopped, rolled back or paused."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from ktui.cluster.errors import ClusterError
from ktui.cluster.partition import TopicPartition
from ktui.execution.cancel.foreign_outcome import ListedReassignment, listed_in
from ktui.execution.cancel.gate import CancelGateFile
from ktui.execution.errors import RunProblem
from ktui.execution.host.catalog import RunState
from ktui.execution.host.ownership import this_process
from ktui.execution.host.state_dir import RunDir
from ktui.execution.journal.commands import Pause
from ktui.progress.timeline import Progress
from ktui.tui.app.runs_controller import RunsApp
from ktui.tui.run_view import messages
from ktui.tui.run_view.attached import AttachedRun
from ktui.tui.run_view.cancel_choice import CancelAction, Chosen, scopes
from ktui.tui.run_view.launchers import Engines
from ktui.tui.screens.detail.screen import DetailScreen
from ktui.tui.screens.run.cancel import CancelScreen
from ktui.tui.screens.run.confirm import ConfirmScreen
from ktui.tui.screens.watch.screen import WatchScreen


class CancelApp(RunsApp):
    """The part of the app that calls off what is under way."""

    progress: Progress
    watch_screen: WatchScreen

    @property
    def looked_at(self) -> TopicPartition | None:
        """The partition under the cursor, or of which the detail is shown."""
        detail = next((s for s in self.screen_stack if isinstance(s, DetailScreen)), None)
        return self.watch_screen.partition_list.cursor if detail is None else detail.tp

    @property
    def marked(self) -> Collection[TopicPartition]:
        """The partitions that the operator has marked."""
        return self.watch_screen.partition_list.marked

    # -------------------------------------------------------- partitions of the run

    async def action_cancel(self) -> None:
        """Open the cancel dialog on what is looked at."""
        attached, tp = self.attached, self.looked_at
        foreign = self._listed(tp)
        if attached is None:
            hint = f" {messages.FOREIGN}" if foreign is not None else ""
            self.tell(f"{messages.NO_RUN}{hint}", severity="warning")
        elif foreign is not None and foreign.tp not in attached.run.tracks and not self.marked:
            words = f"{foreign.tp} is not in run {attached.name}. {messages.FOREIGN}"
            self.tell(words, severity="warning")
        else:
            ended = attached.status.state is RunState.ENDED
            await self.open_cancel(attached, CancelAction.ROLLBACK if ended else CancelAction.STOP)

    async def open_cancel(
        self, attached: AttachedRun, deed: CancelAction, *, whole: bool = False
    ) -> None:
        """Open the cancel dialog on a run.

        Args:
            attached: the run.
            deed: what is chosen at first.
            whole: whether it is about everything in the run, whatever is looked at.
        """
        choices = scopes(attached.run, self.looked_at, self.marked)
        chosen = choices[-1:] if whole else choices
        problem = None if self.write else self.read_only_words

        def answered(chosen: Chosen | None) -> None:
            if chosen is not None and self.attached is not None:
                carrying_out = self._carry_out(self.attached, chosen)
                self.run_worker(carrying_out, group="asking", exit_on_error=False)

        screen = CancelScreen(attached, chosen, deed, problem)
        await self.push_screen(screen, answered)
        screen.show(self.progress)

    def roll_back_run(self, folder: RunDir) -> None:
        """Attach the view to a run, and open the cancel dialog on all of it."""
        self.run_worker(self._roll_back_run(folder), group="attach", exit_on_error=False)

    async def _roll_back_run(self, folder: RunDir) -> None:
        await self.attach(folder)
        if self.attached is not None and self.attached.name == folder.name:
            await self.open_cancel(self.attached, CancelAction.ROLLBACK, whole=True)

    async def _carry_out(self, attached: AttachedRun, chosen: Chosen) -> None:
        """Ask for it; a run that nobody carries on is taken up for it, and its rest is paused."""
        if attached.status.owned:
            try:
                await asyncio.to_thread(self._shut_gate_for, attached, chosen)
            except RunProblem as problem:
                self.tell(str(problem), title=chosen.what, severity="error")
                return
            self.ask(chosen.command, chosen.what)
        elif self.engines is None:
            self.tell(messages.NO_ENGINES, title=chosen.what, severity="error")
        else:
            await self._take_up(self.engines, attached, chosen)

    async def _take_up(self, engines: Engines, attached: AttachedRun, chosen: Chosen) -> None:
        ended = attached.status.state is RunState.ENDED
        pauses = not (ended or chosen.scope.whole)  # of everything there is no rest
        numbers = []

        def ask() -> None:
            self._shut_gate_for(attached, chosen)  # nothing is in the way of the run any more
            if pauses:
                attached.ask(Pause())
            numbers.append(attached.ask(chosen.command))

        try:
            await engines.resume(attached.folder, ask)
        except (ClusterError, RunProblem) as problem:
            self.tell(str(problem), title=chosen.what, severity="error")
        self.await_answers(numbers, chosen.what)

    # ---------------------------------------------------------------- the cancel gate

    @property
    def cancel_gate(self) -> str:
        """By whom the cluster's cancel gate is shut; empty while it is open."""
        try:
            shut = None if self._gate_file is None else self._gate_file.state()
        except RunProblem as problem:
            return str(problem)
        if shut is not None:
            return f"by {shut.who}"
        status = self.run_status
        told = status is not None and status.owned and status.cancel_gate
        return f"by {told}" if told else ""

    @property
    def _gate_file(self) -> CancelGateFile | None:
        if self.state_dir is None or self.cluster_id is None:
            return None
        return CancelGateFile(self.state_dir, self.cluster_id)

    def _shut_gate_for(self, attached: AttachedRun, chosen: Chosen) -> None:
        if chosen.shuts_gate(attached.status):
            self._shut_gate(f"{chosen.what} of run {attached.name}")

    def _shut_gate(self, reason: str) -> None:
        if self._gate_file is not None:
            me = this_process()
            self._gate_file.shut(self.clock.now(), f"{me.user}@{me.host} ({me.pid})", reason)

    def action_open_gate(self) -> None:
        """Open the cancel gate, once the operator has said yes."""
        gate = self._gate_file
        if not self.write:
            self.tell(self.read_only_words, severity="warning")
        elif gate is None or gate.words() is None:
            self.tell("The cancel gate of this cluster is open.")
        else:
            words = messages.OPENING_GATE.format(gate.words())

            def answered(yes: bool | None) -> None:  # noqa: FBT001 - the screen's answer
                if yes:
                    self._open_gate(gate)

            self.push_screen(ConfirmScreen("Open the cancel gate?", words), answered)

    def _open_gate(self, gate: CancelGateFile) -> None:
        try:
            gate.open()
        except RunProblem as problem:
            self.tell(str(problem), severity="error")
        else:
            self.tell("The cancel gate is open: runs may submit again.")

    # ------------------------------------------------- what somebody else reassigns

    def _listed(self, tp: TopicPartition | None) -> ListedReassignment | None:
        """Give a partition's reassignment, if no step of the run is that."""
        seen, attached = self.progress.last, self.attached
        track = None if attached is None or tp is None else attached.run.tracks.get(tp)
        if seen is None or tp is None or (track is not None and track.step is not None):
            return None
        return listed_in(seen).get(tp)

    def action_cancel_foreign(self) -> None:
        """Cancel what somebody else reassigns, once the operator has said yes."""
        move, engines = self._listed(self.looked_at), self.engines
        if not self.write or engines is None:
            problem = messages.NO_ENGINES if self.write else self.read_only_words
            self.tell(problem, severity="warning")
        elif move is None:
            self.tell(messages.NOT_FOREIGN, severity="warning")
        elif move.refused is not None:
            self.tell(f"{move.tp}: {move.refused}.", severity="warning")
        else:

            def answered(yes: bool | None) -> None:  # noqa: FBT001 - the screen's answer
                if yes:
                    cancelling = self._cancel_foreign(engines, move)
                    self.run_worker(cancelling, group="asking", exit_on_error=False)

            title = f"Cancel this foreign reassignment of {move.tp}?"
            self.push_screen(ConfirmScreen(title, messages.cancelling(move)), answered)

    async def _cancel_foreign(self, engines: Engines, move: ListedReassignment) -> None:
        what = f"cancel the foreign reassignment of {move.tp}"
        try:
            settled = await engines.cancel_foreign(move)
        except (ClusterError, RunProblem) as problem:
            self.tell(str(problem), title=what, severity="error")
            return
        now = f", on {' '.join(map(str, settled.replicas))}" if settled.replicas else ""
        why = f": {settled.detail}" if settled.detail else ""
        severity = "information" if settled.well else "warning"
        self.tell(f"{settled.outcome}{now}{why}", title=what, severity=severity)
