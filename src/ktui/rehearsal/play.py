"""Carry a plan out on a twin: to its end in virtual time, or in a view at its own speed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.observation import Observation
from ktui.cluster.observer import ObservationSource, Observer
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterPorts
from ktui.execution.engine.engine import Engine, usual_pause
from ktui.execution.engine.gates import when_paused
from ktui.execution.host.figures import CanaryFigure
from ktui.execution.host.kept import RunRecording
from ktui.execution.journal.journal import MemoryJournal
from ktui.execution.run.events import NOT_RECORDED, AnyRunEvent, JournalEntry, Owned
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.progress.timeline import Timeline
from ktui.quantities import as_duration
from ktui.recording.recorder import Recorder
from ktui.recording.replay_tape import RecordingSource
from ktui.rehearsal.aftermath import EndedBy, Played
from ktui.rehearsal.stage import FaultStage, Foresight
from ktui.rehearsal.twin import Fault, FaultProblem, parse_fault
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import ClusterSpec
from ktui.simulated.producers import Producers

STANDSTILL_S = 600.0  # without progress, beyond --stall-timeout: nothing is waited for
_OWNER = Owned(pid=0, host="twin", user="rehearsal")


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """A plan to be carried out, with all that the run begins with."""

    name: str  # of the run
    first: tuple[AnyRunEvent, ...]  # of its journal: partitions, limits and options
    until: datetime | None = None
    faults: tuple[Fault, ...] = ()


async def play(
    rehearsal: Rehearsal,
    spec: ClusterSpec,
    clock: Clock,
    *,
    recorder: Recorder | None = None,
    passes_over: bool = False,
) -> Played:
    """Carry a plan out on a simulated cluster until the run ends, is left, or stands still.

    The same arguments, and a clock that starts at the same time, give the same result. The caller
    closes the recorder; `passes_over` skips polls that can show nothing but more bytes.
    """
    cluster = SimulatedCluster(spec, clock)
    ports = ClusterPorts(cluster.reader(), cluster.writer())
    recording = None if recorder is None else RunRecording(recorder, rehearsal.name)
    journal = MemoryJournal(clock, _nobody if recording is None else recording.take)
    if recorder is not None:
        recorder.begin(spec.name)
    journal.append(rehearsal.first)
    run = Run(rehearsal.name).fold(journal.entries)
    observer = Observer(ports.reader, clock)
    source: ObservationSource = observer
    if recorder is not None:
        source = RecordingSource(observer, recorder)
    scene = _Scene(cluster, run, source, rehearsal.faults, lambda: engine.timelines)
    stage = scene.stage
    foresight = Foresight(stage, cluster)
    watch = _Watch(stage)
    engine = Engine(
        run,
        journal,
        foresight,
        ports,
        clock,
        recording=(lambda: NOT_RECORDED) if recording is None else recording.state,
        leave_when=watch.why_leave,
        figure=CanaryFigure(Producers(cluster)),
        pause=foresight.pause_s if passes_over else usual_pause,
    )
    try:
        await engine.execute(msgspec.structs.replace(_OWNER, until=rehearsal.until))
        lasted_s = stage.last_headway_s if watch.gave_up else stage.now_s
        await stage.outlast_faults()
    finally:
        await observer.aclose()
    played = scene.played(run.left or "", lasted_s, gave_up=watch.gave_up)
    return msgspec.structs.replace(played, entries=tuple(journal.entries))


class _Scene:
    """A run that is carried out on a twin, and what it began with."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        run: Run,
        source: ObservationSource,
        faults: Iterable[Fault],
        timelines: Callable[[], Mapping[TopicPartition, Timeline]],
    ) -> None:
        self.run = run
        self.stage = FaultStage(source, cluster, run, faults, timelines)
        self._cluster = cluster
        self._began = cluster.clock.now()
        self._epochs = self._leader_epochs()

    def played(self, why: str, lasted_s: float, *, gave_up: bool = False) -> Played:
        """What came of it up to now, without its journal."""
        left = EndedBy.STANDSTILL if gave_up else EndedBy.LEFT
        epochs = self._leader_epochs().items()
        return Played(
            began=self._began,
            lasted_s=lasted_s,
            ended_by=EndedBy.RUN if self.run.ended else left,
            why=why,
            leader_epoch_bumps=sum(epoch - self._epochs.get(tp, 0) for tp, epoch in epochs),
            peaks=self.stage.peaks,
            stalls=self.stage.stalls,
            hits=self.stage.hits,
            missed=self.stage.missed,
        )

    def _leader_epochs(self) -> Mapping[TopicPartition, int]:
        known = ((tp, self._cluster.controller.get(tp)) for tp in self.run.tracks)
        return {tp: found.leader_epoch for tp, found in known if found is not None}


