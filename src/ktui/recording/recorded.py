"""Observations, recorded on their way to whoever asked for them."""

from __future__ import annotations

from collections.abc import Collection

from ktui.cluster.errors import ClusterError
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, Observations
from ktui.recording.recorder import Recorder


class RecordingSource:
    """Looks as its source does, and records what was seen and which polls failed."""

    def __init__(self, source: Observations, recorder: Recorder) -> None:
        self._source = source
        self._recorder = recorder

    async def poll(self, interest: Interest) -> Observation:
        """Look once.

        Raises:
            ClusterError: the cluster is lost.
        """
        try:
            seen = await self._source.poll(interest)
        except ClusterError as error:
            self._recorder.lost(str(error))
            raise
        self._recorder.look(seen)
        return seen

    def settings_changed(self, topics: Collection[str], brokers: Collection[int]) -> None:
        """Have the settings of topics and brokers read again in the next look."""
        self._source.settings_changed(topics, brokers)
