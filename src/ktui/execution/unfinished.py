"""Runs that are not at their end."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ktui.cluster.clock import SystemClock
from ktui.cluster.partition import TopicPartition
from ktui.execution.events import Ended
from ktui.execution.follow import RunFollower
from ktui.execution.journal import Journal
from ktui.execution.ownership import Holder, holder
from ktui.execution.problem import RunProblem, RunRefused
from ktui.execution.run import Run
from ktui.execution.statedir import RunDir, StateDir
from ktui.execution.throttle_standing import places, standing
from ktui.planning.names import among


def unfinished_over(
    state_dir: StateDir, cluster_id: str, partitions: Collection[TopicPartition]
) -> Iterator[tuple[str, int]]:
    """Name the runs of a cluster that wait for resume, and have some of these partitions left.

    What cannot be read is passed over.

    Yields:
        The run's name, and how many of the partitions it has left.
    """
    for run, owner in unfinished_runs(state_dir, cluster_id):
        tracks = (run.tracks.get(tp) for tp in partitions)
        left = sum(track is not None and not track.state.ended for track in tracks)
        if owner is None and left and run.exported is None:
            yield run.name, left


def check_one_throttle(
    state_dir: StateDir, cluster_id: str, name: str, *, resumed: bool = False
) -> None:
    """See that no other run of a cluster has a throttle, before one gets or keeps its own.

    A broker has one rate. Of two runs each would take it from under the other at its end, or give
    back what the other had set, for good.

    Args:
        state_dir: where the runs are.
        cluster_id: which cluster.
        name: the run that is to have a throttle.
        resumed: whether it goes on with the one that it has. While another run that died has left
            its rate, only a run that has left one, too, may: any other would take that rate for
            what stood there before, and put it back for good.

    Raises:
        RunRefused: one has, or has some of it set still.
    """
    runs = list(unfinished_runs(state_dir, cluster_id))
    stands = any(run.name == name and run.throttled.brokers for run, _ in runs)
    for run, owner in runs:
        if run.name == name or run.exported is not None:
            continue
        if owner is not None and (run.throttled.rates or standing(run.throttled)):
            raise RunRefused(
                f"run {run.name} has a throttle, and a broker has one rate, which two runs would "
                f"take from each other. Wait for the end of run {run.name}, or lift its throttle: "
                f"ktui throttle {run.name} none"
            )
        brokers = run.throttled.brokers
        if owner is None and _stands_in_the_way(run, resumed=resumed and stands):
            raise RunRefused(
                f"run {run.name}, which nobody carries on, has left its rate on "
                f"broker{'' if len(brokers) == 1 else 's'} {among(brokers, told=8)}, and a broker "
                f"has one, which two runs would take from each other. Go on with it: ktui resume "
                f"{run.name}; or stop it for good: ktui cancel {run.name} --stop --all; either "
                "puts back what was there"
            )


def throttles_left(state_dir: StateDir, cluster_id: str, name: str) -> Iterator[tuple[str, str]]:
    """Find the other runs of a cluster that have left a throttle, and have nobody who owns them.

    Yields:
        The run's name, and where its throttle stands, in words.
    """
    for run, owner in unfinished_runs(state_dir, cluster_id):
        left = standing(run.throttled)
        if run.name != name and owner is None and left and run.exported is None:
            yield run.name, places(left)


def _stands_in_the_way(run: Run, *, resumed: bool) -> bool:
    return bool(run.throttled.brokers) and not resumed


def unfinished_runs(state_dir: StateDir, cluster_id: str) -> Iterator[tuple[Run, Holder | None]]:
    """Give the runs of a cluster that are not at their end, each with the process that owns it.

    What cannot be read is passed over.
    """
    for follower, owner in unfinished_journals(state_dir, cluster_id):
        with follower:
            yield follower.run, owner


def unfinished_journals(
    state_dir: StateDir, cluster_id: str
) -> Iterator[tuple[RunFollower, Holder | None]]:
    """Give the same, to be followed further, and closed by whoever takes them."""
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


def _ended(folder: RunDir) -> bool:
    """Whether the last event is the run's end: of a long journal that is told at once."""
    with Journal.open(folder.journal, SystemClock(), read_only=True) as journal:
        last = next(journal.entries(journal.last_seq() - 1), None)
    return last is not None and isinstance(last.event, Ended)
