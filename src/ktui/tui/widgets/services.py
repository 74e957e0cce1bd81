"""What the app offers to screens and widgets, what screens offer to it, and work off the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import msgspec
from textual import on
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget
from textual.worker import Worker, WorkerState

from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest
from ktui.cluster.partition import TopicPartition
from ktui.execution.host.catalog import OtherRun
from ktui.execution.host.state_dir import RunDir
from ktui.execution.journal.commands import Command
from ktui.execution.run.run import Run
from ktui.progress.row import OpenPartitions
from ktui.progress.summary import BrokerLoad, broker_loads
from ktui.progress.timeline import Event, Progress
from ktui.tui.poll import ClusterOutage, Overview
from ktui.tui.run_view.attached import AttachedRun, RunStatus


class Notification(NamedTuple):
    """A message that takes the place of the footer's keys for a while."""

    words: str
    severity: str = "information"  # as Textual names them: information, warning, error


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the cluster and of the view, as the header shows it."""

    cluster_name: str
    read_only: bool
    tls_unverified: bool = False
    interval_s: float
    now: datetime
    now_s: float
    last: Observation | None
    overview: Overview
    run: RunStatus | None = None
    others: Sequence[OtherRun] = ()
    """The other runs of its cluster that live or wait, the live ones first."""
    foreign: int = 0  # partitions being reassigned that are none of that run's steps in flight
    foreign_of_runs: Mapping[str, int] = {}
    """Those of them that other runs of the state directory have begun, by run."""
    foreign_stalled: tuple[TopicPartition, ...] = ()
    """Those of them that are stalled, the longest first."""
    movers: Mapping[TopicPartition, str] = {}
    down_since_s: Mapping[int, float | None] = {}
    left_behind: int = 0  # throttles that nobody needs, on the brokers and topics that are polled
    cancel_gate: str = ""
    outage: ClusterOutage | None = None
    recorded: bool | None = None
    until_seen: str = ""  # the text before the first poll; empty for the address being connected to
    badge: str = ""  # the kind of view, where it is not live on a real cluster: "SIMULATED x10"


class KeyAbilities:
    """Which keys can do something now; without an app, all of them."""

    def works(self, action: str) -> bool:
        del action
        return True

    def words_of_key(self, action: str, words: str) -> str:
        del action
        return words

    def helps(self, action: str) -> bool:
        return self.works(action)


class RunActs:
    """What the app does to the run that it follows."""

    def pause_partition(self, tp: TopicPartition | None) -> None:
        """Pause a partition of the run, or continue it."""

    def write_note(self) -> None:
        """Write a note on the run."""


class BrokerActs:
    """What the app does to a broker, and has proven of some."""

    proven_empty: Mapping[int, datetime] = MappingProxyType({})

    def prove_empty(self, broker: int) -> None:
        """Prove that a broker is empty of which nothing is counted; `proven_empty` then has it."""

    async def show_status(self, broker: int) -> None:
        """Show what a broker holds, and what keeps it."""

    async def manage(self, broker: int) -> None:
        """Ask what is to be done to a broker, and do that."""


class Services:
    """The app's state and actions for its screens and widgets.

    The defaults are those of an app without a cluster and without a run.
    """

    abilities = KeyAbilities()
    zoom_s: float | None = None  # the seconds that timelines and lanes reach back; None for all
    run_controller = RunActs()
    broker_controller = BrokerActs()

    @property
    def progress(self) -> Progress:
        return Progress()

    @property
    def broker_loads(self) -> Mapping[int, BrokerLoad]:
        return broker_loads(self.progress)

    @cached_property
    def open_partitions(self) -> OpenPartitions:
        return OpenPartitions()

    @property
    def outage(self) -> ClusterOutage | None:
        return None

    @property
    def events(self) -> Sequence[Event]:
        """The events of the polls, of outages and of the run, oldest first."""
        return self.progress.events

    @property
    def keymap(self) -> Mapping[str, str]:
        return {}

    @property
    def notification(self) -> Notification | None:
        return None

    @property
    def keys_left_out_first(self) -> tuple[str, ...] | None:
        return None

    def report_own_error(self, worker: Worker[Any]) -> None:
        """Report a defect in what a worker did; the view keeps running."""

    @property
    def keys_in_dialogs(self) -> Mapping[str, str]:
        """The app's keys that work in dialogs in which nothing can be typed, with their actions."""
        return {}

    @property
    def attached(self) -> AttachedRun | None:
        return None

    @property
    def run_status(self) -> RunStatus | None:
        return None if self.attached is None else self.attached.status

    @property
    def cluster_id(self) -> str | None:
        return None

    @property
    def cancel_gate(self) -> str:
        return ""

    @property
    def why_read_only(self) -> str | None:
        """Why nothing can be changed from this view, where the usual text does not apply."""
        return None

    async def check_permitted(self, run: Run, command: Command) -> None:
        """Check that a run's principal may do what a command requests; RunRefused if not."""

    def cluster_status(self) -> Status | None:
        return None

    def trail_to(self, screen: Screen[Any]) -> Sequence[str]:
        """Return what each screen shows from the list to this one; none for the list itself."""
        del screen
        return ()

    def poll_now(self) -> None:
        """Poll at once: what is polled has changed."""

    def neighbour(self, tp: TopicPartition, step: int) -> TopicPartition | None:
        del tp, step
        return None

    def filter_by_broker(self, broker: int) -> None:
        """Show only the partitions that involve a broker."""

    def attach_to(self, folder: RunDir) -> None:
        """Follow a run, and show it."""

    def resume_run(self, folder: RunDir) -> None:
        """Start an engine for a run that has none, and follow the run."""

    def roll_back_run(self, folder: RunDir) -> None:
        """Follow a run, and open the cancel dialog on all of it."""


