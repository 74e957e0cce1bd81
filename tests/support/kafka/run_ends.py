"""The outcome of a run on a real cluster, compared with what was requested."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.run.events import AnyRunEvent, CancelAsked, StepBegun
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.track import Track

Replicas = tuple[int, ...]


def steps_against_cancels(events: Iterable[AnyRunEvent], brokers: Collection[int]) -> list[str]:
    """List the steps that moved a partition forward after it was cancelled."""
    kinds: dict[TopicPartition, CancelKind] = {}
    originals: dict[TopicPartition, Replicas] = {}
    wrong = []
    for event in events:
        if isinstance(event, CancelAsked):
            kinds |= dict.fromkeys(event.partitions, event.kind)
        elif isinstance(event, StepBegun):
            original = originals.setdefault(event.tp, event.before)
            kind = kinds.get(event.tp)
            allowed = {None: {*brokers}, CancelKind.ROLLBACK: {*original}}.get(kind, set())
            if kind is CancelKind.STOP or not {*event.adding} <= allowed:
                wrong.append(f"{event.tp}: {event.before} to {event.replicas} after {kind}")
    return wrong


def otherwise_than_expected(
    tracks: Mapping[TopicPartition, Track],
    found: Mapping[TopicPartition, PartitionState],
    listed: Collection[TopicPartition],
    *,
    leaders: bool = True,
) -> list[str]:
    """List the partitions that differ from the run's journal, or that still move.

    Args:
        tracks: the partitions as the run has them.
        found: the partitions as the cluster has them.
        listed: the partitions that are being reassigned.
        leaders: whether leaders must agree, too: only if no broker failed after the run was done.
    """
    wrong = []
    for tp, track in tracks.items():
        has = (found[tp].replicas, found[tp].leader)
        wanted = {
            State.DONE: (track.planned.target, track.planned.target[0]),
            State.ROLLED_BACK: (track.original, track.led),
            State.STOPPED: (track.replicas if track.begun else track.original, has[1]),
        }.get(track.state)
        if not leaders and wanted is not None:
            wanted = (wanted[0], has[1])
        last_is_back = track.cancel is CancelKind.ROLLBACK and track.begun
        if tp in listed or has != wanted or (last_is_back and track.state is not State.ROLLED_BACK):
            wrong.append(f"{tp}: {has}, {track.state} ({track.reason}), asked {track.cancel}")
    return wrong
