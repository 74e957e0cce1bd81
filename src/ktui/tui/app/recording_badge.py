"""The app while what it sees is recorded: it says so, and tells when that has to stop."""

from __future__ import annotations

from typing import Any

import msgspec
from textual import on

from ktui.cluster.observer import ObservationSource
from ktui.recording.recorder import Recorder
from ktui.tui.app.app import KtuiApp
from ktui.tui.poll.polling import Polled, PollFailed
from ktui.tui.widgets.services import Status


class RecordingApp(KtuiApp):
    """Watches a cluster, and says that it is recorded.

    Args:
        source: where observations come from; it has them recorded.
        recorder: what records them.
        how: as for `KtuiApp`.
    """

    def __init__(self, source: ObservationSource, *, recorder: Recorder, **how: Any) -> None:
        super().__init__(source, **how)
        self._recorder = recorder
        self._told: str | None = None

    @on(Polled)
    @on(PollFailed)
    def _tell_problem(self) -> None:
        """Tell once why nothing more is recorded; the header goes on to say that it is not."""
        problem = self._recorder.problem
        if problem is not None and problem != self._told:
            self._told = problem
            self.notify(problem, severity="error", markup=False)

    def cluster_status(self) -> Status:
        """Tell how the cluster is now, and whether it is recorded."""
        recorded = self._recorder.problem is None
        return msgspec.structs.replace(super().cluster_status(), recorded=recorded)
