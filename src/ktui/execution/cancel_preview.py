"""Preview of a cancel: its effect on each partition, from the run and a fresh read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from ktui.cluster.observation import Observation
from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.execution.engine.observed import Observed, StepOutcome, step_outcome
from ktui.execution.engine.requests import LAST_IN_SYNC
from ktui.execution.run.scope import CancelEffect, CancelScope, effect_of_cancel
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.track import Track, find_goal, goal_text
from ktui.pacing.limits import Limits
from ktui.pacing.situation import Blocked, Step
from ktui.pacing.steps import all_steps, next_step
from ktui.planning.plan import join_named
from ktui.quantities import as_bytes, as_count

_GOES_ON = "It is done by itself as soon as that has passed"
_IS_GONE = "Nothing is done"
_OF_OTHERS = "It is left to them; `ktui cancel --cluster --stop --partition {0}` stops it"
_OF_RUN = "It is left to that run; `ktui cancel {1} --stop --partition {0}` stops it"
_LAST_IN_SYNC_OUT = (
    "It is cancelled as soon as another replica is in sync: bring one of their brokers back"
)


class PartitionPreview(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one partition that is cancelled now, if nothing else happens to it."""

    tp: TopicPartition
    state: State  # in the run
    held: Brokers  # at present, according to the journal
    effect: CancelEffect
    is_read: bool  # by the cluster; if not, the journal counts
    cancels: bool = False  # Kafka drops at once the replicas that it is adding
    steps: tuple[Step, ...] = ()  # sent after the cancel, under the run's limits
    replicas: Brokers  # at the end, in order
    leader: int | None  # at the end; None if nobody leads; if not read, that from before the run
    planned: int  # replicas in the plan
    original: int  # replicas before the run
    refused: str | None = None
    way_out: str | None = None  # what happens to a refused partition, and what the operator can do
    danger: str | None = None

    @property
    def extra(self) -> int:
        """Replicas beyond both the plan and the number before the run, which a trim would drop."""
        return max(0, len(self.replicas) - max(self.planned, self.original))

    @property
    def not_now(self) -> str | None:
        return None if self.refused is None else f"{self.refused}. {self.way_out}"

    @property
    def in_trouble(self) -> bool:
        return self.refused is not None or self.danger is not None

    @property
    def sent(self) -> str:
        if self.refused is not None and not self.cancels:
            return "nothing for now"
        steps = as_count(len(self.steps), "step") if self.steps else ""
        return ", ".join(filter(None, ("cancel" if self.cancels else "", steps))) or "nothing"


class CancelPreview:
    """What a cancel would do, in total and to each partition, or to those of `concerned`."""

    def __init__(
        self, scope: CancelScope, concerned: Sequence[TopicPartition] | None = None
    ) -> None:
        self.scope = scope
        self.concerned = list(scope.effects) if concerned is None else concerned
        self.partitions: list[PartitionPreview] = []  # as of the last read; empty before the first
        self.movers: Mapping[TopicPartition, str] = {}  # of the same state directory
        self.problem: str | None = None  # why the cluster could not be read

    @property
    def rest(self) -> int:
        return len(self.scope.effects) - len(self.concerned)

    @property
    def summary(self) -> str:
        refused = sum(each.refused is not None for each in self.partitions)
        danger = sum(each.danger is not None for each in self.partitions)
        words = [self.scope.words]
        words += [f"{refused:,} refused for now"] if refused else []
        words += [f"{danger:,} at risk"] if danger else []
        if self.scope.to_copy:
            words.append(f"{as_bytes(self.scope.to_copy)} to copy back")
        return ", ".join(words)

    def update(self, seen: Observation) -> None:
        run, observed = self.scope.run, Observed(seen)
        self.partitions = [
            preview_partition(
                run.tracks[tp], self.scope.kind, run.limits, observed, self.movers.get(tp)
            )
            for tp in self.concerned
        ]


