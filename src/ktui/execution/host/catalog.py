"""The runs that a state directory remembers."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from ktui.cluster.clock import SystemClock
from ktui.execution.errors import RunProblem, RunRefused
from ktui.execution.host.ownership import Holder, holder
from ktui.execution.host.state_dir import RunDir, StateDir, run_name_problem
from ktui.execution.journal.follower import RunFollower
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import Ended
from ktui.execution.run.run import Run
from ktui.execution.run.throttle_status import name_resources
from ktui.planning.names import closest_names, join_named, join_some, shortened


def check_one_throttle(
    state_dir: StateDir, cluster_id: str, name: str, *, resumed: bool = False
) -> None:
    """Check that no other run of a cluster has a throttle, before one gets or keeps its own.

    A broker has one rate. Of two runs, each would remove the other's rate at its end. Or it would
    put the other's rate back for good.

    Args:
        state_dir: the state directory with the runs.
        cluster_id: the cluster.
        name: the run that is to have a throttle.
        resumed: whether the run goes on with the throttle that it has. Another run that died may
            have left its rate. Then only a run that has left one too may go on. Any other would
            take that rate for the earlier setting, and put it back for good.

    Raises:
        RunRefused: another run has a throttle, or has still set some of it.
    """
    runs = list(unfinished_runs(state_dir, cluster_id))
    stands = any(run.name == name and run.throttled.brokers for run, _ in runs)
    for run, owner in runs:
        if run.name == name or run.exported is not None:
            continue
        if owner is not None and (run.throttles or run.throttled.changed):
            raise RunRefused(
                f"run {run.name} has a throttle. A broker has only one rate, so two runs would "
                f"overwrite each other's. Wait for the end of run {run.name}, or lift its "
                f"throttle: {_lift_throttle(run)}"
            )
        brokers = run.throttled.brokers
        if owner is None and _stands_in_the_way(run, resumed=resumed and stands):
            raise RunRefused(
                f"run {run.name} has left its rate on {join_named('broker', brokers, most=8)}, and "
                "has no engine. A broker has only one rate, so two runs would overwrite "
                f"each other's. Go on with that run: ktui resume {run.name}; or stop it for good: "
                f"ktui cancel {run.name} --stop --all. Either puts back the earlier rate"
            )


def _lift_throttle(run: Run) -> str:
    """Return the command by which a run sets no throttle any more."""
    named = f"ktui throttle {run.name} none"
    if run.schedule.by is None:
        return named
    by = f"ktui schedule {run.name} --by none"
    return f"{by}; {named}" if run.throttled.rates else by


def throttles_left(state_dir: StateDir, cluster_id: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the other runs of a cluster that have left a throttle, and that no process owns.

    Yields:
        The run's name, and where its throttle is set, in words.
    """
    for run, owner in unfinished_runs(state_dir, cluster_id):
        left = run.throttled.changed
        if run.name != name and owner is None and left and run.exported is None:
            yield run.name, name_resources(left)


def _stands_in_the_way(run: Run, *, resumed: bool) -> bool:
    return bool(run.throttled.brokers) and not resumed


def unfinished_runs(state_dir: StateDir, cluster_id: str) -> Iterator[tuple[Run, Holder | None]]:
    """Yield the runs of a cluster that have not ended, each with the process that owns it.

    Runs that cannot be read are skipped.
    """
    for follower, owner in unfinished_journals(state_dir, cluster_id):
        with follower:
            yield follower.run, owner


def unfinished_journals(
    state_dir: StateDir, cluster_id: str
) -> Iterator[tuple[RunFollower, Holder | None]]:
    """Yield the journals of the same runs, to be followed further; the caller closes each."""
    for folder in state_dir.run_dirs():
        try:
            owner = holder(folder)
            if _ended(folder):
                continue
            follower = RunFollower(folder.journal)
        except RunProblem:
            continue
        if _is_of(follower, cluster_id):
            yield follower, owner
        else:
            follower.close()


def _is_of(follower: RunFollower, cluster_id: str) -> bool:
    try:
        follower.refresh()
    except RunProblem:
        return False
    started = follower.run.started
    return started is not None and started.cluster_id == cluster_id


def is_over(folder: RunDir) -> bool:
    """Whether a run has ended, and no process owns it; False for a run that cannot be read."""
    try:
        return holder(folder) is None and _ended(folder)
    except RunProblem:
        return False


def _ended(folder: RunDir) -> bool:
    """Whether the last event is the run's end."""
    with Journal.open(folder.journal, SystemClock(), read_only=True) as journal:
        last = journal.last()
    return last is not None and isinstance(last.event, Ended)


class RunState(enum.StrEnum):
    """The state of a run as a whole."""

    RUNNING = "running"
    PAUSED = "paused"
    """A process owns the run and submits nothing new, because someone asked for that."""
    GATED = "gated"
    """A process owns the run and submits nothing new: the cluster's health forbids new steps, or
    its cancel gate is shut. Cancelled partitions go on."""
    WAITING = "waiting"
    """A process owns the run and submits nothing new before its schedule lets steps begin."""
    RESUMABLE = "resumable"
    """No process owns the run, and it has not ended."""
    SUBMITTED = "submitted"
    """No process owns the run: all of it is submitted, and Kafka goes on alone (`reassign`)."""
    EXPORTED = "exported"
    """The run goes on in the state directory that imports it, and not in this one."""
    ENDED = "ended"
    UNREADABLE = "unreadable"
    """There is a folder, but its contents are no readable run."""

    @property
    def words(self) -> str:
        """What a run in that state does, in a sentence: `is running`, `waits for resume`."""
        return "waits for resume" if self is RunState.RESUMABLE else f"is {self.value}"


LIVE = (RunState.RUNNING, RunState.PAUSED, RunState.GATED, RunState.WAITING)
"""The states of a run that has an engine, and has not ended."""


class UnknownRun(RunRefused):
    """There is no run of that name."""


def find_run(state_dir: StateDir, name: str) -> RunDir:
    """Return the folder of a run.

    Raises:
        UnknownRun: no run has that name; suggests the names that were probably meant.
        StateDirProblem: the state directory cannot be read.
    """
    known = [run.name for run in state_dir.run_dirs()]
    if name in known and run_name_problem(name) is None:
        return RunDir(state_dir.runs / name)
    unknown = f"no run {shortened(name)!r} in {state_dir.path}"
    if not known:
        raise UnknownRun(f"{unknown}: there are none yet. Start one: ktui start PLAN")
    similar = closest_names(name, known)
    if similar:
        raise UnknownRun(f"{unknown}; did you mean {join_some(map(repr, similar))}?")
    raise UnknownRun(
        f"{unknown}; there are {join_some(map(shortened, known), most=5)}. See: ktui runs"
    )


def run_state(run: Run, owner: Holder | None) -> RunState:
    """Return the state of a run and its owner as a whole."""
    if run.ended:
        return RunState.ENDED
    if owner is None and run.exported is not None:
        return RunState.EXPORTED
    if owner is None:
        return RunState.SUBMITTED if run.submitted else RunState.RESUMABLE
    if run.pauses.whole:
        return RunState.PAUSED
    if run.gate.until is not None and not run.cancel_gate.shut:
        return RunState.WAITING
    return RunState.GATED if run.gate.shut or run.cancel_gate.shut else RunState.RUNNING
