"""Name the run of this state directory that reassigns a partition: no run is "someone else"."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from ktui.cluster.partition import TopicPartition
from ktui.execution.errors import RunProblem
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.follower import RunFollower
from ktui.execution.run.run import Run

Movers = Mapping[TopicPartition, str]
"""The run that has a step of a partition in flight, by partition."""


class OtherRuns:
    """The runs of a state directory on one cluster, followed for what they have in flight.

    Any thread may call it. The first call reads every journal, later ones new events only.

    Args:
        state: the state directory.
        cluster_id: the cluster.
        but: the name of a run that is left out; empty for none.
    """

    def __init__(self, state: StateDir, cluster_id: str, but: str = "") -> None:
        self._state, self._cluster_id, self._but = state, cluster_id, but
        self._lock, self._closed = threading.Lock(), False
        self._followers: dict[str, RunFollower] = {}
        self._others: set[str] = {but}
        """Runs that are not followed: they have ended, or are of other clusters."""

    @classmethod
    def beside(cls, run: RunDir, cluster_id: str) -> OtherRuns:
        """Return the other runs of the state directory that holds a run."""
        return cls(StateDir(run.path.parent.parent), cluster_id, run.name)

    def movers(self) -> Movers:
        """Return which run moves which partition; a run that cannot be read moves none."""
        with self._lock:
            return {} if self._closed else self._movers()

    def _movers(self) -> Movers:
        try:
            folders = {run.name: run for run in self._state.run_dirs()}
        except RunProblem:
            return {}
        for name in self._followers.keys() - folders.keys():
            self._followers.pop(name).close()
        movers: dict[TopicPartition, str] = {}
        for name, folder in folders.items():
            run = None if name in self._others else self._read(folder)
            if run is not None:
                movers |= dict.fromkeys((*run.tracks_in_flight, *run.cancelling), name)
        return movers

    def _read(self, folder: RunDir) -> Run | None:
        """Return a run with its newest events; None where it is none of these, or unreadable."""
        try:
            follower = self._followers.get(folder.name)
            if follower is None:
                follower = self._followers[folder.name] = RunFollower(folder.journal)
            follower.refresh()
        except RunProblem:
            return None
        started = follower.run.started
        if started is not None and (started.cluster_id != self._cluster_id or follower.run.ended):
            self._others.add(folder.name)
            self._followers.pop(folder.name).close()
            return None
        return follower.run

    def close(self) -> None:
        """Close the journals, once a call that goes on in another thread has ended."""
        with self._lock:
            self._closed = True
            self._close_all()

    def _close_all(self) -> None:
        for follower in self._followers.values():
            follower.close()
        self._followers.clear()


def find_movers(state: StateDir, cluster_id: str, but: str = "") -> Movers:
    """Return which run of a state directory moves which partition of a cluster now."""
    runs = OtherRuns(state, cluster_id, but)
    try:
        return runs.movers()
    finally:
        runs.close()
