"""A source of observations that records each one before it hands it on."""

from __future__ import annotations

from ktui.cluster.errors import ClusterError
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, ObservationSource, SourceWrapper
from ktui.recording.recorder import Recorder


class RecordingSource(SourceWrapper):
    """Polls through another source, and records each observation and each failed poll."""

    def __init__(self, source: ObservationSource, recorder: Recorder) -> None:
        super().__init__(source)
        self.recorder = recorder

    async def poll(self, interest: Interest) -> Observation:
        """Poll once, and record the observation or the failure.

        Raises:
            ClusterError: the cluster is lost.
        """
        try:
            observation = await super().poll(interest)
        except ClusterError as error:
            self.recorder.lost(str(error))
            raise
        await self._record(observation)
        return observation

    async def _record(self, observation: Observation) -> None:
        self.recorder.poll(observation)
