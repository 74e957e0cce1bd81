"""The app while its observations are recorded: the header shows it, and failures are reported."""

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
    """Watches a cluster, and shows that it is being recorded.

    Args:
        source: the source of observations, which has them recorded.
        recorder: records the observations.
        how: further arguments of `KtuiApp`.
    """

    def __init__(self, source: ObservationSource, *, recorder: Recorder, **how: Any) -> None:
        super().__init__(source, **how)
        self._recorder = recorder
        self._reported: str | None = None

    @on(Polled)
    @on(PollFailed)
    def _report_problem(self) -> None:
        """Report once why recording has stopped; the header keeps showing that it has."""
        problem = self._recorder.problem
        if problem is not None and problem != self._reported:
            self._reported = problem
            self.notify(problem, severity="error", markup=False)

    def cluster_status(self) -> Status:
        """Return the state of the cluster, and whether it is being recorded."""
        recorded = self._recorder.problem is None
        return msgspec.structs.replace(super().cluster_status(), recorded=recorded)