def preview_partition(
    track: Track, kind: CancelKind, limits: Limits, observed: Observed, mover: str | None = None
) -> PartitionPreview:
    """Preview a cancel of one partition of a run; what the read does not show is by the journal."""
    effect, state = effect_of_cancel(track, kind), observed.state(track.tp)
    unchanged = PartitionPreview(
        tp=track.tp,
        state=track.state,
        held=track.replicas,
        effect=effect,
        is_read=state is not None,
        replicas=track.replicas if state is None else state.original,
        leader=track.led if state is None else state.leader,
        planned=len(track.planned.target),
        original=len(track.original),
    )
    if not effect.needs_read:
        return unchanged
    if reason := observed.gone(track):
        by_journal = replace(unchanged, replicas=track.replicas, leader=track.led)
        return _refused(by_journal, reason, _IS_GONE)
    if state is None:
        return _refused(unchanged, observed.hidden(track.tp.topic), _GOES_ON)
    if state.reassigning and not _is_ours(track, state):
        who = "someone else" if mover is None else f"run {mover}"
        named = f"{track.tp.topic}:{track.tp.partition}"
        way_out = (_OF_OTHERS if mover is None else _OF_RUN).format(named, mover)
        return _refused(unchanged, f"{who} is reassigning it", way_out)
    preview = _cancelled(unchanged, replace(track, cancel=kind), limits, observed, state)
    if effect is CancelEffect.ALREADY:
        return replace(preview, cancels=False, steps=())
    return preview


def min_isr_danger(in_sync: Collection[int], least: int) -> str | None:
    """Return what too few replicas in sync put at risk; None if enough are, or none is left."""
    if not in_sync or len(in_sync) >= least:
        return None
    return (
        f"{len(in_sync)} would stay in sync, fewer than min.insync.replicas ({least}): "
        "producers with acks=all would fail"
    )


def _cordon_danger(steps: Collection[Step], seen: Observation) -> str | None:
    """Return which steps Kafka may refuse for a cordon; None if none, or if that is known."""
    if seen.refuses_cordoned is not None:
        return None
    named = {broker for step in steps if step.alters for broker in step.target}
    cordoned = sorted(named & seen.cordoned)
    if not cordoned:
        return None
    return (
        f"{join_named('broker', cordoned)} {'is' if len(cordoned) == 1 else 'are'} cordoned, and "
        "Kafka 4.4 and later refuse every target that names it: "
        + " and ".join(f"`ktui broker uncordon {broker}`" for broker in cordoned)
    )


def _is_ours(track: Track, state: PartitionState) -> bool:
    return track.step is not None and step_outcome(track.step, state) is StepOutcome.IN_FLIGHT


def _refused(preview: PartitionPreview, reason: str, way_out: str) -> PartitionPreview:
    return replace(preview, refused=reason, way_out=way_out)


def _settled(state: PartitionState) -> PartitionState:
    """Without the replicas being added; the first in sync leads if one of those did."""
    isr = tuple(broker for broker in state.isr if broker not in state.adding)
    leader = state.leader
    if leader in state.adding:
        leader = next((broker for broker in state.original if broker in isr), None)
    return replace(state, replicas=state.original, isr=isr, leader=leader, adding=(), removing=())


def _cancelled(
    unchanged: PartitionPreview,
    turned: Track,
    limits: Limits,
    observed: Observed,
    state: PartitionState,
) -> PartitionPreview:
    stops = turned.cancel is CancelKind.STOP
    after, in_flight = _settled(state), state.reassigning
    situation = observed.situation(turned, after)
    goes_to = find_goal(turned, after.replicas, after.isr, after.leader, observed.closed)
    goes_on = None if stops else situation
    lead = next(iter(goes_to.replicas), None) if goes_to.lead is None else goes_to.lead
    least = 1 if situation is None else situation.min_insync_replicas
    steps = () if goes_on is None else tuple(all_steps(goes_on, limits))
    dangers = (
        min_isr_danger(after.isr, least) if in_flight else None,
        _cordon_danger(steps, observed.seen),
    )
    preview = replace(
        unchanged,
        cancels=in_flight and bool(after.isr),
        steps=steps,
        replicas=goes_to.replicas,
        leader=after.leader if stops else lead,
        danger="; ".join(filter(None, dangers)) or None,
    )
    if in_flight and not after.isr:
        return _refused(preview, LAST_IN_SYNC, _LAST_IN_SYNC_OUT)
    following = None if goes_on is None else next_step(goes_on, limits)
    if isinstance(following, Blocked):
        return _refused(preview, following.sentence_of(goal_text(turned.cancel)), _GOES_ON)
    return preview
