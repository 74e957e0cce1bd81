"""A cluster that is recorded while it is looked at, with what runs of this machine do there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from ktui import __version__
from ktui.cluster.clock import Clock
from ktui.cluster.errors import ClusterError
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, ObservationSource
from ktui.execution.host.recording import LiveRunsRecording, RunRecording
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.run.events import NOT_RECORDED, JournalEntry, Recording
from ktui.execution.run.run import Run
from ktui.recording.recorded import RecordingSource
from ktui.recording.recorder import Recorder
from ktui.recording.sealing import seal

log = logging.getLogger(__name__)


class EngineRecording:
    """Records what an engine sees and what it writes down; a run may be carried on without it.

    Args:
        recorder: where to; None records nothing.
        name: of the run.
    """

    def __init__(self, recorder: Recorder | None, name: str) -> None:
        self._recorder = recorder
        self._events = None if recorder is None else RunRecording(recorder, name)

    def through(self, source: ObservationSource) -> ObservationSource:
        """Give a source that is recorded."""
        return source if self._recorder is None else RecordingSource(source, self._recorder)

    def take(self, entries: Iterable[JournalEntry]) -> None:
        """Record entries of the journal, from its first on."""
        if self._events is not None:
            self._events.take(entries)

    def state(self) -> Recording:
        """Say whether what is seen is recorded, and why not."""
        return NOT_RECORDED if self._events is None else self._events.state()


@contextmanager
def recording(
    folder: RunDir, run: Run, cluster: str, clock: Clock, *, record: bool | None
) -> Iterator[EngineRecording]:
    """Record a run in a new session, after those that were cut off have been made whole.

    Args:
        folder: the run's; this process owns it.
        run: as its journal has it.
        cluster: what the operator calls the cluster.
        clock: the one by which it is looked at.
        record: whether anything is recorded; None for as the run's options say.
    """
    if folder.recording.is_dir():
        for problem in seal(folder.recording).problems:
            log.warning("an earlier recording stays cut off: %s", problem)
    wanted = run.options.record if record is None else record
    if run.started is None or not wanted:
        yield EngineRecording(None, run.name)
        return
    program = f"ktui {__version__} engine"
    recorder = Recorder(folder.recording, clock, cluster=cluster, program=program)
    recorder.begin(run.started.cluster_id)
    try:
        yield EngineRecording(recorder, run.name)
    finally:
        recorder.close()


class ClusterRecording:
    """Looks as its source does, and records. One poll at a time.

    Args:
        source: where observations come from.
        recorder: where they go, beside whoever asks for them.
        state: where the runs are remembered.
    """

    def __init__(self, source: ObservationSource, recorder: Recorder, state: StateDir) -> None:
        self._source = source
        self.recorder = recorder
        self.runs = LiveRunsRecording(recorder, state)
        self._writing: asyncio.Future[None] | None = None

    async def poll(self, interest: Interest) -> Observation:
        """Look once.

        Raises:
            ClusterError: the cluster is lost.
        """
        try:
            seen = await self._source.poll(interest)
        except ClusterError as error:
            self.recorder.lost(str(error))
            raise
        # Ten thousand moves, or a long journal, take a while; a view is drawn meanwhile.
        self._writing = asyncio.ensure_future(asyncio.to_thread(self._record, seen))
        await asyncio.shield(self._writing)
        return seen

    def _record(self, seen: Observation) -> None:
        self.recorder.look(seen)
        self.runs.look(seen.cluster_id)

    def settings_changed(self, topics: Collection[str], brokers: Collection[int]) -> None:
        """Have the settings of topics and brokers read again in the next look."""
        self._source.settings_changed(topics, brokers)

    async def aclose(self) -> None:
        """End the recording in good order. The source is its owner's to close."""
        if self._writing is not None:
            await asyncio.wait([self._writing])
        self.runs.close()
        self.recorder.close()
