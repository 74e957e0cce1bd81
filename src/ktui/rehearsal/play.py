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
    epochs = leader_epochs(cluster, run.tracks)
    began, began_s = clock.now(), clock.monotonic()
    observer = Observer(ports.reader, clock)
    source: ObservationSource = observer
    if recorder is not None:
        source = RecordingSource(observer, recorder)
    stage = FaultStage(source, cluster, run, rehearsal.faults, lambda: engine.timelines)
    foresight = Foresight(stage, cluster)
    watch = _Watch(stage, clock)
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
        ended_s = stage.last_headway_s if watch.gave_up else clock.monotonic()
        await stage.outlast_faults()
    finally:
        await observer.aclose()
    return Played(
        entries=tuple(journal.entries),
        began=began,
        lasted_s=ended_s - began_s,
        ended_by=_ended_by(run, gave_up=watch.gave_up),
        why=run.left or "",
        leader_epoch_bumps=epoch_bumps(epochs, leader_epochs(cluster, run.tracks)),
        peaks=stage.peaks,
        stalls=stage.stalls,
        hits=stage.hits,
        missed=stage.missed,
    )


class _Watch:
    """Leaves a run that stands still."""

    def __init__(self, stage: FaultStage, clock: Clock) -> None:
        self._stage, self._clock = stage, clock
        self.gave_up = False

    def why_leave(self, run: Run, seen: Observation | None) -> str | None:
        if (paused := when_paused(run, seen)) is not None:
            return paused
        still_s = self._clock.monotonic() - self._stage.last_headway_s
        most_s = run.options.stall_timeout_s + STANDSTILL_S
        if self._stage.awaits_faults or still_s < most_s:
            return None
        self.gave_up = True
        return f"no progress for {as_duration(most_s)}"


def _nobody(_entries: Iterable[JournalEntry]) -> None:
    """Take entries, and do nothing."""


def leader_epochs(
    cluster: SimulatedCluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the leader epoch of each partition that exists."""
    known = ((tp, cluster.controller.get(tp)) for tp in partitions)
    return {tp: found.leader_epoch for tp, found in known if found is not None}


def epoch_bumps(before: Mapping[TopicPartition, int], after: Mapping[TopicPartition, int]) -> int:
    """Count the leader epochs that have begun, over all partitions."""
    return sum(epoch - before.get(tp, 0) for tp, epoch in after.items())


def _ended_by(run: Run, *, gave_up: bool) -> EndedBy:
    if run.ended:
        return EndedBy.RUN
    return EndedBy.STANDSTILL if gave_up else EndedBy.LEFT


GOES_ON = "the run goes on"
_NOT_BEGUN = "the run has not begun yet. Try again in a moment"
_OVER = "the rehearsal is over, and nothing that happens now counts. Play it again"


class _End(msgspec.Struct, frozen=True, kw_only=True):
    """How the engine has left the run."""

    at: datetime
    lasted_s: float
    ended_by: EndedBy
    why: str
    leader_epoch_bumps: int


class _Scene(msgspec.Struct, frozen=True, kw_only=True):
    """The run under way, and what it began with."""

    run: Run
    stage: FaultStage
    began: datetime
    epochs: Mapping[TopicPartition, int]


class LiveRehearsal:
    """Watches the run that an engine of the view carries out on a twin, by whose clock."""

    def __init__(self, rehearsal: Rehearsal, cluster: SimulatedCluster) -> None:
        self._rehearsal, self._cluster = rehearsal, cluster
        self._scene: _Scene | None = None
        self._end: _End | None = None
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
        stage = FaultStage(source, self._cluster, run, self._rehearsal.faults, timelines)
        self._scene = _Scene(
            run=run,
            stage=stage,
            began=self._cluster.clock.now(),
            epochs=leader_epochs(self._cluster, run.tracks),
        )
        return stage

    async def end(self, run: Run) -> None:
        """Wait for what is still to be seen of the faults."""
        scene = self._scene
        if scene is None or not self.watches(run):
            return
        self._end = self._as_of_now(scene, run.left or "")
        await scene.stage.outlast_faults()
        done = f"{run.counts[State.DONE]:,} of {len(run.tracks):,} at target"
        self.outcome = f"Over after {as_duration(self._end.lasted_s)}, {done}"

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
        end = self._end or self._as_of_now(scene, GOES_ON)
        return Played(
            entries=tuple(entry for entry in entries if entry.at <= end.at),
            began=scene.began,
            lasted_s=end.lasted_s,
            ended_by=end.ended_by,
            why=end.why,
            leader_epoch_bumps=end.leader_epoch_bumps,
            peaks=scene.stage.peaks,
            stalls=scene.stage.stalls,
            hits=scene.stage.hits,
            missed=scene.stage.missed if self._end is not None else (),
        )

    def _as_of_now(self, scene: _Scene, why: str) -> _End:
        epochs = leader_epochs(self._cluster, scene.run.tracks)
        return _End(
            at=self._cluster.clock.now(),
            lasted_s=scene.stage.now_s,
            ended_by=EndedBy.RUN if scene.run.ended else EndedBy.LEFT,
            why=why,
            leader_epoch_bumps=epoch_bumps(scene.epochs, epochs),
        )
