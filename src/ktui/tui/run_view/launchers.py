"""What the view may have done for the operator, by whoever runs the app: it does none of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ktui.execution.cancel.foreign_outcome import ListedReassignment, Settled
from ktui.execution.host.launch import NewRun
from ktui.execution.host.state_dir import RunDir
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.plan import Plan


class Engines(Protocol):
    """Starts the processes that carry runs on. What they raise as RunProblem is told as it is."""

    def limits(self, brokers: int) -> Limits:
        """Give the limits of a run that names none, on so many brokers that are alive."""
        ...

    @property
    def throttle(self) -> str:
        """The throttle of a run that names none, as `rates_from` takes it; empty for none."""
        ...

    async def look(self, plan: Plan) -> ClusterSnapshot:
        """Look at what a plan is about.

        Raises:
            ClusterError: the cluster cannot be asked.
        """
        ...

    async def measured(self, plan: Plan, seen: ClusterSnapshot) -> ClusterSnapshot:
        """Add to a look what a throttle is held against, which takes some seconds.

        Raises:
            ClusterError: the cluster cannot be asked.
        """
        ...

    async def start(self, wanted: NewRun) -> RunDir:
        """Start a run; it is owned when this returns.

        Raises:
            RunProblem: it was not started, and nothing was sent; says why.
            ClusterError: the cluster cannot be asked.
        """
        ...

    async def resume(self, run: RunDir, ask: Callable[[], None] | None = None) -> None:
        """Have a process go on with a run; it is owned when this returns.

        Args:
            run: its folder.
            ask: asks of the process what it is to call off, once nothing is in its way. That is
                done also where nobody can be asked who owns the cluster.

        Raises:
            RunProblem: it is not gone on with; says why.
            ClusterError: the cluster cannot be asked.
        """
        ...

    async def cancel_foreign(self, move: ListedReassignment) -> Settled:
        """Cancel a reassignment that no run has begun, and give what became of it.

        Raises:
            RunProblem: a run has begun it, or it cannot be written down; nothing is sent.
            ClusterError: the cluster cannot be asked.
        """
        ...
