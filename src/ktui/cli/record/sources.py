"""Record a cluster while it is polled, with the events of runs on this machine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ktui import __version__
from ktui.cli.record.prune import prune_as_configured
from ktui.cluster.clock import Clock
from ktui.cluster.observation import Observation
from ktui.cluster.observer import ObservationSource
from ktui.execution.host.kept import LiveRunsRecording, RunRecording
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.events import NOT_RECORDED, JournalEntry, Recording
from ktui.execution.run.run import Run
from ktui.recording.recorder import Recorder
from ktui.recording.replay_tape import RecordingSource
from ktui.recording.stored import Retention
from ktui.recording.writing import seal

log = logging.getLogger(__name__)


class EngineRecording:
    """Records an engine's observations and its journal; the run does not depend on the recording.

    Without a recorder it records nothing.
    """

    def __init__(self, recorder: Recorder | None, name: str) -> None:
        self._recorder = recorder
        self._events = None if recorder is None else RunRecording(recorder, name)

    def through(self, source: ObservationSource) -> ObservationSource:
        return source if self._recorder is None else RecordingSource(source, self._recorder)

    def take(self, entries: Iterable[JournalEntry]) -> None:
        if self._events is not None:
            self._events.take(entries)

    def state(self) -> Recording:
        """Return whether observations are recorded, and why not."""
        return NOT_RECORDED if self._events is None else self._events.state()


@contextmanager
def record_run(
    state: StateDir, run: Run, cluster: str, clock: Clock, *, record: bool | None
) -> Iterator[EngineRecording]:
    """Record a run in a new session, once earlier unfinished segments are sealed.

    This process owns the run. Without `record`, its options tell whether it is recorded.
    """
    folder = state.run(run.name)
    if folder.recording.is_dir():
        for problem in seal(folder.recording).problems:
            log.warning("an earlier recording stays cut off: %s", problem)
    is_recorded = run.options.record if record is None else record
    for warning in prune_as_configured(state) if is_recorded else ():
        log.warning("%s", warning)
    if run.started is None or not is_recorded:
        yield EngineRecording(None, run.name)
        return
    program = f"ktui {__version__} engine"
    recorder = Recorder(folder.recording, clock, cluster=cluster, program=program)
    recorder.begin(run.started.cluster_id)
    try:
        yield EngineRecording(recorder, run.name)
    finally:
        recorder.close()


class ClusterRecording(RecordingSource):
    """Records every poll, with the events of the runs on the cluster. One poll at a time.

    With each further session it prunes old recordings, if they are limited.
    """

    def __init__(
        self,
        source: ObservationSource,
        recorder: Recorder,
        state: StateDir,
        limits: Retention | None = None,
    ) -> None:
        super().__init__(source, recorder)
        self.runs = LiveRunsRecording(recorder, state)
        self._state, self._limits = state, limits
        self._writing: asyncio.Future[None] | None = None

    async def _record(self, observation: Observation) -> None:
        # Ten thousand moves, or a long journal, take a while. The view draws meanwhile.
        writing = asyncio.to_thread(self._record_with_runs, observation)
        self._writing = asyncio.ensure_future(writing)
        await asyncio.shield(self._writing)

    def _record_with_runs(self, observation: Observation) -> None:
        before = self.recorder.path
        self.runs.record(observation)
        if before not in (None, self.recorder.path):
            prune_as_configured(self._state, self._limits)

    async def aclose(self) -> None:
        if self._writing is not None:
            await asyncio.wait([self._writing])
        await asyncio.to_thread(self.runs.close)
        self.recorder.close()
