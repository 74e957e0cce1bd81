"""What earlier runs on a cluster tell a new one: the insights of the state directory."""

from __future__ import annotations

from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.insights.file import insights_of
from ktui.insights.prior import Prior


class EarlierRuns:
    """Tells how fast earlier runs went, by a cluster's id.

    Args:
        state: the folder that has insights, or has none.
    """

    def __init__(self, state: StateDir) -> None:
        self._folder = state.path

    @classmethod
    def beside(cls, run: RunDir) -> EarlierRuns:
        """Give those of the state directory that a run is in."""
        return cls(StateDir(run.path.parent.parent))

    def __call__(self, cluster_id: str) -> Prior | None:
        """Give what is known of a cluster; None where nothing is."""
        known = insights_of(self._folder, cluster_id)
        return None if known is None else known.prior