class _Watch:
    """Leaves a run that stands still."""

    def __init__(self, stage: FaultStage) -> None:
        self._stage = stage
        self.gave_up = False

    def why_leave(self, run: Run, seen: Observation | None) -> str | None:
        if (paused := when_paused(run, seen)) is not None:
            return paused
        still_s = self._stage.now_s - self._stage.last_headway_s
        most_s = run.options.stall_timeout_s + STANDSTILL_S
        if self._stage.awaits_faults or still_s < most_s:
            return None
        self.gave_up = True
        return f"no progress for {as_duration(most_s)}"


def _nobody(_entries: Iterable[JournalEntry]) -> None:
    """Take entries, and do nothing."""


GOES_ON = "the run goes on"
_NOT_BEGUN = "the run has not begun yet. Try again in a moment"
_OVER = "the rehearsal is over, and nothing that happens now counts. Play it again"


class LiveRehearsal:
    """Watches the run that an engine of the view carries out on a twin, by whose clock."""

    def __init__(self, rehearsal: Rehearsal, cluster: SimulatedCluster) -> None:
        self._rehearsal, self._cluster = rehearsal, cluster
        self._scene: _Scene | None = None
        self._end: tuple[datetime, Played] | None = None  # as of when its engine left the run
        self.outcome = ""  # in a few words; empty while it goes on
        self.until = rehearsal.until  # the latest; None to carry the run on to its end

    def watch(
        self,
        run: Run,
        source: ObservationSource,
        timelines: Callable[[], Mapping[TopicPartition, Timeline]],
    ) -> ObservationSource:
        """For the engine of a run: that of the rehearsal is watched, once."""
        if self._scene is not None or run.name != self._rehearsal.name:
            return source
        self._scene = _Scene(self._cluster, run, source, self._rehearsal.faults, timelines)
        return self._scene.stage

    async def end(self, run: Run) -> None:
        """Wait for what is still to be seen of the faults."""
        scene = self._scene
        if scene is None or not self.watches(run):
            return
        ended = scene.played(run.left or "", scene.stage.now_s)
        self._end = self._cluster.clock.now(), ended
        await scene.stage.outlast_faults()
        done = f"{run.counts[State.DONE]:,} of {len(run.tracks):,} at target"
        self.outcome = f"Over after {as_duration(ended.lasted_s)}, {done}"

    def watches(self, run: Run) -> bool:
        return self._scene is not None and run is self._scene.run

    @property
    def now_s(self) -> float:
        return 0.0 if self._scene is None else self._scene.stage.now_s

    def parse(self, text: str) -> Fault:
        """Read a fault at the moment that it names, or else now. Raises FaultProblem."""
        if self._scene is None:
            raise FaultProblem(_NOT_BEGUN)
        now_s = self._scene.stage.now_s
        fault = parse_fault(text, self._cluster.spec, now_s=now_s)
        if fault.at.after_s is not None and fault.at.after_s < now_s:
            raise FaultProblem(
                f"{as_duration(fault.at.after_s)} is past: the run began {as_duration(now_s)} ago"
            )
        return fault

    def let_happen(self, text: str) -> Fault:
        """Do something to the twin, now. Raises FaultProblem."""
        fault = self.parse(text)
        if self._scene is None or self._end is not None:
            raise FaultProblem(_OVER)
        self._scene.stage.add(fault)
        return fault

    def played(self, entries: Sequence[JournalEntry]) -> Played | None:
        scene = self._scene
        if scene is None:
            return None
        now = scene.played(GOES_ON, scene.stage.now_s)
        if self._end is None:
            return msgspec.structs.replace(now, entries=tuple(entries), missed=())
        at, ended = self._end
        return msgspec.structs.replace(
            ended,
            entries=tuple(entry for entry in entries if entry.at <= at),
            peaks=now.peaks,
            stalls=now.stalls,
            hits=now.hits,
            missed=now.missed,
        )
