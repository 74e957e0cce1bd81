"""Outcomes of reassignments that were cancelled across the whole cluster: pure functions."""

from __future__ import annotations

import enum

import msgspec

from ktui.cluster.observation import Observation
from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.cluster.ports import Verdict, WriteResult
from ktui.execution.cancel.preview import min_isr_danger
from ktui.execution.engine.requests import LAST_IN_SYNC
from ktui.execution.run.parts import NOTHING_TO_CANCEL, refusal_text
from ktui.execution.run.states import State
from ktui.execution.run.track import Track


class ListedReassignment(msgspec.Struct, frozen=True, kw_only=True):
    """A reassignment as the cluster lists it (KIP-455), and the effects of cancelling it."""

    tp: TopicPartition
    topic_id: str | None
    original: Brokers
    """The replicas that a cancel leaves, in that order. Kafka has forgotten their earlier order."""
    target: Brokers
    refused: str | None = None
    """Why the reassignment cannot be cancelled."""
    danger: str | None = None
    """What a cancel puts at risk."""


class ForeignOutcome(enum.StrEnum):
    """The outcome of a cancelled reassignment."""

    STOPPED = "stopped"
    ROLLING_BACK = "rolling back"
    """The live run that began the reassignment is rolling it back."""
    COMPLETED = "completed"
    """The partition was at its target before the cancel arrived."""
    REFUSED = "refused"
    CHANGED = "changed elsewhere"
    """Someone has begun another reassignment, or the same one again."""
    GONE = "topic gone"
    UNKNOWN = "unknown"


_OF_STATE = {
    State.STOPPED: ForeignOutcome.STOPPED,
    State.ROLLED_BACK: ForeignOutcome.ROLLING_BACK,
    State.ROLLING_BACK: ForeignOutcome.ROLLING_BACK,
    State.DONE: ForeignOutcome.COMPLETED,
    State.REFUSED: ForeignOutcome.REFUSED,
    State.FAILED: ForeignOutcome.REFUSED,
    State.CHANGED_ELSEWHERE: ForeignOutcome.CHANGED,
    State.TOPIC_GONE: ForeignOutcome.GONE,
}


class Settled(msgspec.Struct, frozen=True):
    """An outcome, with its details."""

    outcome: ForeignOutcome
    replicas: Brokers = ()
    """The present replicas of the partition, in order; empty if they are not known."""
    detail: str = ""

    @property
    def as_asked(self) -> bool:
        return self.outcome in {ForeignOutcome.STOPPED, ForeignOutcome.ROLLING_BACK}


def listed_reassignments(seen: Observation) -> dict[TopicPartition, ListedReassignment]:
    """Return every reassignment that an observation shows, by partition."""
    return {tp: _listed(seen, state) for tp, state in sorted(seen.reassigning.items())}


def judge_cancel(
    move: ListedReassignment, answer: WriteResult, state: PartitionState
) -> Settled | None:
    """Judge a cancelled reassignment by an observation that began after the answer.

    Args:
        move: the reassignment as it was when it was cancelled.
        answer: Kafka's answer; for a cancel that was not needed, that nothing is in progress.
        state: the observed partition.

    Returns:
        None while the answer is lost and Kafka lists the same reassignment.
    """
    now = state.replicas
    if None not in (move.topic_id, state.topic_id) and move.topic_id != state.topic_id:
        return Settled(ForeignOutcome.GONE, now, "the topic was deleted and created again")
    if answer.verdict is Verdict.REFUSED and answer.code != NOTHING_TO_CANCEL:
        return Settled(ForeignOutcome.REFUSED, now, refusal_text(answer))
    return _begun_again(move, answer, state) if state.reassigning else _over(move, answer, now)


def _begun_again(
    move: ListedReassignment, answer: WriteResult, state: PartitionState
) -> Settled | None:
    to = ",".join(map(str, state.target))
    if state.target != move.target:
        return Settled(ForeignOutcome.CHANGED, state.replicas, f"someone now reassigns it to {to}")
    again = Settled(ForeignOutcome.CHANGED, state.replicas, "someone has begun it again")
    return None if answer.verdict is Verdict.UNKNOWN else again


def _over(move: ListedReassignment, answer: WriteResult, now: Brokers) -> Settled:
    if {*now} == {*move.original}:
        first = answer.verdict is Verdict.REFUSED
        return Settled(
            ForeignOutcome.STOPPED, now, "someone else had cancelled it" if first else ""
        )
    if now == move.target and answer.verdict is not Verdict.ACCEPTED:
        return Settled(ForeignOutcome.COMPLETED, now, "before the cancel arrived")
    return Settled(ForeignOutcome.CHANGED, now, "someone gave it these replicas meanwhile")


def settlement_by_run(track: Track) -> Settled | None:
    """Return the outcome of a partition that its live run cancels; None until it is known."""
    outcome = _OF_STATE.get(track.state)
    return None if outcome is None else Settled(outcome, track.replicas, track.reason)


def _listed(seen: Observation, state: PartitionState) -> ListedReassignment:
    in_sync = [broker for broker in state.isr if broker not in state.adding]
    refused = None if in_sync else LAST_IN_SYNC
    if not state.described:
        refused = "it is not cancelled: its ISR is not known. Grant Describe on its topic"
    config = seen.topic_configs.get(state.tp.topic)
    least = 1 if config is None else config.min_insync_replicas
    return ListedReassignment(
        tp=state.tp,
        topic_id=state.topic_id,
        original=state.original,
        target=state.target,
        refused=refused,
        danger=min_isr_danger(in_sync, least) if refused is None else None,
    )
