"""Preview a cancel of partitions of a run, from a fresh poll of the cluster."""

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
from ktui.execution.cancel.preview import CancelPreview, preview_cancel
from ktui.execution.engine.observed import Observed
from ktui.execution.errors import RunRefused
from ktui.execution.run.cancel_scope import CancelEffect, effect_of_cancel
from ktui.execution.run.run import Run
from ktui.execution.run.track import Track

PATIENCE_S = 5.0
"""Seconds to wait for a slow broker. The preview polls once, so it waits longer than an engine."""


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """A requested cancel, with its effect on each partition in its scope."""

    run: Run
    wanted: CancelRequest
    tracks: Sequence[Track]
    partitions: Sequence[CancelPreview]
    """One for each track; empty if the cluster did not answer."""
    problem: str | None = None
    """Why the cluster did not answer; None if it did."""

    @property
    def acts(self) -> list[CancelEffect]:
        """The effect on each track, according to the journal."""
        return [effect_of_cancel(track, self.wanted.kind) for track in self.tracks]

    @property
    def over(self) -> bool:
        """Whether every track has ended, so that no engine has anything left to do."""
        return all(act is CancelEffect.NOTHING for act in self.acts)

    @property
    def idle(self) -> bool:
        """Whether the cancel would change nothing: each track is cancelled already, or over."""
        return all(act.idle for act in self.acts)


def preview(
    run: Run, wanted: CancelRequest, tracks: Sequence[Track], cluster: Cluster, *, needed: bool
) -> Preview:
    """Poll the cluster, and preview what a cancel does to some partitions of a run.

    Args:
        run: as its journal has it.
        wanted: the cancel.
        tracks: the partitions in the cancel's scope.
        cluster: the cluster of the run.
        needed: whether the cancel cannot go on without the cluster's answer.

    Raises:
        RunRefused: the cluster is not the run's.
        ClusterError: the cluster does not answer, and `needed` is set.
    """
    untouched = {
        CancelEffect.NOTHING,
        CancelEffect.DEQUEUE,
    }  # a long queue leaves without a read of every partition in it
    touched = [track for track in tracks if effect_of_cancel(track, wanted.kind) not in untouched]
    try:
        observed = Observed(asyncio.run(_poll(run, touched, cluster)))
    except ClusterError as error:
        if needed:
            raise
        return Preview(run=run, wanted=wanted, tracks=tracks, partitions=(), problem=str(error))
    partitions = tuple(preview_cancel(track, wanted.kind, run.limits, observed) for track in tracks)
    return Preview(run=run, wanted=wanted, tracks=tracks, partitions=partitions)


async def _poll(run: Run, tracks: Sequence[Track], cluster: Cluster) -> Observation:
    reader = cluster.reader()
    observer = Observer(reader, SystemClock(), patience_s=PATIENCE_S)
    try:
        cluster_id = (await reader.describe_cluster()).cluster_id
        if run.started is not None and cluster_id != run.started.cluster_id:
            raise RunRefused(
                f"{cluster.name} is cluster {cluster_id}, but run {run.name} belongs to cluster "
                f"{run.started.cluster_id}. Name that cluster with --bootstrap-server, "
                "--command-config or --context"
            )
        interest = Interest(partitions=frozenset(track.tp for track in tracks), fresh=True)
        return await observer.poll(interest)
    finally:
        await observer.aclose()
        await reader.aclose()
