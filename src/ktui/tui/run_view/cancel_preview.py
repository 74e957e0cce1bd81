"""What a cancel would come to, kept up to date as the run goes on and the cluster is looked at."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.execution.cancel.preview import Foreseen, foreseen
from ktui.execution.engine.observed import Observed
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.cancel_scope import CancelEffect, act_on, acts_in_words, in_scope
from ktui.execution.run.run import Run
from ktui.tui.run_view.cancel_choice import Scope

MOST_TOLD = 200
"""Partitions that are looked at and told of one by one; of the rest what is sent is counted."""
_FIRST = (
    CancelEffect.CANCEL,
    CancelEffect.GO_BACK,
    CancelEffect.TRIM,
    CancelEffect.DEQUEUE,
    CancelEffect.ALREADY,
    CancelEffect.NOTHING,
)


class PartitionPreview(msgspec.Struct, frozen=True):
    """One partition: what becomes of it."""

    foreseen: Foreseen
    looked_at: bool
    """Whether the cluster has been seen to say how it is; else it is as the journal has it."""


class CancelOutlook:
    """What becomes of the partitions of a scope.

    Args:
        run: the run.
        scope: what is to be called off.
        kind: what is to become of it.
    """

    def __init__(self, run: Run, scope: Scope, kind: CancelKind) -> None:
        self._run, self._kind = run, kind
        tracks = in_scope(run, scope.topics, scope.partitions)
        self._acts = {track.tp: act_on(track, kind) for track in tracks}
        ranked = (tp for act in _FIRST for tp in self._acts if self._acts[tp] is act)
        self.concerned = [tp for tp, _ in zip(ranked, range(MOST_TOLD), strict=False)]
        """Those told of one by one."""
        self.told: list[PartitionPreview] = []

    @property
    def over(self) -> bool:
        """Whether all of it is over: nothing is left for any process to do."""
        return all(act is CancelEffect.NOTHING for act in self._acts.values())

    @property
    def idle(self) -> bool:
        """Whether nothing would be done to any that is not done already."""
        return all(act.idle for act in self._acts.values())

    @property
    def rest(self) -> int:
        """How many are not told of one by one."""
        return len(self._acts) - len(self.concerned)

    def look(self, touched: Collection[TopicPartition], seen: Observation | None) -> None:
        """Take in who stands otherwise in the run, and what was seen last."""
        for tp in self._acts.keys() & set(touched):
            self._acts[tp] = act_on(self._run.tracks[tp], self._kind)
        if seen is not None:
            look = Observed(seen)
            told = [self._told(tp, look) for tp in self.concerned]
            self.told = sorted(told, key=_by_trouble)

    def _told(self, tp: TopicPartition, look: Observed) -> PartitionPreview:
        track = self._run.tracks[tp]
        outcome = foreseen(track, self._kind, self._run.limits, look)
        return PartitionPreview(outcome, look.state(tp) is not None)

    @property
    def summary(self) -> str:
        """Say of how many each is done, and how many are refused or at risk."""
        refused = sum(each.foreseen.refused is not None for each in self.told)
        danger = sum(each.foreseen.danger is not None for each in self.told)
        words = [acts_in_words(self._acts.values())]
        words += [f"{refused:,} refused for now"] if refused else []
        words += [f"{danger:,} at risk"] if danger else []
        return ", ".join(words)


def _by_trouble(told: PartitionPreview) -> bool:
    return told.foreseen.refused is None and told.foreseen.danger is None
