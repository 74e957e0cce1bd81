"""A rehearsal that is carried out in a view, at its own speed, and that anything may happen to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import msgspec

from ktui.cluster.observer import ObservationSource
from ktui.cluster.partition import TopicPartition
from ktui.execution.run.events import JournalEntry
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.progress.timeline import Timeline
from ktui.quantities import as_duration
from ktui.rehearsal.faults import Fault, FaultProblem, parse_fault
from ktui.rehearsal.play import Rehearsal, epoch_bumps, leader_epochs
from ktui.rehearsal.played import EndedBy, Played
from ktui.rehearsal.stage import Stage
from ktui.simulated.cluster import SimulatedCluster

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
    stage: Stage
    began: datetime
    epochs: Mapping[TopicPartition, int]


class LiveRehearsal:
    """Watches the run of a rehearsal that an engine of the view carries out on a twin.

    Args:
        rehearsal: the plan.
        cluster: the twin, whose clock is that of the view.
    """

    def __init__(self, rehearsal: Rehearsal, cluster: SimulatedCluster) -> None:
        self._rehearsal, self._cluster = rehearsal, cluster
        self._scene: _Scene | None = None
        self._end: _End | None = None
        self.outcome = ""
        """How the rehearsal has ended, in a few words; empty while it goes on."""
        self.until = rehearsal.until
        """When the engine leaves the run at the latest; None to carry it on to its end."""

    def watch(
        self,
        run: Run,
        source: ObservationSource,
        timelines: Callable[[], Mapping[TopicPartition, Timeline]],
    ) -> ObservationSource:
        """Return the source for the engine of a run: that of the rehearsal is watched, once."""
        if self._scene is not None or run.name != self._rehearsal.name:
            return source
        stage = Stage(source, self._cluster, run, self._rehearsal.faults, timelines)
        self._scene = _Scene(
            run=run,
            stage=stage,
            began=self._cluster.clock.now(),
            epochs=leader_epochs(self._cluster, run.tracks),
        )
        return stage

    async def end(self, run: Run) -> None:
        """Note that an engine has left a run; wait for what is still to be seen of the faults."""
        scene = self._scene
        if scene is None or not self.watches(run):
            return
        self._end = self._as_of_now(scene, run.left or "")
        await scene.stage.outlast_faults()
        done = f"{run.counts[State.DONE]:,} of {len(run.tracks):,} at target"
        self.outcome = f"Over after {as_duration(self._end.lasted_s)}, {done}"

    def watches(self, run: Run) -> bool:
        """Return whether a run is that of the rehearsal, carried out for the first time."""
        return self._scene is not None and run is self._scene.run

    @property
    def now_s(self) -> float:
        """Seconds since the start of the run; 0 before it."""
        return 0.0 if self._scene is None else self._scene.stage.now_s

    def parse(self, text: str) -> Fault:
        """Read something that is to happen, at the moment that it names, or else now.

        Raises:
            FaultProblem: it cannot happen; the message names the mistake and the fix.
        """
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
        """Let something happen to the twin, and return it.

        Raises:
            FaultProblem: it cannot happen; the message names the mistake and the fix.
        """
        fault = self.parse(text)
        if self._scene is None or self._end is not None:
            raise FaultProblem(_OVER)
        self._scene.stage.add(fault)
        return fault

    def played(self, entries: Sequence[JournalEntry]) -> Played | None:
        """Return what has come of the plan so far, or up to its end; None before it has begun."""
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
