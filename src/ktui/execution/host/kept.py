"""What is kept of a run beside its journal: recordings of it, and the speed that it has shown."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.observation import Observation
from ktui.cluster.ports import ConfigResource
from ktui.durable import write_whole
from ktui.execution import RunProblem
from ktui.execution.host.ownership import live_runs
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.host.told_rates import ToldRates
from ktui.execution.journal.journal import RunFollower
from ktui.execution.journal.tables import format_time
from ktui.execution.run.events import (
    Configured,
    JournalEntry,
    Recording,
    SettingChanged,
    Started,
    encode,
)
from ktui.execution.run.run import Run
from ktui.execution.run.unanswered import with_requested_replicas
from ktui.inputfile import Unreadable, read_input
from ktui.progress.fold import fold
from ktui.progress.timeline import Progress
from ktui.recording.reading import find_sessions
from ktui.recording.recorder import Recorder
from ktui.recording.replay_tape import Axis, Tape
from ktui.recording.segments import to_ms, wall_ms
from ktui.speed.shown import SCHEMA_VERSION, SpeedShown, together


class RunRecording:
    """Records the events of one run."""

    def __init__(self, recorder: Recorder, name: str) -> None:
        self._recorder = recorder
        self.name = name
        self._run_id = ""

    def take(self, entries: Iterable[JournalEntry]) -> None:
        """From the first entries on: their time tells runs of one name apart."""
        for entry in entries:
            if isinstance(entry.event, Started):
                self._run_id = f"{self.name}@{format_time(entry.at)}"
            self._recorder.run_event(
                self.name, self._run_id, entry.seq, entry.at, encode(entry.event)
            )

    def state(self) -> Recording:
        problem = self._recorder.problem
        return Recording(on=problem is None, reason=problem or "")


class LiveRunsRecording:
    """Records the events of the runs on a cluster that processes of this machine carry on."""

    def __init__(self, recorder: Recorder, state: StateDir) -> None:
        self._recorder, self._state = recorder, state
        self._cluster_id = ""
        self._followed: dict[str, tuple[RunFollower, RunRecording]] = {}
        self._rates = ToldRates()
        self.problem: str | None = None  # why events of runs were not readable in the last poll
        self.changed: frozenset[ConfigResource] = frozenset()
        """The settings that runs have changed, or found changed, since the last but one poll."""

    @property
    def going_on(self) -> bool:
        runs = (follower.run for follower, _ in self._followed.values())
        return any(not run.ended and (run.tracks_in_flight or not run.pauses.whole) for run in runs)

    def record(self, observation: Observation) -> None:
        """Record a poll, and the new events of runs: before it those that it may show already.

        Each session has all events of its cluster's runs, and of no others. A poll has the rates
        that these tell, which the settings read may be too old for. This never raises because of a
        run.
        """
        session = self._recorder.path
        new = [] if session is None else self._read()
        self._take(new, lambda entry: entry.at <= observation.at)
        self._recorder.poll(self._rates.on(observation))
        if self._recorder.path == session:
            self._take(new, lambda entry: entry.at > observation.at)
            return
        self._forget_all()
        self._cluster_id = observation.cluster_id
        self._take_all()

    def close(self) -> None:
        if self._recorder.path is not None:
            self._take_all()
        self._forget_all()

    def _take_all(self) -> None:
        self._take(self._read(), lambda _: True)

    def _take(
        self,
        read: Iterable[tuple[RunRecording, list[JournalEntry]]],
        chosen: Callable[[JournalEntry], bool],
    ) -> None:
        for recording, entries in read:
            of_time = [*filter(chosen, entries)]
            recording.take(of_time)
            self._rates.take(recording.name, of_time)

    def _forget_all(self) -> None:
        for name in list(self._followed):
            self._forget(name)

    def _read(self) -> list[tuple[RunRecording, list[JournalEntry]]]:
        self.problem = None
        live = self._live()
        for name in live - self._followed.keys():
            self._follow(name)
        new = [(recording, self._refreshed(it)) for it, recording in self._followed.values()]
        for name in self._followed.keys() - live:
            self._forget(name)
        written = (entry.event for _, entries in new for entry in entries)
        about = Configured | SettingChanged
        self.changed = frozenset(each.resource for each in written if isinstance(each, about))
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


class SeenPoll(msgspec.Struct, frozen=True):
    """One recorded poll, folded."""

    entries: Sequence[JournalEntry]  # since the poll before; the run has applied them
    before: Progress  # just before the poll
    progress: Progress
    observation: Observation


def replay_recording(
    folder: RunDir, run: Run, entries: Iterable[JournalEntry], clock: Clock, most: int
) -> Iterator[SeenPoll]:
    """Yield a run's newest recorded polls, oldest first; none where nothing is recorded.

    The `run` begins empty, and is in the state of the last yielded poll. Times are those of
    `clock`. A poll of ten partitions counts as ten of `most`. Raises FileProblem.
    """
    if not folder.recording.is_dir():
        return
    now = Axis(wall_ms(clock.now()), to_ms(clock.monotonic()))
    tape = Tape(find_sessions(folder.recording), now)
    remaining, progress = iter(entries), Progress()
    next_entry = next(remaining, None)
    for item in tape.play(tape.last_polls(most)):
        if not isinstance(item.what, Observation):
            continue
        applied = []
        while next_entry is not None and next_entry.at <= item.what.at:
            run.apply(next_entry)
            applied.append(next_entry)
            next_entry = next(remaining, None)
        before = with_requested_replicas(progress, run)
        progress = fold(before, item.what)
        yield SeenPoll(applied, before, progress, item.what)


EVERY_S = 20.0  # between two writes: an engine that is killed leaves the last one
_MOST_BYTES = 16 * 1024**2

log = logging.getLogger(__name__)


class KeptSpeed:
    """Keeps what a run has shown; `shown` is None before a poll. A failing file disturbs no run."""

    def __init__(
        self, folder: RunDir, clock: Clock, shown: Callable[[], SpeedShown | None]
    ) -> None:
        self._path, self._clock, self._shown = folder.speed, clock, shown
        self._before = read_kept(folder.speed)  # what earlier engines of the run have seen
        self._written_s: float | None = None
        self._problem: str | None = None

    def write_if_due(self) -> None:
        now_s = self._clock.monotonic()
        if self._written_s is None or now_s - self._written_s >= EVERY_S:
            self.write()

    def write(self) -> None:
        """Also if nothing was copied: then no one looks for it in the journal."""
        shown = self._shown()
        if shown is None:
            return
        self._written_s = self._clock.monotonic()
        whole = msgspec.json.encode(together(self._before, shown))
        try:
            write_whole(self._path, msgspec.json.format(whole, indent=1))
        except OSError as error:
            if error.strerror != self._problem:
                log.warning("%s: cannot be written: %s", self._path, error.strerror)
            self._problem = error.strerror


def read_kept(path: Path) -> SpeedShown | None:
    """Read the file of a run; None if there is none, or none that this version can read."""
    try:
        shown = msgspec.json.decode(read_input(path, _MOST_BYTES), type=SpeedShown)
    except (Unreadable, msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return shown if shown.schema_version <= SCHEMA_VERSION else None
