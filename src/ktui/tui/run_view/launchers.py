"""What the view leaves to its caller: engines, rehearsals, and the verbs of the shell."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.foreign_cancels import ListedReassignment, Settled
from ktui.execution.host.launch import NewRun
from ktui.execution.host.state_dir import RunDir
from ktui.execution.journal.commands import (
    CancelMoves,
    Continue,
    Pause,
    SetLimits,
    SetSchedule,
    SetThrottle,
)
from ktui.execution.run.run import Run
from ktui.ops.start import FactReader
from ktui.pacing.limits import Limits
from ktui.planning.intents.layout import Layout
from ktui.planning.throttle_rates import ThrottleRates
from ktui.rehearsal.compare import RunMoment


class BadCommand(Exception):
    """A command line that cannot be carried out; the message names the problem and the fix."""


class OpenGate(msgspec.Struct, frozen=True):
    """Open the cancel gate of the cluster."""


RunChange = SetLimits | SetThrottle | SetSchedule | Pause | Continue | CancelMoves | OpenGate


class RunVerbs(Protocol):
    """Parses these verbs as `ktui` does in a shell."""

    @property
    def usage(self) -> Mapping[str, str]: ...

    def parse(self, verb: str, words: Sequence[str], run: Run) -> RunChange:
        """Return what a verb asks for; BadCommand for words that the shell would refuse."""
        ...

    def complete(self, verb: str, begun: str, run: Run) -> Iterable[str]: ...


class RehearsalInView(Protocol):
    """The rehearsal that a view shows: a twin that one may break, and what comes of it."""

    name: str

    @property
    def verbs(self) -> Sequence[str]: ...

    def check(self, event: str) -> None:
        """Check something that is to happen; BadCommand where it cannot."""
        ...

    def let_happen(self, event: str) -> str:
        """Let something happen now, or at the moment that it names; return an answer."""
        ...

    @property
    def outcome(self) -> str:
        """How the rehearsal has ended, in a few words; empty while it goes on."""
        ...

    async def report(self) -> str: ...


class BranchInView(RehearsalInView, Protocol):
    """A branch that a view shows, beside what was."""

    def beside(self, run: Run | None) -> tuple[RunMoment | None, RunMoment | None]:
        """Return the run as it was at this moment, and as it is here."""
        ...


class RehearsedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a rehearsal of a plan on its twins has shown."""

    report: str
    time: str
    holds: bool  # whether every partition comes to its target on each twin


class PlanRehearser(Protocol):
    """Rehearses plans in the background, on twins of the cluster of the view."""

    async def rehearse(
        self, wanted: NewRun, progress: Callable[[str], None], *, new_snapshot: bool
    ) -> RehearsedPlan:
        """Rehearse a plan on twins of a new snapshot, or of the last one if it was of this plan."""
        ...


class EngineLauncher(Protocol):
    """Starts the engines of runs. The view shows the text of their RunProblem as it is."""

    def limits(self, named: Mapping[str, object]) -> Limits: ...

    @property
    def throttle(self) -> str:
        """The throttle of a run that names none, for `parse_throttle_rates`; empty for none."""
        ...

    @property
    def canary(self) -> bool: ...

    @property
    def rehearser(self) -> PlanRehearser | None: ...

    @property
    def facts(self) -> FactReader: ...

    async def read_layout(self) -> Layout:
        """Read what a plan is made from: partitions with their sizes, and brokers' room."""
        ...

    async def check_throttle(self, run: Run, rates: ThrottleRates) -> None: ...

    async def start(self, wanted: NewRun) -> RunDir:
        """Start a run; an engine owns it when this returns. On an error nothing was sent."""
        ...

    async def resume(self, run: RunDir, ask: Callable[[], None] | None = None) -> None:
        """Start an engine, which then owns the run.

        Once nothing blocks the run, `ask` asks the engine for a cancel. A cancel resumes the run
        even where the owner of the cluster cannot be determined.
        """
        ...

    async def cancel_foreign(
        self, moves: Collection[ListedReassignment]
    ) -> Mapping[TopicPartition, Settled]:
        """Cancel what no run has started. On an error nothing was sent."""
        ...


_OLD_S = 30.0  # the age, in seconds, from which it is read again


class RecentLayout:
    """Reads the layout of the cluster, though not for every key: that asks all brokers."""

    def __init__(self, engines: EngineLauncher) -> None:
        self._engines = engines
        self._layout: Layout | None = None
        self._read_at_s = 0.0

    async def read(self) -> Layout:
        if self._layout is None or time.monotonic() - self._read_at_s > _OLD_S:
            self._layout = await self._engines.read_layout()
            self._read_at_s = time.monotonic()
        return self._layout
