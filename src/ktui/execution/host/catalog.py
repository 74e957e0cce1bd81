"""The runs that a state directory remembers, and what others of a cluster mean for one of them."""

from __future__ import annotations

import enum
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from ktui.cluster.clock import SystemClock
from ktui.cluster.partition import PartitionState, Reassignment, TopicPartition
from ktui.execution import RunProblem, RunRefused
from ktui.execution.host.ownership import Holder, holder
from ktui.execution.host.state_dir import RunDir, StateDir, run_name_problem
from ktui.execution.journal.journal import Journal, RunFollower
from ktui.execution.run.events import Ended
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.throttle_status import name_resources
from ktui.planning.plan import closest_names, join_named, join_some, shortened


def check_one_throttle(
    state_dir: StateDir, cluster_id: str, name: str, *, resumed: bool = False
) -> None:
    """Check that no other run of a cluster has a throttle, or raise RunRefused.

    A broker has one rate. Of two runs, each would remove the other's at its end, or put it back for
    good. A `resumed` run goes on where a dead one has left its rate, if it has left one, too: any
    other would take that rate for the earlier setting, and put it back for good.
    """
    refuse_second_throttle(list(unfinished_runs(state_dir, cluster_id)), name, resumed=resumed)


def refuse_second_throttle(
    runs: Sequence[tuple[Run, Holder | None]], name: str = "", *, resumed: bool = False
) -> None:
    """Check the same by the unfinished runs of the cluster, which are read already."""
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
        if owner is None and brokers and not (resumed and stands):
            raise RunRefused(
                f"run {run.name} has left its rate on {join_named('broker', brokers, most=8)}, and "
                "has no engine. A broker has only one rate, so two runs would overwrite "
                f"each other's. Go on with that run: ktui resume {run.name}; or stop it for good: "
                f"ktui cancel {run.name} --stop --all. Either puts back the earlier rate"
            )


def _lift_throttle(run: Run) -> str:
    named = f"ktui throttle {run.name} none"
    if run.schedule.by is None:
        return named
    by = f"ktui schedule {run.name} --by none"
    return f"{by}; {named}" if run.throttled.rates else by


