"""What the view reads of one broker, and does to it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from ktui.cluster.errors import ClusterError
from ktui.cluster.partition import TopicPartition
from ktui.cluster.settings import CORDONED
from ktui.execution import RunProblem, RunRefused
from ktui.execution.broker.cordon import BrokerAccess, CordonState
from ktui.execution.broker.status import BrokerStatus, find_status, unknown_broker
from ktui.execution.host.catalog import unfinished_runs
from ktui.execution.journal.commands import Continue, Pause
from ktui.execution.run.scope import partitions_on
from ktui.planning.intents.registry import INTENTS
from ktui.tui.app.run_controller import Controller
from ktui.tui.draw import format as figures
from ktui.tui.run_view import messages
from ktui.tui.run_view.plan_request import PlanRequest
from ktui.tui.screens.brokers.status import (
    BrokerAct,
    BrokerStatusScreen,
    ListedChoice,
    ManageBrokerScreen,
    broker_choice,
)
from ktui.tui.widgets.services import BrokerActs

if TYPE_CHECKING:
    from ktui.tui.app.app import KtuiApp


_DOWN = "the broker is down, and has to answer for its own setting"
_EFFECTS = {
    False: (
        "No new partitions come to it. Replicas that are there stay, and a reassignment may still"
        " bring others."
    ),
    True: "New partitions may come to it again.",
}


class BrokerController(Controller, BrokerActs):
    """Reads one broker, opens the plans for it, and changes its cordon and its part of the run."""

    def __init__(self, app: KtuiApp, access: BrokerAccess | None) -> None:
        super().__init__(app)
        self._access, self.may_read = access, access is not None
        self._run, self._runs, self._cancels = (
            app.run_controller, app.run_catalog, app.cancel_controller
        )  # fmt: skip
        self.proven_empty: dict[int, datetime] = {}
        self._tried: tuple[int, datetime] | None = None

    async def show_status(self, broker: int) -> None:
        if self._access is None:
            self.warn(self._app.why_read_only or "There is no cluster here to ask.")
            return
        access = self._access

        async def read() -> tuple[BrokerStatus, datetime]:
            return await self._read(access, broker), access.clock.now()

        await self._app.push_screen(BrokerStatusScreen(broker, read))

    async def _read(self, access: BrokerAccess, broker: int) -> BrokerStatus:
        facts, fresh = await access.read(broker)
        if not facts.known:
            raise RunProblem(f"{unknown_broker(broker, facts.brokers)}.")

        def found() -> BrokerStatus:
            state_dir, cluster_id = self._runs.state_dir, facts.cluster_id
            runs = [] if state_dir is None else unfinished_runs(state_dir, cluster_id)
            return find_status(
                facts, [(run, owner is not None) for run, owner in runs], fresh=fresh
            )

        status = await asyncio.to_thread(found)
        if status.proven_empty:
            self.proven_empty[broker] = access.clock.now()
        else:
            self.proven_empty.pop(broker, None)
        return status

    def prove_empty(self, broker: int) -> None:
        """Prove that a broker is empty, of which the census counts nothing: once a census."""
        last = self._app.progress.last
        census = None if last is None else last.census
        if self._access is None or last is None or census is None:
            return
        if census.replicas.get(broker) or broker not in last.online:
            self.proven_empty.pop(broker, None)
        elif (broker, census.at) != self._tried:
            self._tried = (broker, census.at)
            proving = self._prove(self._access, broker)
            self._app.run_worker(proving, group="empty", exclusive=True, exit_on_error=False)

    async def _prove(self, access: BrokerAccess, broker: int) -> None:
        try:
            await self._read(access, broker)
        except (ClusterError, RunProblem):  # then it is not proven, and the status says why
            self.proven_empty.pop(broker, None)
        self._app.draw_screens()

    @property
    def why_not(self) -> str | None:
        return self._app.forbidden

    async def manage(self, broker: int) -> None:
        if self.why_not is not None:
            self.warn(self.why_not)
            return

        async def chosen(act: str | None) -> None:
            if act is not None:
                await self.do(BrokerAct(act), broker)

        await self._app.push_screen(ManageBrokerScreen(broker, self._choices(broker)), chosen)

    def _choices(self, broker: int) -> Sequence[ListedChoice]:
        last = self._app.progress.last
        up = last is not None and broker in last.online
        no_plan, no_cordon = self._runs.resume_problem or "", self._no_cordon(up=up)
        of_run, no_run = self._of_run(broker)
        return (
            broker_choice(BrokerAct.DRAIN, "it gives up all its replicas", no_plan),
            broker_choice(
                BrokerAct.DEMOTE, "it comes last in every list, and leads nothing", no_plan
            ),
            broker_choice(BrokerAct.SHED, "it gives up just enough bytes", no_plan),
            broker_choice(
                BrokerAct.FILL,
                "it gets its share of all replicas",
                no_plan or ("" if up else "the broker is down and can get no replicas"),
            ),
            broker_choice(BrokerAct.CORDON, "no new partitions come to it (Kafka 4.3)", no_cordon),
            broker_choice(BrokerAct.UNCORDON, "new partitions may come to it again", no_cordon),
            broker_choice(BrokerAct.PAUSE, f"submit nothing more of {of_run}", no_run),
            broker_choice(BrokerAct.CONTINUE, f"lift such a pause of {of_run}", no_run),
            broker_choice(
                BrokerAct.CANCEL,
                f"stop, roll back or trim {of_run}",
                self._no_cancel(broker),
            ),
        )

    def _no_cordon(self, *, up: bool) -> str:
        if self._access is None or not self._access.may_change:
            return messages.NO_ENGINES.rstrip(".")
        return "" if up else _DOWN

    def _of_run(self, broker: int) -> tuple[str, str]:
        attached = self._run.attached
        if attached is None:
            return "its part of a run", "no run is attached"
        count = figures.as_count(len(partitions_on(attached.run, [broker])), "partition")
        return f"{count} of run {attached.name}", self._run.why_not() or ""

    def _no_cancel(self, broker: int) -> str:
        attached = self._run.attached
        if attached is None:
            return "no run is attached"
        if problem := self._run.why_not(without_engine=True):
            return problem
        return "" if partitions_on(attached.run, [broker]) else "the run has nothing there"

    async def do(self, act: BrokerAct, broker: int) -> None:
        """Do something to a broker; everything asks, or shows a preview, before it sends."""
        match act:
            case BrokerAct.CORDON | BrokerAct.UNCORDON:
                self.change_cordon(broker, lift=act is BrokerAct.UNCORDON)
            case BrokerAct.PAUSE | BrokerAct.CONTINUE:
                self._pause(broker, lift=act is BrokerAct.CONTINUE)
            case BrokerAct.CANCEL:
                await self._cancels.cancel_on_broker(broker)
            case _:
                field = INTENTS[act.value].needs[0]  # the act is an intent of that name
                request = PlanRequest(act.value, {field: str(broker)})
                await self._runs.choose_plan(request=request)

    def change_cordon(self, broker: int, *, lift: bool) -> None:
        if self.why_not is not None or self._access is None:
            self.warn(self.why_not or messages.NO_ENGINES)
            return
        self.later(self._ask_about_cordon(self._access, broker, lift=lift), "cordon")

    async def _ask_about_cordon(self, access: BrokerAccess, broker: int, *, lift: bool) -> None:
        what = f"{'uncordon' if lift else 'cordon'} broker {broker}"
        try:
            seen = await access.read_cordon(broker)
            nothing = _no_change(seen, lift=lift)
        except (ClusterError, RunProblem) as problem:
            self.fail(problem, what)
            return
        if nothing:
            self._app.notify(nothing, title=what)
            return

        def change() -> None:
            self.later(self._change_cordon(access, seen, what, lift=lift), "cordon")

        after = "not set" if lift else seen.with_cordons(())
        words = f"{CORDONED}: {seen.value} -> {after}. {_EFFECTS[lift]}"
        self.confirm(f"{what.capitalize()}?", words, change)

    async def _change_cordon(
        self, access: BrokerAccess, seen: CordonState, what: str, *, lift: bool
    ) -> None:
        self._app.notify("Waiting until the broker reports it …", title=what)
        try:
            now = await (access.uncordon(seen) if lift else access.cordon(seen))
        except (ClusterError, RunProblem) as problem:
            self.fail(problem, what)
        else:
            self._app.notify(now.outcome, title=what)
        self._app.refresh_screens()

    def _pause(self, broker: int, *, lift: bool) -> None:
        attached = self._run.may_change()
        if attached is None:
            return
        what = f"{'continue' if lift else 'pause'} broker {broker}"

        def partitions() -> tuple[TopicPartition, ...]:
            run = attached.run
            found = partitions_on(run, [broker], ever=lift)
            return tuple(tp for tp in found if not lift or tp in run.pauses.partitions)

        def change() -> None:
            if named := partitions():  # as they are by now
                command = Continue(partitions=named) if lift else Pause(partitions=named)
                self._run.ask(command, what)

        count = figures.as_count(len(partitions()), "partition")
        if not partitions():
            nothing = messages.NOT_PAUSED_ON_BROKER if lift else messages.NOT_ON_BROKER
            self.warn(nothing.format(attached.name, broker))
            return
        asks = "Let go on again" if lift else "Pause"
        title = f"{asks} what comes to broker {broker} or leaves it?"
        effect = (
            "The run goes on with these under the limits in force."
            if lift
            else "Nothing new of these is submitted; steps in flight finish. All else goes on."
        )
        words = f"{count} of run {attached.name}. {effect}"
        self.confirm(title, words, change)


def _no_change(seen: CordonState, *, lift: bool) -> str:
    if not lift:
        value = seen.with_cordons(())
        cordoned = seen.has(value)
        return f"nothing to do: it is cordoned already: {seen.summary}" if cordoned else ""
    if seen.setting.own is not None:
        return ""
    if seen.cordoned:
        raise RunRefused(f"nothing was sent: {seen.by_file}")
    return "nothing to do: it has no cordon"
