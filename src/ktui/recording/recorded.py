"""A source of observations that records each one before it hands it on."""

from __future__ import annotations

from collections.abc import Collection

from ktui.cluster.errors import ClusterError
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, ObservationSource
from ktui.recording.recorder import Recorder


class RecordingSource:
    """Polls through another source, and records each observation and each failed poll."""

    def __init__(self, source: ObservationSource, recorder: Recorder) -> None:
        self._source = source
        self._recorder = recorder

    async def poll(self, interest: Interest) -> Observation:
        """Poll once, and record the observation or the failure.

        Raises:
            ClusterError: the cluster is lost.
        """
        try:
            observation = await self._source.poll(interest)
        except ClusterError as error:
            self._recorder.lost(str(error))
            raise
        self._recorder.look(observation)
        return observation

    def settings_changed(self, topics: Collection[str], brokers: Collection[int]) -> None:
        """Read the settings of these topics and brokers again in the next poll."""
        self._source.settings_changed(topics, brokers)
