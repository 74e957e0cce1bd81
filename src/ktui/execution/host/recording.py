"""Recording of the events of runs, beside the observations of their cluster."""

from __future__ import annotations

from collections.abc import Iterable

from ktui.cluster.observation import Observation
from ktui.execution.errors import RunProblem
from ktui.execution.host.ownership import live_runs
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.event_table import format_time
from ktui.execution.journal.follower import RunFollower
from ktui.execution.run.events import JournalEntry, Recording, Started, encode
from ktui.recording.recorder import Recorder


class RunRecording:
    """Records the events of one run.

    Args:
        recorder: the recorder to write to.
        name: the name of the run.
    """

    def __init__(self, recorder: Recorder, name: str) -> None:
        self._recorder = recorder
        self._name = name
        self._run_id = ""

    def take(self, entries: Iterable[JournalEntry]) -> None:
        """Record entries of the run's journal, beginning with its first entries.

        The time of its start distinguishes a run from others of the same name.
        """
        for entry in entries:
            if isinstance(entry.event, Started):
                self._run_id = f"{self._name}@{format_time(entry.at)}"
            self._recorder.run_event(
                self._name, self._run_id, entry.seq, entry.at, encode(entry.event)
            )

    def state(self) -> Recording:
        """Return whether the events are being recorded."""
        problem = self._recorder.problem
        return Recording(on=problem is None, reason=problem or "")


class LiveRunsRecording:
    """Records the events of the runs on a cluster that processes of this machine carry on.

    Args:
        recorder: the recorder to write to.
        state: the state directory.
    """

    def __init__(self, recorder: Recorder, state: StateDir) -> None:
        self._recorder, self._state = recorder, state
        self._cluster_id = ""
        self._followed: dict[str, tuple[RunFollower, RunRecording]] = {}
        self.problem: str | None = None
        """Why the events of some runs could not be read in the last poll."""

    @property
    def going_on(self) -> bool:
        """Whether a run still has something to do, and is not paused."""
        runs = (follower.run for follower, _ in self._followed.values())
        return any(not run.ended and (run.tracks_in_flight or not run.pauses.whole) for run in runs)

    def record(self, observation: Observation) -> None:
        """Record a poll, and the new events of runs: before it those that it may show already.

        Each session has all events of its cluster's runs, and of no others. This never raises
        because of a run.
        """
        session = self._recorder.path
        new = [] if session is None else self._read()
        for recording, entries in new:
            recording.take(entry for entry in entries if entry.at <= observation.at)
        self._recorder.poll(observation)
        if self._recorder.path == session:
            for recording, entries in new:
                recording.take(entry for entry in entries if entry.at > observation.at)
            return
        self._forget_all()
        self._cluster_id = observation.cluster_id
        self._take_all()

    def close(self) -> None:
        """Record what runs did since the last poll, and close the journals."""
        if self._recorder.path is not None:
            self._take_all()
        self._forget_all()

    def _take_all(self) -> None:
        for recording, entries in self._read():
            recording.take(entries)

    def _forget_all(self) -> None:
        for name in list(self._followed):
            self._forget(name)

    def _read(self) -> list[tuple[RunRecording, list[JournalEntry]]]:
        """Return the new entries of the runs on the session's cluster; forget those that ended."""
        self.problem = None
        live = self._live()
        for name in live - self._followed.keys():
            self._follow(name)
        new = [(recording, self._refreshed(it)) for it, recording in self._followed.values()]
        for name in self._followed.keys() - live:
            self._forget(name)
        return new

    def _live(self) -> set[str]:
        try:
            return {run.name for run in live_runs(self._state, self._cluster_id)}
        except RunProblem as problem:
            self.problem = str(problem)
            return set(self._followed)

    def _follow(self, name: str) -> None:
        try:
            follower = RunFollower(self._state.run(name).journal)
        except RunProblem as problem:
            self.problem = str(problem)
        else:
            self._followed[name] = follower, RunRecording(self._recorder, name)

    def _refreshed(self, follower: RunFollower) -> list[JournalEntry]:
        try:
            entries = [*follower.refresh()]
        except RunProblem as problem:
            self.problem = str(problem)
            return []
        self.problem = self.problem or follower.damage
        return entries

    def _forget(self, name: str) -> None:
        follower, _ = self._followed.pop(name)
        follower.close()
