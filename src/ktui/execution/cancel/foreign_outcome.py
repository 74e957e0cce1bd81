"""What became of a reassignment that was called off on the whole cluster: judged on values."""

from __future__ import annotations

import enum

import msgspec

from ktui.cluster.observation import Observation
from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.cluster.ports import Verdict, WriteResult
from ktui.execution.engine.request_check import LAST_IN_SYNC
from ktui.execution.run.refusals import NOTHING_TO_CANCEL, refusal_in_words
from ktui.execution.run.states import State
from ktui.execution.run.track import Track


class ListedReassignment(msgspec.Struct, frozen=True, kw_only=True):
    """A reassignment as the cluster lists it (KIP-455), and what a cancel of it would do."""

    tp: TopicPartition
    topic_id: str | None
    original: Brokers
    """What a cancel leaves, in that order. Which one it was before, Kafka has forgotten."""
    target: Brokers
    refused: str | None = None
    """Why it is not cancelled."""
    danger: str | None = None
    """What a cancel puts at risk."""


class ForeignOutcome(enum.StrEnum):
    """What became of it."""

    STOPPED = "stopped"
    ROLLING_BACK = "rolling back"
    """The live run that has begun it is on its way back."""
    COMPLETED = "completed"
    """It was at its target before the cancel came."""
    REFUSED = "refused"
    CHANGED = "changed elsewhere"
    """Someone has begun another one, or the same again."""
    GONE = "topic gone"
    UNKNOWN = "unknown"


class Settled(msgspec.Struct, frozen=True):
    """An outcome, with what there is to say about it."""

    outcome: ForeignOutcome
    replicas: Brokers = ()
    """Those that the partition has now, in order; none where that is not known."""
    detail: str = ""

    @property
    def well(self) -> bool:
        """Whether it is as it was asked for."""
        return self.outcome in {ForeignOutcome.STOPPED, ForeignOutcome.ROLLING_BACK}


def listed_in(seen: Observation) -> dict[TopicPartition, ListedReassignment]:
    """Give every reassignment that a look shows, by partition."""
    return {tp: _listed(seen, state) for tp, state in sorted(seen.reassigning.items())}


def judged(move: ListedReassignment, answer: WriteResult, state: PartitionState) -> Settled | None:
    """Judge a cancelled reassignment by a look that began after its answer.

    Args:
        move: as it was when it was cancelled.
        answer: what Kafka said to that; of a cancel that was not needed, that there is none.
        state: the partition.

    Returns:
        None while the answer is lost and Kafka lists the same reassignment.
    """
    now = state.replicas
    if None not in (move.topic_id, state.topic_id) and move.topic_id != state.topic_id:
        return Settled(ForeignOutcome.GONE, now, "the topic was deleted and created again")
    if answer.verdict is Verdict.REFUSED and answer.code != NOTHING_TO_CANCEL:
        return Settled(ForeignOutcome.REFUSED, now, refusal_in_words(answer))
    return _begun_anew(move, answer, state) if state.reassigning else _over(move, answer, now)


def _begun_anew(
    move: ListedReassignment, answer: WriteResult, state: PartitionState
) -> Settled | None:
    to = ",".join(map(str, state.target))
    if state.target != move.target:
        return Settled(
            ForeignOutcome.CHANGED, state.replicas, f"someone reassigns it to {to} by now"
        )
    again = Settled(ForeignOutcome.CHANGED, state.replicas, "someone has begun it again")
    return None if answer.verdict is Verdict.UNKNOWN else again


def _over(move: ListedReassignment, answer: WriteResult, now: Brokers) -> Settled:
    if {*now} == {*move.original}:
        first = answer.verdict is Verdict.REFUSED
        return Settled(
            ForeignOutcome.STOPPED, now, "someone else had cancelled it" if first else ""
        )
    if now == move.target and answer.verdict is not Verdict.ACCEPTED:
        return Settled(ForeignOutcome.COMPLETED, now, "before the cancel came")
    return Settled(ForeignOutcome.CHANGED, now, "someone gave it these replicas meanwhile")


def settled_by_run(track: Track) -> Settled | None:
    """Say what a live run has done that was asked for it; None while it is at it."""
    outcome = _OF_STATE.get(track.state)
    return None if outcome is None else Settled(outcome, track.replicas, track.reason)


def _listed(seen: Observation, state: PartitionState) -> ListedReassignment:
    in_sync = [broker for broker in state.isr if broker not in state.adding]
    refused = None if in_sync else LAST_IN_SYNC
    if not state.described:
        refused = "it is not cancelled: it is not known who is in sync: grant Describe on its topic"
    config = seen.topic_configs.get(state.tp.topic)
    least = 1 if config is None else config.min_insync_replicas
    danger = (
        f"{len(in_sync)} would stay in sync, fewer than min.insync.replicas ({least}): "
        "producers with acks=all would fail"
    )
    return ListedReassignment(
        tp=state.tp,
        topic_id=state.topic_id,
        original=state.original,
        target=state.target,
        refused=refused,
        danger=danger if refused is None and len(in_sync) < least else None,
    )


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
