"""An extra plan, held against its cluster and the run that it is to join."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice

import msgspec

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.add_events import OnConflict
from ktui.execution.adding_scope import Joining, joining, joinings_in_words
from ktui.execution.beginning import planned_by, sha256_of
from ktui.execution.commands import Add
from ktui.execution.event_words import brokers
from ktui.execution.events import Brokers
from ktui.execution.run import Run
from ktui.execution.track import Track
from ktui.planning.check import check_plan
from ktui.planning.finding import Allowances, ClusterSnapshot, Finding, Kind, Severity
from ktui.planning.plan import Plan
from ktui.planning.preflight import Ground, Preflight

MOST_TOLD = 20
"""Partitions of both that are named; --json has all."""
_AT_TARGET = (Kind.AT_TARGET, Kind.NOTHING_TO_DO)
_OF_THROTTLES = (Kind.THROTTLE_REPLACED, Kind.OTHERS_THROTTLED)
"""Said of a run that is to begin: of one that has, the throttles found are its own."""


class Extra:
    """An extra plan that has been looked at.

    Args:
        plan: it.
        name: its file's name.
        run: the run, by its journal.
        seen: the cluster as it is.
        on_conflict: what is to become of partitions that the run moves elsewhere.
        allowed: what the operator has allowed.
        lacking: what was found of permissions.
    """

    def __init__(
        self,
        plan: Plan,
        name: str,
        run: Run,
        seen: ClusterSnapshot,
        on_conflict: OnConflict,
        allowed: Allowances,
        *,
        lacking: tuple[Finding, ...] = (),
    ) -> None:
        self.plan, self.name, self.run, self.on_conflict = plan, name, run, on_conflict
        self._tracks = dict(run.tracks)  # the run may go on meanwhile
        self._seen = seen
        self._settled = _settled(seen, run, self._tracks)
        self.findings = (*lacking, *self._findings(allowed))

    @cached_property
    def ways(self) -> Sequence[Joining]:
        """What becomes of each partition of the plan, in its order."""
        tracks, on_conflict = self._tracks, self.on_conflict
        return [
            joining(tracks.get(target.tp), target.replicas, on_conflict)
            for target in self.plan.partitions
        ]

    def holds_for(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether that still becomes of some partitions, by how they are in the run now."""
        known, tracks = self._by_partition, self.run.tracks
        return all(
            joining(tracks.get(tp), known[tp][0], self.on_conflict) is known[tp][1]
            for tp in partitions
            if tp in known
        )

    @cached_property
    def _by_partition(self) -> Mapping[TopicPartition, tuple[Brokers, Joining]]:
        pairs = zip(self.plan.partitions, self.ways, strict=True)
        return {target.tp: (target.replicas, how) for target, how in pairs}

    @property
    def has_problems(self) -> bool:
        """Whether something forbids that it is added."""
        return any(finding.severity is Severity.PROBLEM for finding in self.findings)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do: all has been done, or is on its way."""
        done = any(finding.kind is Kind.NOTHING_TO_DO for finding in self.findings)
        return done or not any(how.joins for how in self.ways)

    def in_run(self) -> list[str]:
        """Say of how many partitions what becomes in the run, and name those of both.

        Named are at most `MOST_TOLD` that the run has with another target.
        """
        others = sum(1 for _ in self._otherwise())
        named = [
            f"  {tp}  {how}: {brokers(run_target)} in the run, {brokers(target)} in the plan"
            for tp, how, run_target, target in islice(self._otherwise(), MOST_TOLD)
        ]
        rest = [f"  and {others - MOST_TOLD:,} more"] if others > MOST_TOLD else []
        return [f"in run {self.run.name}: {joinings_in_words(self.ways)}", *named, *rest]

    def _otherwise(self) -> Iterator[tuple[TopicPartition, Joining, Brokers, Brokers]]:
        """Give those that the run has, too, and not on their way to the same target.

        Of each what becomes of it, its target in the run, and that in the plan.
        """
        for target, how in zip(self.plan.partitions, self.ways, strict=True):
            track = self._tracks.get(target.tp)
            if track is not None and how is not Joining.SAME:
                yield target.tp, how, track.target, target.replicas

    def preflight(self) -> Preflight:
        """Work out what it would do by itself, under the limits of the run."""
        pairs = zip(self.plan.partitions, self.ways, strict=True)
        joins = Plan(tuple(target for target, how in pairs if how.joins))
        figures = Ground(joins, self._settled).under(
            self.run.limits,
            throttle=self.run.throttled.rates,
            throttle_leaders=self.run.options.throttle_leaders,
        )
        kept = tuple(found for found in figures.warnings if found.kind not in _OF_THROTTLES)
        return msgspec.structs.replace(figures, warnings=kept)

    def command(self) -> Add:
        """Give what is asked of the run: the plan as a whole."""
        partitions = tuple(planned_by(self.plan, self._seen))
        return Add(self.name, sha256_of(self.plan), partitions, self.on_conflict)

    def _findings(self, allowed: Allowances) -> tuple[Finding, ...]:
        """Hold it against the cluster; what the run has brought to its target is no finding."""
        found = check_plan(self.plan, self._settled, allowed)
        tracks = self._tracks
        return tuple(
            finding
            for finding in found
            if finding.kind not in _AT_TARGET or not any(tp in tracks for tp in finding.partitions)
        )


def _settled(
    seen: ClusterSnapshot, run: Run, tracks: Mapping[TopicPartition, Track]
) -> ClusterSnapshot:
    """Give the cluster with each partition that the run has begun as it was before.

    What the run has in flight is nobody else's, and the replicas that it holds for a while do not
    tell how many it is to have.
    """
    begun = {tp: track for tp, track in tracks.items() if track.begun and not track.state.ended}
    listed = {tp: each for tp, each in seen.listed.items() if tp not in run.flying}
    states = {tp: _before(state, begun.get(tp)) for tp, state in seen.partitions.items()}
    return msgspec.structs.replace(seen, partitions=states, listed=listed)


def _before(state: PartitionState, track: Track | None) -> PartitionState:
    if track is None:
        return state
    original = track.original
    return msgspec.structs.replace(
        state, replicas=original, isr=original, leader=track.led, adding=(), removing=()
    )
