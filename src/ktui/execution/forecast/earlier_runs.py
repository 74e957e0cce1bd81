"""The rates of earlier runs on a cluster, from the insights of the state directory."""

from __future__ import annotations

from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.insights.file import insights_of
from ktui.insights.prior import Prior


class EarlierRuns:
    """Look up the rates of earlier runs by a cluster's id.

    Args:
        state: the state directory; it need not have insights.
    """

    def __init__(self, state: StateDir) -> None:
        self._folder = state.path

    @classmethod
    def beside(cls, run: RunDir) -> EarlierRuns:
        """Return the earlier runs of the state directory that holds a run."""
        return cls(StateDir(run.path.parent.parent))

    def __call__(self, cluster_id: str) -> Prior | None:
        """Return the rates of earlier runs on a cluster; None if there are none."""
        known = insights_of(self._folder, cluster_id)
        return None if known is None else known.prior
