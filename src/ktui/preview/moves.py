"""The partitions of a plan that are not at their target, and the bytes to move."""

from __future__ import annotations

from collections import Counter, defaultdict

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.pacing.decision import WantedPartition
from ktui.pacing.long_first import put_long_first
from ktui.pacing.situation import Situation
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.check.rules import at_target
from ktui.planning.plan import Plan
from ktui.preview.step_cost import Pattern, healthy_situation, pattern_of
from ktui.preview.steps import situations


class Moves(msgspec.Struct):
    """The partitions and bytes to move, whatever the limits."""

    wanted: list[WantedPartition]
    """The partitions to move, assumed online and in sync."""
    patterns: defaultdict[Pattern, list[int]]
    """Indexes into `wanted`, by the pattern that decides the steps."""
    bytes_in: Counter[int]
    bytes_out: Counter[int]
    unknown: Counter[int]
    """By broker, the replicas gained or lost of partitions with unknown size."""
    sizes_unknown: int = 0
    bytes_to_copy: int = 0


def moves_of(plan: Plan, snapshot: ClusterSnapshot) -> Moves:
    """Collect the moves of a plan; a partition counts with the size of its leader's log."""
    moved = Moves([], defaultdict(list), Counter(), Counter(), Counter())
    for known in situations(plan, snapshot):
        now, state = known.situation, known.state
        if now is not None and state is not None and not at_target(known.target, state):
            _count(moved, state.tp, now, snapshot.size(state.tp))
    moved.wanted = put_long_first(moved.wanted)
    return moved


def _count(moved: Moves, tp: TopicPartition, now: Situation, size: int | None) -> None:
    pattern, brokers = pattern_of(now)
    moved.patterns[pattern].append(len(moved.wanted))
    moved.wanted.append(
        WantedPartition(tp, healthy_situation(now), size or 0, sized=size is not None)
    )
    adds, drops = brokers[len(now.replicas) :], now.excess
    if size is None:
        moved.unknown.update((*adds, *drops))
        moved.sizes_unknown += bool(adds)
        return
    moved.bytes_to_copy += size * len(adds)
    for broker in adds:
        moved.bytes_in[broker] += size
    for broker in drops:
        moved.bytes_out[broker] += size
