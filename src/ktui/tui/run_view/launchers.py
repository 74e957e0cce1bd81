"""Actions that the view offers and leaves to the app's caller, such as starting engines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from ktui.cluster.partition import TopicPartition
from ktui.execution.cancel.foreign_outcome import ListedReassignment, Settled
from ktui.execution.host.launch import NewRun
from ktui.execution.host.state_dir import RunDir
from ktui.execution.run.run import Run
from ktui.ops.preview import FactReader
from ktui.pacing.limits import Limits
from ktui.planning.intents.read_layout import LayoutAnswer
from ktui.planning.throttle_rates import ThrottleRates
from ktui.tui.run_view.rehearsing import PlanRehearser


class EngineLauncher(Protocol):
    """Starts the engines of runs. The view shows the text of their RunProblem as it is."""

    def limits(self, named: Mapping[str, object]) -> Limits:
        """Return the limits that hold where an operator names none but these."""
        ...

    @property
    def throttle(self) -> str:
        """The throttle of a run that names none, for `parse_throttle_rates`; empty for none."""
        ...

    @property
    def canary(self) -> bool:
        """Whether a canary measures the objective of a run that does not say."""
        ...

    @property
    def rehearser(self) -> PlanRehearser | None:
        """Rehearses plans on twins of the cluster; None where there is nothing to rehearse."""
        ...

    @property
    def facts(self) -> FactReader:
        """Reads what the preview of a plan rests on."""
        ...

    async def read_layout(self) -> LayoutAnswer:
        """Read what a plan is made from: all partitions with their sizes, and the brokers' room.

        Raises:
            ClusterError: the cluster cannot be asked.
        """
        ...

    async def check_throttle(self, run: Run, rates: ThrottleRates) -> None:
        """Check that a run's principal may set a throttle, and measure its objective.

        Raises:
            RunRefused: a permission is missing; the text names it.
        """
        ...

    async def start(self, wanted: NewRun) -> RunDir:
        """Start a run; an engine owns it when this returns.

        Raises:
            RunProblem: the run was not started, and nothing was sent; the text has the reason.
            ClusterError: the cluster cannot be asked.
        """
        ...

    async def resume(self, run: RunDir, ask: Callable[[], None] | None = None) -> None:
        """Start an engine for a run; the engine owns it when this returns.

        Args:
            run: its folder.
            ask: asks the engine for a cancel, once nothing blocks the run. A cancel resumes the run
                even where the owner of the cluster cannot be determined.

        Raises:
            RunProblem: the run was not resumed; the text has the reason.
            ClusterError: the cluster cannot be asked.
        """
        ...

    async def cancel_foreign(
        self, moves: Collection[ListedReassignment]
    ) -> Mapping[TopicPartition, Settled]:
        """Cancel reassignments that no run has started, and return the outcome of each.

        Raises:
            RunProblem: a run has started one, or it cannot be written down; nothing is sent.
            ClusterError: the cluster cannot be asked.
        """
        ...
