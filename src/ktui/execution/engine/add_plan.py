"""Extra plans that join a live run (KIP-236)."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice

import msgspec

from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.execution.engine.decider import Decider
from ktui.execution.journal.commands import Add, Answer, StoredCommand
from ktui.execution.run.events import (
    Added,
    AnyRunEvent,
    CancelAsked,
    Joined,
    OnConflict,
    Planned,
    Replanned,
)
from ktui.execution.run.plans import chunked, hash_plan, planned_partitions, planned_parts
from ktui.execution.run.run import Run
from ktui.execution.run.scope import count_text
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.text import replica_list_text
from ktui.execution.run.track import Track
from ktui.planning.check import findings
from ktui.planning.check.check import check_plan
from ktui.planning.plan import PartitionTarget, Plan
from ktui.preview.facts import ClusterFacts, Terms
from ktui.preview.preview import PlanPreview, PreviewBase

MOST_NAMED = 20  # partitions with two targets that are named; `--json` has all
TO_ADD = msgspec.structs.replace(
    findings.TO_START, moved="be added", unthrottled="lift the throttle of the run"
)
_AT_TARGET = (findings.FindingKind.AT_TARGET, findings.FindingKind.NOTHING_TO_DO)
_OF_THROTTLES = (findings.FindingKind.THROTTLE_REPLACED, findings.FindingKind.OTHERS_THROTTLED)


class JoinEffect(enum.StrEnum):
    """What happens to a partition of an extra plan."""

    NEW = "new"  # the run does not have it: it joins the queue
    AGAIN = "again"  # it has ended, and is queued again with the new target
    INSTEAD = "instead"  # it waits to begin, and goes to the new target instead
    ROLL_BACK = "roll back"  # rolled back, then queued with the new target
    RETARGET = "retarget"  # its step is cancelled, then it goes on to the new target from there
    KEEP = "keep"  # on to the run's own target
    SAME = "same"  # the run has it there, or on its way

    @property
    def joins(self) -> bool:
        return self not in (JoinEffect.KEEP, JoinEffect.SAME)


_TEXTS = {
    JoinEffect.NEW: "{} join{s} the queue",
    JoinEffect.AGAIN: "{} that had ended {is_} queued again",
    JoinEffect.INSTEAD: "{} that waited {go} to the new target instead",
    JoinEffect.ROLL_BACK: "{} {is_} rolled back first, then queued",
    JoinEffect.RETARGET: "{} {is_} cancelled, then {go} on to the new target from there",
    JoinEffect.KEEP: "{} keep{s} the run's own target",
    JoinEffect.SAME: "{} {is_} at that target or on the way there already",
}
_CANCEL_FIRST = {JoinEffect.ROLL_BACK: CancelKind.ROLLBACK, JoinEffect.RETARGET: CancelKind.STOP}


def join_effect(
    track: Track | None, target: Brokers, found: Brokers | None, on_conflict: OnConflict
) -> JoinEffect:
    """Return what happens; `found`: the plan's view, for others may have moved it since."""
    if track is None:
        return JoinEffect.NEW
    is_over = track.state.ended and track.then is None
    if _destination(track) == target and not (is_over and found not in (None, target)):
        return JoinEffect.SAME
    if is_over:
        return JoinEffect.AGAIN
    if on_conflict is OnConflict.KEEP:
        return JoinEffect.KEEP
    if not track.begun:
        return JoinEffect.INSTEAD
    return JoinEffect.ROLL_BACK if on_conflict is OnConflict.ROLLBACK else JoinEffect.RETARGET


def _destination(track: Track) -> Brokers | None:
    given_up = track.cancel is not None or (track.state.ended and track.state is not State.DONE)
    return None if given_up and track.then is None else track.target


def join_effects_text(joinings: Iterable[JoinEffect]) -> str:
    """Count the partitions in words: "3 join the queue, 2 are rolled back first"."""
    return count_text(joinings, _TEXTS)


