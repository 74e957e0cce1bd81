"""The preview of a cancel, kept up to date with the run's journal and the polls."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.execution.cancel.preview import CancelPreview, preview_cancel
from ktui.execution.engine.observed import Observed
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.cancel_scope import (
    CancelEffect,
    effect_of_cancel,
    effects_text,
    tracks_in_scope,
)
from ktui.execution.run.run import Run
from ktui.tui.run_view.cancel_choice import Scope

MOST_TOLD = 200
"""The most partitions polled and previewed one by one; the requests of the others are counted."""
_FIRST = (
    CancelEffect.CANCEL,
    CancelEffect.GO_BACK,
    CancelEffect.TRIM,
    CancelEffect.DEQUEUE,
    CancelEffect.ALREADY,
    CancelEffect.NOTHING,
)


class PartitionPreview(msgspec.Struct, frozen=True):
    """The preview of a cancel for one partition."""

    foreseen: CancelPreview
    looked_at: bool
    """Whether a poll shows the partition's state; else the state is the journal's."""


class LiveCancelPreview:
    """The preview of a cancel for the partitions of a scope.

    Args:
        run: the run.
        scope: the partitions to cancel.
        kind: the kind of cancel.
    """

    def __init__(self, run: Run, scope: Scope, kind: CancelKind) -> None:
        self._run, self._kind = run, kind
        tracks = tracks_in_scope(run, scope.topics, scope.partitions)
        self._acts = {track.tp: effect_of_cancel(track, kind) for track in tracks}
        ranked = (tp for act in _FIRST for tp in self._acts if self._acts[tp] is act)
        self.concerned = [tp for tp, _ in zip(ranked, range(MOST_TOLD), strict=False)]
        """The partitions previewed one by one."""
        self.told: list[PartitionPreview] = []

    @property
    def over(self) -> bool:
        """Whether all partitions have ended: nothing is left for any engine to do."""
        return all(act is CancelEffect.NOTHING for act in self._acts.values())

    @property
    def idle(self) -> bool:
        """Whether the cancel would do nothing that is not done already."""
        return all(act.idle for act in self._acts.values())

    @property
    def rest(self) -> int:
        """The number of partitions that are not previewed one by one."""
        return len(self._acts) - len(self.concerned)

    def look(self, touched: Collection[TopicPartition], seen: Observation | None) -> None:
        """Update from the partitions that have changed in the run, and from the last poll."""
        for tp in self._acts.keys() & set(touched):
            self._acts[tp] = effect_of_cancel(self._run.tracks[tp], self._kind)
        if seen is not None:
            observed = Observed(seen)
            previews = [self._preview(tp, observed) for tp in self.concerned]
            self.told = sorted(previews, key=_by_trouble)

    def _preview(self, tp: TopicPartition, observed: Observed) -> PartitionPreview:
        track = self._run.tracks[tp]
        outcome = preview_cancel(track, self._kind, self._run.limits, observed)
        return PartitionPreview(outcome, observed.state(tp) is not None)

    @property
    def summary(self) -> str:
        """The number of partitions by effect, and how many are refused or at risk."""
        refused = sum(each.foreseen.refused is not None for each in self.told)
        danger = sum(each.foreseen.danger is not None for each in self.told)
        words = [effects_text(self._acts.values())]
        words += [f"{refused:,} refused for now"] if refused else []
        words += [f"{danger:,} at risk"] if danger else []
        return ", ".join(words)


def _by_trouble(preview: PartitionPreview) -> bool:
    return preview.foreseen.refused is None and preview.foreseen.danger is None
