"""The progress of a run: one record, which every text, screen, file and JSON of a run reads."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from ktui.cluster.clock import SystemClock
from ktui.execution import RunProblem
from ktui.execution.forecast.estimate import NOT_KNOWN, CopiedBytes
from ktui.execution.host.catalog import LIVE, RunState, run_state
from ktui.execution.host.ownership import Holder, holder
from ktui.execution.host.process import last_poll_at, silence
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import RunFollower
from ktui.execution.run.events import NOT_RECORDED, Noted, OpenRequest, Recording, StepGate
from ktui.execution.run.options import NO_SCHEDULE, Schedule
from ktui.execution.run.parts import Remembered
from ktui.execution.run.run import ClusterLost, Run
from ktui.execution.run.states import CancelKind, Stage, State, count_stages
from ktui.execution.run.throttle_status import ThrottleStatus, throttle_status
from ktui.execution.time_left.rest import LeastLeft
from ktui.pacing.limits import Limits
from ktui.quantities import as_count
from ktui.speed.answer import HowLong

UNPREDICTABLE = (Stage.STALLED, Stage.BLOCKED, Stage.HELD_UP)  # nobody can predict an end


class RunNote(msgspec.Struct, frozen=True, kw_only=True):
    """A note of an operator on the run."""

    at: datetime
    who: str
    text: str

    @classmethod
    def of(cls, note: Remembered[Noted]) -> RunNote:
        return cls(at=note.at, who=note.event.who, text=note.event.text)


class RunProgress(msgspec.Struct, frozen=True, kw_only=True, rename={"name": "run"}):
    """A run at a moment, or its problem. A contract: docs/progress.md has its JSON."""

    name: str
    state: RunState
    problem: str | None = None  # of the folder or journal, also after the journal was recovered
    at: datetime | None = None  # the last event
    seq: int = 0
    cluster_id: str | None = None
    plan: str | None = None
    plan_sha256: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    owner: Holder | None = None
    ownership_off: bool = False  # its engine does not check who owns the cluster
    last_look_at: datetime | None = None  # by an engine of the run; None where not noted
    silence: str | None = None  # for how long its engine has not polled, if that is too long
    outage: ClusterLost | None = None  # its engine has no answer from the cluster
    left: str | None = None  # why its last engine left, if it said so
    died: str | None = None  # how its last engine died, where that was looked for
    paused: str | None = None  # why the whole run is
    gate: StepGate = StepGate(shut=False)  # shut by the cluster's health, owner, or the schedule
    cancel_gate_by: str | None = None  # when the engine last looked; None while open
    schedule: Schedule = NO_SCHEDULE
    begins_at: datetime | None = None  # by the schedule; None if steps may begin now
    until: datetime | None = None  # nothing begins unless it should end by then
    limits: Limits = Limits()
    limits_since_batch: int = 1  # the first decision that they bind
    throttle: ThrottleStatus = ThrottleStatus()
    recording: Recording = NOT_RECORDED
    extra_replicas: str | None = None  # how many partitions keep some since the run has no engine
    open_requests: tuple[OpenRequest, ...] = ()  # may take effect although the run has ended
    note: RunNote | None = None  # the last one
    batch: int = 0  # the last one that submitted something; in wave mode, the wave
    batches: int | None = None  # in all, decisions or waves, where estimated
    partitions: int = 0
    stages: Mapping[Stage, int] = {}  # as operators count; without empty ones
    counts: Mapping[State, int] = {}  # by exact state
    not_started: int = 0  # of those that were stopped
    rolling_back: int = 0  # to be rolled back, or about to be: their step is being cancelled
    steps_in_flight: int = 0
    bytes: int = 0  # to copy: sizes, at the start, of the replicas being added
    bytes_done: int = 0  # copied, of `bytes`
    bytes_s: float | None = None  # copied; None while unknown
    time_left: HowLong | None = None  # None while unknown: at rest, too young, or held up
    least: LeastLeft | None = None  # under the limits, where asked for

    @property
    def owned(self) -> bool:
        return self.owner is not None and self.state is not RunState.ENDED

    @property
    def done(self) -> int:
        return self.counts.get(State.DONE, 0)

    @property
    def over(self) -> int:
        return sum(count for state, count in self.counts.items() if state.ended)

    @property
    def stopped(self) -> int:
        return self.counts.get(State.STOPPED, 0) - self.not_started

    @property
    def only_rolls_back(self) -> bool:
        return 0 < self.rolling_back == self.partitions - self.over

    @property
    def by_cancel_gate(self) -> bool:
        """It alone lets no step begin."""
        return self.state is RunState.GATED and not self.gate.shut

    @property
    def bytes_left(self) -> int:
        return self.bytes - self.bytes_done

    @property
    def share(self) -> float | None:
        return self.bytes_done / self.bytes if self.bytes else None


ProgressT = TypeVar("ProgressT", bound=RunProgress)


def with_more(kind: type[ProgressT], progress: RunProgress, **more: Any) -> ProgressT:
    """Return the progress as a record that has more fields."""
    return kind(**msgspec.structs.asdict(progress), **more)


def with_least(progress: RunProgress, least: LeastLeft | None) -> RunProgress:
    """Return the progress with the least time of the rest; its bottleneck sets the pace."""
    if least is None or progress.time_left is None:
        return progress
    time_left = msgspec.structs.replace(progress.time_left, pacesetter=least.bound)
    return msgspec.structs.replace(progress, least=least, time_left=time_left)


def run_progress(
    run: Run,
    owner: Holder | None = None,
    *,
    now: datetime | None = None,
    copied: CopiedBytes = NOT_KNOWN,
    stages: Mapping[Stage, int] | None = None,
    last_poll: datetime | None = None,
    problem: str | None = None,
) -> RunProgress:
    """Return the progress of a run; `now` is else the last event's time, `stages` the journal's."""
    started, state, now = run.started, run_state(run, owner), now or run.at
    counted = _stages(run) if stages is None else dict(stages)
    progress = RunProgress(
        name=run.name,
        state=state,
        problem=problem or (None if run.damage is None else f"recovered: {run.damage}"),
        at=run.at,
        seq=run.seq,
        cluster_id=None if started is None else started.cluster_id,
        plan=None if started is None else started.plan,
        plan_sha256=None if started is None else started.plan_sha256,
        started_at=run.started_at,
        ended_at=run.ended_at,
        owner=owner,
        ownership_off=run.ownership_off,
        last_look_at=last_poll,
        silence=None if now is None else silence(run, owner, last_poll, now),
        outage=None if owner is None else run.outage,
        left=run.left,
        paused=run.pauses.reason,
        gate=run.gate,
        cancel_gate_by=run.cancel_gate.reason if run.cancel_gate.shut else None,
        schedule=run.schedule,
        begins_at=None if now is None else run.schedule.begins_at(now),
        until=run.until,
        limits=run.limits,
        limits_since_batch=run.limits_changed_at + 1,
        throttle=throttle_status(run, owned=owner is not None),
        recording=NOT_RECORDED if owner is None and run.recording.on else run.recording,
        extra_replicas=_extra_replicas(run) if state is RunState.RESUMABLE else None,
        open_requests=run.open_requests,
        note=RunNote.of(run.notes[-1]) if run.notes else None,
        batch=run.batch,
        partitions=max(len(run.tracks), 0 if started is None else started.partitions),
        stages=counted,
        counts={each: run.counts[each] for each in State},
        not_started=_not_started(run),
        rolling_back=sum(t.cancel is CancelKind.ROLLBACK for t in run.cancelling.values()),
        steps_in_flight=run.in_flight,
        bytes=run.copies.whole,
        bytes_done=max(copied.done, run.copies.done),
        bytes_s=None if owner is None else copied.bytes_s,
    )
    goes_on = state is RunState.RUNNING or (state in LIVE and progress.only_rolls_back)
    if copied.left_s is None or not goes_on or any(map(counted.get, UNPREDICTABLE)):
        return progress
    time_left = HowLong(time_s=copied.left_s, basis=copied.basis)
    return msgspec.structs.replace(progress, time_left=time_left)


def _stages(run: Run) -> dict[Stage, int]:
    between = sum(t.state is State.QUEUED and t.under_way for t in run.tracks.values())
    return count_stages(run.counts, between, {Stage.HELD_UP: run.held_up})


def _not_started(run: Run) -> int:
    if not run.counts[State.STOPPED]:
        return 0
    return sum(t.state is State.STOPPED and not t.begun for t in run.tracks.values())


def _extra_replicas(run: Run) -> str | None:
    """Between two steps a partition has more replicas, which nothing but the run takes away."""
    count = run.with_extra_replicas
    if not count:
        return None
    have = "has" if count == 1 else "have"
    return (
        f"{as_count(count, 'partition')} {have} more replicas than before and after the run, until "
        "it is resumed or rolled back"
    )


def all_runs(state_dir: StateDir) -> list[RunProgress]:
    """Return every run, the last started first, unreadable ones last. Raises StateDirProblem."""
    runs = [read_progress(run) for run in state_dir.run_dirs()]
    removed = [run for run in map(read_progress, state_dir.removed_runs()) if run.owner is not None]
    return sorted([*runs, *removed], key=_newest_first)


def live_and_resumable(
    state_dir: StateDir, cluster_id: str
) -> tuple[list[RunProgress], list[RunProgress]]:
    """Return a cluster's live runs, and those that wait to be resumed. Raises StateDirProblem."""
    runs = [run for run in all_runs(state_dir) if run.cluster_id == cluster_id]
    live = [run for run in runs if run.state in LIVE]
    return live, [run for run in runs if run.state is RunState.RESUMABLE]


def read_progress(folder: RunDir) -> RunProgress:
    """Read how a run stands by its journal alone. This never fails because of the run."""
    owner = None
    try:
        owner = holder(folder)
        with RunFollower(folder.journal) as follower:
            follower.refresh()
    except RunProblem as problem:
        words = str(problem) if owner is None else f"{problem}; and {owner} still owns the run"
        return _unreadable(folder, owner, words)
    if follower.run.started is None:
        nothing = "nothing was ever written to its journal: its start was cut off"
        return _unreadable(folder, owner, follower.damage or nothing)
    return run_progress(
        follower.run,
        owner,
        now=SystemClock().now(),
        last_poll=last_poll_at(folder),
        problem=follower.damage,
    )


def _unreadable(folder: RunDir, owner: Holder | None, problem: str) -> RunProgress:
    return RunProgress(name=folder.name, state=RunState.UNREADABLE, owner=owner, problem=problem)


def _newest_first(run: RunProgress) -> tuple[bool, float, str]:
    started = run.started_at
    return (started is None, 0.0 if started is None else -started.timestamp(), run.name)
