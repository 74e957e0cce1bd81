"""Which topics and partitions of a run a verb is about."""

from __future__ import annotations

from collections.abc import Sequence

from ktui.cli.errors import BadInput
from ktui.cluster.partition import TopicPartition
from ktui.execution.run import Run
from ktui.planning.names import among, nearest, shown


def check_scope(run: Run, topics: Sequence[str], partitions: Sequence[TopicPartition]) -> None:
    """See that a run has all of these.

    Raises:
        BadInput: it has not; names every one that is missing, with what was probably meant.
    """
    known = {tp.topic for tp in run.tracks}
    unknown = dict.fromkeys([*topics, *(tp.topic for tp in partitions)])
    missing = [_unknown_topic(topic, known) for topic in unknown if topic not in known]
    missing += [
        f"partition {tp.partition} of topic {tp.topic}"
        for tp in dict.fromkeys(partitions)
        if tp.topic in known and tp not in run.tracks
    ]
    if missing:
        raise BadInput(f"run {run.name} does not have {among(missing, told=10)}")


def _unknown_topic(topic: str, known: set[str]) -> str:
    near = nearest(topic, known)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"topic {shown(topic)!r}{hint}"
