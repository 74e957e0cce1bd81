"""Partitions of extra plans, queued by pacing as a process that takes a run up queues its own."""

from __future__ import annotations

from collections.abc import Iterable

from ktui.cluster.partition import TopicPartition
from ktui.execution.events import Event
from ktui.execution.look import Look
from ktui.execution.memory import Memory
from ktui.execution.taking_up import as_left
from ktui.execution.track import Track


def join(partitions: Iterable[TopicPartition], memory: Memory, look: Look | None) -> list[Event]:
    """Queue partitions that nothing is in flight of; those not seen yet with nothing to do.

    Args:
        partitions: as the run has been told of them.
        memory: where each stands.
        look: the last one, if there was one.

    Returns:
        Where those stand that it shows.
    """
    tracks = [memory.run.tracks[tp] for tp in partitions]
    for track in tracks:
        memory.let_go(track.tp)
    memory.roster.add(map(as_left, tracks))
    return (
        [] if look is None else [event for track in tracks for event in _seen(track, memory, look)]
    )


def _seen(track: Track, memory: Memory, look: Look) -> list[Event]:
    state = look.state(track.tp)
    situation = None if state is None else look.situation(track, state)
    return [] if situation is None else memory.taken_note(track, situation)
