"""Reassignments from an earlier request of a run that took effect when nobody waited for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from ktui.cluster.partition import PartitionState, Reassignment, TopicPartition
from ktui.execution.errors import RunProblem
from ktui.execution.host.ownership import holder
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.follower import RunFollower
from ktui.execution.run.run import Run


class LateRequest(msgspec.Struct, frozen=True, order=True):
    """A reassignment under way that was asked for by a run that no process carries on."""

    tp: TopicPartition
    run: str
    target: tuple[int, ...]
    ended: bool
    """Whether the run has ended. Otherwise it waits for resume, and takes the step up again."""


def late_requests(
    state_dir: StateDir, cluster_id: str, listed: Mapping[TopicPartition, Reassignment]
) -> list[LateRequest]:
    """Find the runs of a cluster whose last request for a partition moves that partition now.

    What a live run has in flight is its own. Runs that cannot be read are skipped.
    """
    if not listed:
        return []
    left: list[Run] = []
    ours: set[TopicPartition] = set()
    for run, live in _runs(state_dir, cluster_id):
        if live:
            ours |= run.tracks_in_flight.keys() | run.cancelling.keys()
        else:
            left.append(run)
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


def _runs(state_dir: StateDir, cluster_id: str) -> Iterator[tuple[Run, bool]]:
    """Yield the runs of a cluster, each with whether a process carries it on."""
    for folder in state_dir.run_dirs():
        try:
            live = holder(folder) is not None
            with RunFollower(folder.journal) as follower:
                follower.refresh()
        except RunProblem:
            continue
        started = follower.run.started
        if started is not None and started.cluster_id == cluster_id:
            yield follower.run, live
