"""What a cancel of partitions of a run would come to, by a fresh look at the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from ktui.cli.cancel.options import CancelRequest
from ktui.cli.context.cluster import Cluster
from ktui.cluster.clock import SystemClock
from ktui.cluster.errors import ClusterError
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, Observer
from ktui.execution.cancel.preview import Foreseen, foreseen
from ktui.execution.engine.observed import Observed
from ktui.execution.errors import RunRefused
from ktui.execution.run.cancel_scope import CancelEffect, act_on
from ktui.execution.run.run import Run
from ktui.execution.run.track import Track

PATIENCE_S = 5.0
"""One look is all there is, so it waits longer for a slow broker than an engine does."""


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted of a run, and what it comes to for each partition in its scope."""

    run: Run
    wanted: CancelRequest
    tracks: Sequence[Track]
    partitions: Sequence[Foreseen]
    """One for each track; none where the cluster cannot be asked."""
    problem: str | None = None
    """Why the cluster cannot be asked."""

    @property
    def acts(self) -> list[CancelEffect]:
        """What is done to each, by the journal."""
        return [act_on(track, self.wanted.kind) for track in self.tracks]

    @property
    def over(self) -> bool:
        """Whether all of it is over: nothing is left for any process to do."""
        return all(act is CancelEffect.NOTHING for act in self.acts)

    @property
    def idle(self) -> bool:
        """Whether nothing is done to any that is not done already."""
        return all(act.idle for act in self.acts)


def preview(
    run: Run, wanted: CancelRequest, tracks: Sequence[Track], cluster: Cluster, *, needed: bool
) -> Preview:
    """Look at the cluster, and say what would become of some partitions of a run.

    Args:
        run: by its journal.
        wanted: what is to become of them.
        tracks: the partitions.
        cluster: theirs.
        needed: whether nothing is to be done without the cluster's answer.

    Raises:
        RunRefused: it is not the run's cluster.
        ClusterError: it cannot be asked, and has to be.
    """
    untouched = {
        CancelEffect.NOTHING,
        CancelEffect.DEQUEUE,
    }  # a long queue is left without looking at all of it
    touched = [track for track in tracks if act_on(track, wanted.kind) not in untouched]
    try:
        look = Observed(asyncio.run(_seen(run, touched, cluster)))
    except ClusterError as error:
        if needed:
            raise
        return Preview(run=run, wanted=wanted, tracks=tracks, partitions=(), problem=str(error))
    told = tuple(foreseen(track, wanted.kind, run.limits, look) for track in tracks)
    return Preview(run=run, wanted=wanted, tracks=tracks, partitions=told)


async def _seen(run: Run, tracks: Sequence[Track], cluster: Cluster) -> Observation:
    reader = cluster.reader()
    observer = Observer(reader, SystemClock(), patience_s=PATIENCE_S)
    try:
        found = (await reader.describe_cluster()).cluster_id
        if run.started is not None and found != run.started.cluster_id:
            raise RunRefused(
                f"{cluster.name} is cluster {found}, and run {run.name} is of "
                f"{run.started.cluster_id}. Name that one with --bootstrap-server, "
                "--command-config or --context"
            )
        interest = Interest(partitions=frozenset(track.tp for track in tracks), fresh=True)
        return await observer.poll(interest)
    finally:
        await observer.aclose()
        await reader.aclose()
