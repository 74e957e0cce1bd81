"""The situation of a run's partition as pacing expects it if all goes well."""

from __future__ import annotations

import msgspec

from ktui.cluster.partition import Brokers
from ktui.execution.run.track import OpenStep, Track, find_goal
from ktui.pacing.situation import Situation


def expected_situation(track: Track) -> Situation:
    """Return a partition's situation after its step in flight, if there is one."""
    replicas, leader = track.replicas, track.planned.leader
    if track.step is not None and not track.step.cancelled_by_operator:
        begun = track.step.begun
        replicas, leader = begun.replicas, begun.leader if begun.elect is None else begun.elect
    elif track.sent is not None:  # a step is over, and the first replica may have been elected
        leader = _first(replicas)
    return _healthy(track, replicas, leader)


def situation_before(track: Track, step: OpenStep) -> Situation:
    """Return a partition's situation before its step in flight."""
    now = _healthy(track, step.begun.before, step.begun.leader)
    online = now.online.union(step.begun.replicas)
    return msgspec.structs.replace(now, online=online)


def _healthy(track: Track, replicas: Brokers, leader: int | None) -> Situation:
    leader = leader if leader in replicas else _first(replicas)
    goes_to = find_goal(track, replicas, replicas, leader)
    return Situation(
        replicas=replicas,
        isr=replicas,
        leader=leader,
        target=goes_to.replicas,
        lead=goes_to.lead,
        online=frozenset((*replicas, *goes_to.replicas)),
    )


def _first(replicas: Brokers) -> int | None:
    """Return the preferred leader; None where a journal has a partition without replicas."""
    return replicas[0] if replicas else None
