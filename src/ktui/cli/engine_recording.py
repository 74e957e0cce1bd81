"""The recording of a run by the process that owns it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ktui import __version__
from ktui.cluster.clock import Clock
from ktui.cluster.observer import Observations
from ktui.execution.events import Entry
from ktui.execution.recording_event import NOT_RECORDED, Recording
from ktui.execution.run import Run
from ktui.execution.run_recording import RunRecording
from ktui.execution.statedir import RunDir
from ktui.recording.recorded import Recorded
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

    def through(self, source: Observations) -> Observations:
        """Give a source that is recorded."""
        return source if self._recorder is None else Recorded(source, self._recorder)

    def take(self, entries: Iterable[Entry]) -> None:
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
