"""A cluster that is recorded while it is looked at, with what runs of this machine do there."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from ktui.cluster.errors import ClusterError
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, Observations
from ktui.execution.run_recording import LiveRunsRecording
from ktui.execution.statedir import StateDir
from ktui.recording.recorder import Recorder


class ClusterRecording:
    """Looks as its source does, and records. One poll at a time.

    Args:
        source: where observations come from.
        recorder: where they go, beside whoever asks for them.
        state: where the runs are remembered.
    """

    def __init__(self, source: Observations, recorder: Recorder, state: StateDir) -> None:
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
