"""Runs that nobody carries on, and that are not at their end."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ktui.cluster.clock import SystemClock
from ktui.cluster.partition import TopicPartition
from ktui.execution.events import Ended
from ktui.execution.follow import RunFollower
from ktui.execution.journal import Journal
from ktui.execution.ownership import holder
from ktui.execution.problem import RunProblem
from ktui.execution.run import Run
from ktui.execution.statedir import RunDir, StateDir


def unfinished_over(
    state_dir: StateDir, cluster_id: str, partitions: Collection[TopicPartition]
) -> Iterator[tuple[str, int]]:
    """Name the runs of a cluster that wait for resume, and have some of these partitions left.

    What cannot be read is passed over.

    Yields:
        The run's name, and how many of the partitions it has left.
    """
    for folder in state_dir.run_dirs():
        run = _unfinished(folder)
        if run is not None and run.started is not None and run.started.cluster_id == cluster_id:
            tracks = (run.tracks.get(tp) for tp in partitions)
            left = sum(track is not None and not track.state.ended for track in tracks)
            if left:
                yield folder.name, left


def _unfinished(folder: RunDir) -> Run | None:
    try:
        if holder(folder) is not None or _ended(folder):
            return None
        with RunFollower(folder.journal) as follower:
            follower.refresh()
    except RunProblem:
        return None
    return follower.run


def _ended(folder: RunDir) -> bool:
    """Whether the last event is the run's end: of a long journal that is told at once."""
    with Journal.open(folder.journal, SystemClock(), read_only=True) as journal:
        last = next(journal.entries(journal.last_seq() - 1), None)
    return last is not None and isinstance(last.event, Ended)