def services(node: DOMNode) -> Services:
    """Return the services of the app that a screen or widget is in."""
    app = node.app
    if not isinstance(app, Services):
        raise TypeError(f"{type(app).__name__} offers no Services")
    return app


@runtime_checkable
class ShowsProgress(Protocol):
    """A screen that draws the progress of the polls, which it asks of the `Services`."""

    def show_progress(self) -> None: ...


@runtime_checkable
class ShowsRun(Protocol):
    """A screen that draws a run."""

    def show_run(self, attached: AttachedRun | None, touched: set[TopicPartition]) -> None: ...


@runtime_checkable
class NeedsPolls(Protocol):
    """A screen that needs more from polls than the partitions being reassigned."""

    @property
    def interest(self) -> Interest: ...


@runtime_checkable
class ShowsPartition(Protocol):
    """A screen on which the operator has selected a partition."""

    @property
    def partition(self) -> TopicPartition | None: ...


class ReportsOwnErrors(DOMNode):
    """A screen whose failed workers the app reports like its own.

    Textual sends a worker's changes to the node that has started it, and to no other. This is the
    last base of the screen: Textual looks for styles along the first one.
    """

    @on(Worker.StateChanged)
    def _report_own_error(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR:
            services(self).report_own_error(event.worker)


C = TypeVar("C")
R = TypeVar("R")

FEW = 1_000  # with more partitions than this, working on all of them delays keys


class OffLoop(Generic[C, R]):
    """Computes what a widget shows after each change, and shows it on the loop.

    One change is worked on at a time. Those that come meanwhile wait, and are united. `compute`
    alters nothing that the loop reads.
    """

    def __init__(
        self,
        widget: Widget,
        compute: Callable[[C], R],
        show: Callable[[C, R], None],
        unite: Callable[[C, C], C],
    ) -> None:
        self._widget, self._compute, self._show, self._unite = widget, compute, show, unite
        self._under_way: C | None = None
        self._waiting: C | None = None

    @property
    def busy(self) -> bool:
        return self._under_way is not None

    @property
    def not_shown(self) -> tuple[C, ...]:
        return tuple(each for each in (self._under_way, self._waiting) if each is not None)

    def submit(self, change: C, partitions: int) -> None:
        if self.busy:
            waiting = self._waiting
            self._waiting = change if waiting is None else self._unite(waiting, change)
        elif partitions > FEW:
            self._under_way = change
            self._widget.run_worker(self._work(), group="off-loop")
        else:
            self._show(change, self._compute(change))

    async def _work(self) -> None:
        while (change := self._under_way) is not None:
            result = await asyncio.to_thread(self._compute, change)
            self._under_way, self._waiting = self._waiting, None
            self._show(change, result)