def throttles_left(state_dir: StateDir, cluster_id: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the ownerless runs of a cluster that left a throttle, by name, and where it is set."""
    for run, owner in unfinished_runs(state_dir, cluster_id):
        left = run.throttled.changed
        if run.name != name and owner is None and left and run.exported is None:
            yield run.name, name_resources(left)


def unfinished_runs(state_dir: StateDir, cluster_id: str) -> Iterator[tuple[Run, Holder | None]]:
    """Yield a cluster's readable runs that have not ended, each with its owner, if any."""
    for follower, owner in journals_of(state_dir, cluster_id):
        with follower:
            yield follower.run, owner


def journals_of(
    state_dir: StateDir, cluster_id: str, *, with_ended: bool = False
) -> Iterator[tuple[RunFollower, Holder | None]]:
    """Yield the journals of the same runs, to be followed further; the caller closes each."""
    for folder in state_dir.run_dirs():
        try:
            owner = holder(folder)
            if not with_ended and _ended(folder):
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
    with Journal.open(folder.journal, SystemClock(), read_only=True) as journal:
        last = journal.last()
    return last is not None and isinstance(last.event, Ended)


class RunState(enum.StrEnum):
    """The state of a run as a whole."""

    RUNNING = "running"
    PAUSED = "paused"  # it has an engine, and submits nothing new: someone asked for that
    GATED = "gated"  # with an engine, but only cancels go on: bad health, or the cancel gate
    WAITING = "waiting"  # it has an engine, and submits nothing new before its schedule lets it
    RESUMABLE = "resumable"  # no engine, and not ended
    SUBMITTED = "submitted"  # without an engine: Kafka goes on alone (`reassign`)
    EXPORTED = "exported"  # it goes on in the state directory that imports it, and not in this one
    ENDED = "ended"
    UNREADABLE = "unreadable"  # there is a folder, but its contents are no readable run

    @property
    def words(self) -> str:
        """As in a sentence: `is running`, `waits for resume`."""
        return "waits for resume" if self is RunState.RESUMABLE else f"is {self.value}"


LIVE = (RunState.RUNNING, RunState.PAUSED, RunState.GATED, RunState.WAITING)


class UnknownRun(RunRefused):
    """There is no run of that name."""


def find_run(state_dir: StateDir, name: str) -> RunDir:
    """Return a run's folder. UnknownRun suggests names; StateDirProblem: no readable directory."""
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


Movers = Mapping[TopicPartition, str]  # of the run with a step in flight


class OtherRun(msgspec.Struct, frozen=True):
    """A run that lives, or waits to be resumed, as its journal has it."""

    name: str
    state: RunState
    done: int
    partitions: int
    states: Mapping[TopicPartition, State]  # under way, or in trouble

    @property
    def stalled(self) -> int:
        return sum(state is State.STALLED for state in self.states.values())


class OtherRuns:
    """The unfinished runs of a cluster but one, followed in any thread."""

    def __init__(self, state: StateDir, cluster_id: str, but: str = "") -> None:
        self._state, self._cluster_id, self._but = state, cluster_id, but
        self._lock, self._closed = threading.Lock(), False
        self._followers: dict[str, RunFollower] = {}
        self._others: set[str] = {but}  # not followed: they have ended, or are of other clusters

    @classmethod
    def beside(cls, run: RunDir, cluster_id: str) -> OtherRuns:
        return cls(StateDir(run.path.parent.parent), cluster_id, run.name)

    def movers(self) -> Movers:
        """A run that cannot be read moves none."""
        with self._lock:
            return movers_of(run for _, run in self._unfinished())

    def alive(self) -> list[OtherRun]:
        """Return those that live or wait to be resumed, the live ones first, by name."""
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
        try:
            follower = self._followers.get(folder.name)
            if follower is None and _ended(folder):  # most have: no need to read all of it
                self._others.add(folder.name)
                return None
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
        with self._lock:
            self._closed = True
            for follower in self._followers.values():
                follower.close()
            self._followers.clear()


def _other_run(folder: RunDir, run: Run) -> OtherRun | None:
    """None where it goes on elsewhere, is unreadable, or is only being started."""
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
    return movers_of((run for run, _ in unfinished_runs(state, cluster_id)), but)


def movers_of(runs: Iterable[Run], but: str = "") -> Movers:
    """Return which of some runs moves which partition now."""
    return {
        tp: run.name
        for run in runs
        if run.name != but
        for tp in (*run.tracks_in_flight, *run.cancelling)
    }


class LateRequest(msgspec.Struct, frozen=True, order=True):
    """A reassignment under way that was asked for by a run that no process carries on."""

    tp: TopicPartition
    run: str
    target: tuple[int, ...]
    ended: bool  # otherwise it waits for resume, and takes the step up again


def late_requests(
    state_dir: StateDir, cluster_id: str, listed: Mapping[TopicPartition, Reassignment]
) -> list[LateRequest]:
    """Find the ownerless runs whose last request for a partition moves it now."""
    if not listed:
        return []
    left: list[Run] = []
    ours: set[TopicPartition] = set()
    for follower, owner in journals_of(state_dir, cluster_id, with_ended=True):
        with follower:
            run = follower.run
        if owner is None:
            left.append(run)
        else:
            ours |= run.tracks_in_flight.keys() | run.cancelling.keys()
    return sorted(
        late
        for run in left
        for tp, reassignment in listed.items()
        if tp not in ours and (late := _as_late(run, tp, reassignment)) is not None
    )


def _as_late(run: Run, tp: TopicPartition, reassignment: Reassignment) -> LateRequest | None:
    track = run.tracks.get(tp)
    listed = PartitionState(tp, None, (), (), None).with_reassignment(reassignment)
    if track is None or track.sent != listed.target:
        return None
    if track.state.ended and not track.open_alter:  # its request was answered, and is over
        return None
    return LateRequest(tp, run.name, track.sent, run.ended)