class CheckedExtraPlan:
    """An extra plan, checked against a run and its cluster."""

    def __init__(
        self,
        plan: Plan,
        name: str,
        run: Run,
        facts: ClusterFacts,
        on_conflict: OnConflict,
        allowed: findings.Allowances,
        *,
        need: findings.NeededPermission = TO_ADD,
    ) -> None:
        self.plan, self.name, self.run, self.on_conflict = plan, name, run, on_conflict
        self._allowed, self._need = allowed, need
        self._tracks = dict(run.tracks)  # the run may change in the meantime
        self._facts, self._seen = facts, facts.seen
        self._settled = settled(facts.seen, run, self._tracks)

    @cached_property
    def effects(self) -> Sequence[JoinEffect]:
        return [self._effect(target, self._tracks) for target in self.plan.partitions]

    def _effect(
        self, target: PartitionTarget, tracks: Mapping[TopicPartition, Track]
    ) -> JoinEffect:
        state = self._seen.partitions.get(target.tp)
        found = None if state is None else state.original
        return join_effect(tracks.get(target.tp), target.replicas, found, self.on_conflict)

    def holds_for(self, partitions: Iterable[TopicPartition]) -> bool:
        known, tracks = self._by_partition, self.run.tracks
        return all(
            self._effect(known[tp][0], tracks) is known[tp][1] for tp in partitions if tp in known
        )

    @cached_property
    def _by_partition(self) -> Mapping[TopicPartition, tuple[PartitionTarget, JoinEffect]]:
        pairs = zip(self.plan.partitions, self.effects, strict=True)
        return {target.tp: (target, how) for target, how in pairs}

    @property
    def has_problems(self) -> bool:
        return bool(self.preview.problems)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do: every partition is at its target or on its way there."""
        return self.preview.idle or not any(how.joins for how in self.effects)

    def in_run(self) -> list[str]:
        """Describe what happens, and name up to `MOST_NAMED` partitions with two targets."""
        others = sum(1 for _ in self._with_other_target())
        named = [
            f"  {tp}  {how}: {replica_list_text(run_target)} in the run, "
            f"{replica_list_text(target)} in the plan"
            for tp, how, run_target, target in islice(self._with_other_target(), MOST_NAMED)
        ]
        rest = [f"  and {others - MOST_NAMED:,} more"] if others > MOST_NAMED else []
        return [f"in run {self.run.name}: {join_effects_text(self.effects)}", *named, *rest]

    def _with_other_target(self) -> Iterator[tuple[TopicPartition, JoinEffect, Brokers, Brokers]]:
        for target, how in zip(self.plan.partitions, self.effects, strict=True):
            track = self._tracks.get(target.tp)
            if track is not None and how is not JoinEffect.SAME:
                yield target.tp, how, track.target, target.replicas

    @cached_property
    def preview(self) -> PlanPreview:
        pairs = zip(self.plan.partitions, self.effects, strict=True)
        joins = Plan(tuple(target for target, how in pairs if how.joins))
        facts = msgspec.structs.replace(self._facts, seen=self._settled)
        check = partial(check_plan, self.plan, self._settled)
        base = PreviewBase(joins, facts, source=self.name, need=self._need, check=check)
        terms = Terms(
            limits=self.run.limits,
            throttle=self.run.throttled.rates,
            throttle_leaders=self.run.options.throttle_leaders,
            allowed=self._allowed,
        )
        return base.under(terms).without(self._is_of_the_run)

    def _is_of_the_run(self, finding: findings.Finding) -> bool:
        if finding.kind in _OF_THROTTLES:
            return True
        at_target = finding.kind in _AT_TARGET
        return at_target and any(tp in self._tracks for tp in finding.partitions)

    def command(self) -> Add:
        partitions = tuple(planned_partitions(self.plan, self._seen))
        return Add(self.name, hash_plan(self.plan), partitions, self.on_conflict)


def settled(
    seen: findings.ClusterSnapshot, run: Run, tracks: Mapping[TopicPartition, Track]
) -> findings.ClusterSnapshot:
    """Return the cluster as it was before the run's steps, which are no foreign reassignments."""
    begun = {tp: track for tp, track in tracks.items() if track.begun and not track.state.ended}
    listed = {tp: each for tp, each in seen.listed.items() if tp not in run.tracks_in_flight}
    states = {tp: _before(state, begun.get(tp)) for tp, state in seen.partitions.items()}
    return msgspec.structs.replace(seen, partitions=states, listed=listed)


