"""The plan that undoes a run: each partition's replicas from before, where only the run moved it.

Pure: the journal has the earlier lists, which Kafka forgets, and a read has the present ones.
"""

from __future__ import annotations

import msgspec

from ktui.cluster.observation import Observation
from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.planning.plan import PartitionTarget, Plan


class LeftAsIs(msgspec.Struct, frozen=True):
    """A partition that the run has changed, and that is not put back."""

    tp: TopicPartition
    why: str


class UndoPlan(msgspec.Struct, frozen=True):
    """The way back from a run, as far as there is one."""

    plan: Plan
    """The original replicas in their order, by the run's own order. May be empty."""
    left: tuple[LeftAsIs, ...]
    """What is not put back, in the run's order."""


def undo_plan(run: Run, seen: Observation) -> UndoPlan:
    """Return the plan that restores the replicas from before a run.

    Partitions that the run never changed, those that it has rolled back, and those that are as
    before need nothing.

    Args:
        run: the run, as its journal has it.
        seen: a read of the run's partitions, with their reassignments.
    """
    targets: list[PartitionTarget] = []
    left: list[LeftAsIs] = []
    for track in run.tracks.values():
        state = seen.partitions.get(track.tp)
        if not track.begun or track.state is State.ROLLED_BACK or _as_before(track, state):
            continue
        if why := _why_left(track, state, gone=track.tp in seen.absent):
            left.append(LeftAsIs(track.tp, why))
        elif state is not None:
            targets.append(_target(track, state.replicas))
    return UndoPlan(Plan(tuple(targets)), tuple(left))


def _as_before(track: Track, state: PartitionState | None) -> bool:
    if state is None or state.reassigning or not _same_topic(track, state):
        return False
    return state.replicas == track.original


def _same_topic(track: Track, state: PartitionState) -> bool:
    return track.planned.topic_id in (None, state.topic_id)


def _why_left(track: Track, state: PartitionState | None, *, gone: bool) -> str | None:
    """Return why a partition is not put back; None if it is."""
    if gone or track.state is State.TOPIC_GONE:
        return "its topic was deleted"
    if state is None or not state.described:
        return "the cluster does not describe it"
    if not _same_topic(track, state):
        return "its topic was deleted and created again"
    if state.reassigning:
        return "it is being reassigned"
    if state.replicas not in (track.replicas, track.sent):
        return f"its replicas are {_text(state.replicas)} rather than {_text(track.replicas)}"
    return None


def _text(replicas: Brokers) -> str:
    return ",".join(map(str, replicas))


def _target(track: Track, replicas: Brokers) -> PartitionTarget:
    return PartitionTarget(
        track.tp.topic, track.tp.partition, track.original, original_replicas=replicas
    )
