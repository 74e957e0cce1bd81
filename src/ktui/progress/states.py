"""The single word for a partition's state, in rows and in JSON."""

from __future__ import annotations

from collections.abc import Container

from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Phase, Timeline

FOREIGN = "foreign"


def state_word(timeline: Timeline, ours: Container[TopicPartition] | None) -> str:
    """Return the state's word: `stalled` first, then `foreign`, else the phase's own word.

    Args:
        timeline: the partition.
        ours: the partitions that a run of this program moves. None while no run is shown: nothing
            is foreign then. A settled partition outside the run is not foreign either.
    """
    if timeline.phase is Phase.STALLED:
        return Phase.STALLED.value
    if ours is not None and timeline.phase is not Phase.SETTLED and timeline.tp not in ours:
        return FOREIGN
    return timeline.phase.value