def _before(state: PartitionState, track: Track | None) -> PartitionState:
    if track is None:
        return state
    original = track.original
    return msgspec.structs.replace(
        state, replicas=original, isr=original, leader=track.led, adding=(), removing=()
    )


def _moved_away(track: Track) -> Replanned | None:
    found = None if track.then is None else track.then.original
    if found is None or track.state is not State.DONE or found == track.replicas:
        return None
    tp = track.tp
    return Replanned(tp.topic, tp.partition, replicas=found, before=track.replicas)


class PlanAdder:
    """Queues the partitions of extra plans: at once, or once they have come to rest."""

    def __init__(
        self, run: Run, decider: Decider, record: Callable[[Sequence[AnyRunEvent]], None]
    ) -> None:
        self._run = run
        self._decider = decider
        self._record = record

    def carry_out(self, command: Add, asked: StoredCommand) -> Answer:
        """The journal gets all of the plan in one write, or nothing."""
        if done := self._run.additions.added_by(asked.id):
            return Answer(accepted=True, words=f"{done.plan} was added already")
        if refusal := self._refusal(command):
            return Answer(accepted=False, words=refusal)
        tracks, conflict = self._run.tracks, command.on_conflict
        joinings = [
            (join_effect(tracks.get(one.tp), one.target, one.original, conflict), one)
            for one in command.partitions
        ]
        taken_on = [(how, planned) for how, planned in joinings if how.joins]
        words = join_effects_text(how for how, _ in joinings)
        if not taken_on:
            return Answer(accepted=True, words=f"nothing is added: {words}")
        to_cancel = {kind: self._to_cancel(taken_on, kind) for kind in _CANCEL_FIRST.values()}
        cancels = [
            CancelAsked(kind=kind, partitions=part, command=asked.id, who=asked.who)
            for kind, partitions in to_cancel.items()
            for part in chunked(partitions)
        ]
        added = Added(
            plan=command.plan,
            plan_sha256=command.plan_sha256,
            partitions=len(taken_on),
            on_conflict=command.on_conflict,
            command=asked.id,
            who=asked.who,
        )
        planned_events = planned_parts([planned for _, planned in taken_on])
        self._record([added, *planned_events, *cancels])
        self._record(self._decider.cancel([tp for tps in to_cancel.values() for tp in tps]))
        self._record(self._decider.join([p.tp for how, p in taken_on if how is JoinEffect.NEW]))
        self.queue_rested()
        return Answer(accepted=True, words=words, batch=self._decider.next_batch)

    def queue_rested(self) -> None:
        """Queue those whose earlier move is over, with no request of it outstanding."""
        waiting = self._run.additions.waiting
        over = [tp for tp, track in waiting.items() if track.state.ended or not track.begun]
        rested = [tp for tp in over if not self._decider.has_open_request(tp)]
        if rested:
            moved_away = [_moved_away(waiting[tp]) for tp in rested]
            joined = [Joined(partitions=part) for part in chunked(rested)]
            self._record([*joined, *filter(None, moved_away)])
            self._record(self._decider.join(rested))

    def _refusal(self, command: Add) -> str | None:
        if self._run.ended:
            return f"the run has ended. Start {command.plan} as a run of its own: ktui start"
        if self._run.cancel_gate.shut:
            gate = self._run.cancel_gate.reason
            shut = f"the cluster's cancel gate is shut{f' by {gate}' if gate else ''}"
            return f"{shut}. Open it first: ktui cancel {self._run.name} --remove-cancel"
        return None

    def _to_cancel(
        self, taken_on: Sequence[tuple[JoinEffect, Planned]], kind: CancelKind
    ) -> list[TopicPartition]:
        tracks = self._run.tracks
        return [
            planned.tp
            for how, planned in taken_on
            if _CANCEL_FIRST.get(how) is kind and tracks[planned.tp].cancel is not kind
        ]
