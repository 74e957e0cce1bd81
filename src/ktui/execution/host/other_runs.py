"""The other unfinished runs of a cluster: no run of this state directory is "someone else"."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.errors import RunProblem
from ktui.execution.host.catalog import RunState, run_state
from ktui.execution.host.ownership import holder
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.follower import RunFollower
from ktui.execution.run.run import Run
from ktui.execution.run.states import State

Movers = Mapping[TopicPartition, str]
"""The run that has a step of a partition in flight, by partition."""


class OtherRun(msgspec.Struct, frozen=True):
    """A run that lives, or waits to be resumed, as its journal has it."""

    name: str
    state: RunState
    done: int
    partitions: int
    states: Mapping[TopicPartition, State]
    """The partitions that are under way, or in trouble."""

    @property
    def stalled(self) -> int:
        """How many of its partitions are stalled."""
        return sum(state is State.STALLED for state in self.states.values())


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
        movers: dict[TopicPartition, str] = {}
        with self._lock:
            for folder, run in self._unfinished():
                movers |= dict.fromkeys((*run.tracks_in_flight, *run.cancelling), folder.name)
        return movers

    def alive(self) -> list[OtherRun]:
        """Return the runs that live or wait to be resumed, the live ones first, by name."""
        with self._lock:
            found = [_other_run(folder, run) for folder, run in self._unfinished()]
        known = [each for each in found if each is not None]
        return sorted(known, key=lambda each: (each.state is RunState.RESUMABLE, each.name))

    def _unfinished(self) -> Iterator[tuple[RunDir, Run]]:
        if self._closed:
            return
        try:
            folders = {run.name: run for run in self._state.run_dirs()}
        except RunProblem:
            return
        for name in self._followers.keys() - folders.keys():
            self._followers.pop(name).close()
        for name, folder in folders.items():
            run = None if name in self._others else self._read(folder)
            if run is not None:
                yield folder, run

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


def _other_run(folder: RunDir, run: Run) -> OtherRun | None:
    """Return a run as others see it; None where it goes on elsewhere, or cannot be read.

    A run that no engine has ever owned, and that has begun nothing, is only being started.
    """
    try:
        state = run_state(run, holder(folder))
    except RunProblem:
        return None
    if run.started is None or state in (RunState.EXPORTED, RunState.ENDED):
        return None
    if state is RunState.RESUMABLE and run.owner is None and not run.batch:
        return None
    return OtherRun(
        name=folder.name,
        state=state,
        done=run.counts[State.DONE],
        partitions=len(run.tracks),
        states={
            tp: track.state
            for tp, track in run.tracks.items()
            if not track.state.ended and (track.under_way or track.cancel is not None)
        },
    )


def find_movers(state: StateDir, cluster_id: str, but: str = "") -> Movers:
    """Return which run of a state directory moves which partition of a cluster now."""
    runs = OtherRuns(state, cluster_id, but)
    try:
        return runs.movers()
    finally:
        runs.close()
