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
from ktui.execution.throttle_standing import standing


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
        if owner is None and left:
            yield run.name, left


def check_one_throttle(state_dir: StateDir, cluster_id: str, name: str) -> None:
    """See that no other live run of a cluster has a throttle, before one gets or keeps its own.

    A broker has one rate. Of two runs each would take it from under the other at its end, or give
    back what the other had set, for good.

    Raises:
        RunRefused: one has, or has some of it set still.
    """
    for run, owner in unfinished_runs(state_dir, cluster_id):
        throttled = run.throttled.rates or standing(run.throttled)
        if owner is not None and run.name != name and throttled:
            raise RunRefused(
                f"run {run.name} has a throttle, and a broker has one rate, which two runs would "
                f"take from each other. Wait for the end of run {run.name}, or lift its throttle: "
                f"ktui throttle {run.name} none"
            )


def unfinished_runs(state_dir: StateDir, cluster_id: str) -> Iterator[tuple[Run, Holder | None]]:
    """Give the runs of a cluster that are not at their end, each with the process that owns it.

    What cannot be read is passed over.
    """
    for folder in state_dir.run_dirs():
        try:
            owner = holder(folder)
            if _ended(folder):
                continue
            with RunFollower(folder.journal) as follower:
                follower.refresh()
        except RunProblem:
            continue
        run = follower.run
        if run.started is not None and run.started.cluster_id == cluster_id:
            yield run, owner


def _ended(folder: RunDir) -> bool:
    """Whether the last event is the run's end: of a long journal that is told at once."""
    with Journal.open(folder.journal, SystemClock(), read_only=True) as journal:
        last = next(journal.entries(journal.last_seq() - 1), None)
    return last is not None and isinstance(last.event, Ended)
