"""The runs that a state directory remembers."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import datetime

import msgspec

from ktui.cluster.clock import SystemClock
from ktui.execution.events import OpenRequest
from ktui.execution.follow import RunFollower
from ktui.execution.heartbeat import last_look_at, silence
from ktui.execution.ownership import Holder, holder
from ktui.execution.problem import RunProblem, RunRefused
from ktui.execution.recording_event import NOT_RECORDED, Recording
from ktui.execution.run import Lost, Run
from ktui.execution.statedir import RunDir, StateDir, run_name_problem
from ktui.execution.states import State
from ktui.execution.throttle_standing import stays, still_to_be_taken_off
from ktui.planning.names import among, nearest, shown
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates


class RunState(enum.StrEnum):
    """How a run stands as a whole."""

    RUNNING = "running"
    PAUSED = "paused"
    """A process owns it and submits nothing new: someone asked for that."""
    GATED = "gated"
    """A process owns it and submits nothing new: the cluster's health forbids it, or its cancel
    gate is shut; what is called off goes on."""
    RESUMABLE = "resumable"
    """No process owns it, and it is not at its end."""
    EXPORTED = "exported"
    """It goes on in the state directory that imports it, and not in this one."""
    ENDED = "ended"
    UNREADABLE = "unreadable"
    """There is a folder, and no run can be made of what is in it."""


class UnknownRun(RunRefused):
    """There is no run of that name."""


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One run in a list of them; of an unreadable one, only the name and the problem are there."""

    name: str
    state: RunState
    cluster_id: str | None = None
    plan: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    holder: Holder | None = None
    outage: Lost | None = None
    """Since when its process has had no answer from the cluster; None without a process."""
    open_requests: tuple[OpenRequest, ...] = ()
    """What may take effect though the run has ended: it was not answered."""
    last_look_at: datetime | None = None
    """When a process of it last looked at the cluster, where that is noted."""
    silence: str | None = None
    """For how long its process has not looked, in words, where that is too long."""
    partitions: int = 0
    counts: Mapping[State, int] = {}
    """How many partitions are in each state; those without any are left out."""
    throttle: ThrottleRates = NO_THROTTLE
    """The rates that are wanted."""
    throttle_left: str | None = None
    """Which throttles of it stay though nothing is left to move, or no process has it, and why."""
    recording: Recording = NOT_RECORDED
    """Whether its process records what it sees, and why not any more."""
    problem: str | None = None
    """What is wrong with its folder or its journal."""

    @property
    def over(self) -> int:
        """How many partitions have ended, one way or another."""
        return sum(count for state, count in self.counts.items() if state.ended)


def find_run(state_dir: StateDir, name: str) -> RunDir:
    """Give the folder of a run.

    Raises:
        UnknownRun: there is none of that name; says which were probably meant.
        StateDirProblem: the state directory cannot be read.
    """
    known = [run.name for run in state_dir.run_dirs()]
    if name in known and run_name_problem(name) is None:
        return RunDir(state_dir.runs / name)
    unknown = f"no run {shown(name)!r} in {state_dir.path}"
    if not known:
        raise UnknownRun(f"{unknown}: there are none yet. Start one: ktui start PLAN")
    near = nearest(name, known)
    if near:
        raise UnknownRun(f"{unknown}; did you mean {among(map(repr, near))}?")
    raise UnknownRun(f"{unknown}; there are {among(map(shown, known), told=5)}. See: ktui runs")


def all_runs(state_dir: StateDir) -> list[RunSummary]:
    """Sum up every run, the last one started first; what is no run is among them, last.

    Raises:
        StateDirProblem: the state directory cannot be read.
    """
    runs = [sum_up(run) for run in state_dir.run_dirs()]
    removed = [run for run in map(sum_up, state_dir.removed_runs()) if run.holder is not None]
    return sorted([*runs, *removed], key=_age)


def sum_up(run: RunDir) -> RunSummary:
    """Sum up one run; nothing of it makes this fail."""
    who = None
    try:
        who = holder(run)
        with RunFollower(run.journal) as follower:
            follower.refresh()
    except RunProblem as problem:
        words = str(problem) if who is None else f"{problem}; and {who} owns the run still"
        return RunSummary(name=run.name, state=RunState.UNREADABLE, holder=who, problem=words)
    return _summary(follower.run, who, follower.damage, last_look_at(run))


def run_state(run: Run, who: Holder | None) -> RunState:
    """Say how a run stands, given who owns it."""
    if run.ended:
        return RunState.ENDED
    if who is None:
        return RunState.RESUMABLE if run.exported is None else RunState.EXPORTED
    if run.pauses.whole:
        return RunState.PAUSED
    return RunState.GATED if run.gate.shut or run.cancel_gate.shut else RunState.RUNNING


def _summary(
    run: Run, who: Holder | None, damage: str | None, last_look: datetime | None
) -> RunSummary:
    if run.started is None:
        nothing = "nothing was ever written to its journal: its start was cut off"
        problem = damage or nothing
        return RunSummary(name=run.name, state=RunState.UNREADABLE, holder=who, problem=problem)
    return RunSummary(
        name=run.name,
        state=run_state(run, who),
        cluster_id=run.started.cluster_id,
        plan=run.started.plan,
        started_at=run.started_at,
        ended_at=run.ended_at,
        holder=who,
        outage=None if who is None else run.outage,
        open_requests=run.open_requests,
        last_look_at=last_look,
        silence=silence(run, who, last_look, SystemClock().now()),
        partitions=max(run.started.partitions, len(run.tracks)),
        counts={state: run.counts[state] for state in State if run.counts[state]},
        throttle=run.throttled.rates,
        throttle_left=still_to_be_taken_off(run) or (stays(run) if who is None else None),
        recording=recording_now(run, who),
        problem=damage or run.damage,
    )


def recording_now(run: Run, who: Holder | None) -> Recording:
    """Say whether a run is recorded, given who owns it: without a process it is not."""
    return NOT_RECORDED if who is None and run.recording.on else run.recording


def _age(run: RunSummary) -> tuple[bool, float, str]:
    started = run.started_at
    return (started is None, 0.0 if started is None else -started.timestamp(), run.name)
