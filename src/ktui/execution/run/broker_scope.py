"""The partitions of a run that have to do with a broker."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.run import Run
from ktui.execution.run.track import Track


def partitions_on(
    run: Run, brokers: Collection[int], *, ever: bool = False
) -> tuple[TopicPartition, ...]:
    """Return the partitions that hold, gain or lose a replica on one of these brokers.

    Args:
        run: the run, whose journal says what each partition has.
        brokers: the brokers.
        ever: whether partitions count, too, that had such a replica before the run, or that a plan
            was to give one. A pause is lifted so, however far they have come meanwhile.
    """
    wanted = frozenset(brokers)
    return tuple(
        tp for tp, track in run.tracks.items() if not wanted.isdisjoint(_brokers(track, ever=ever))
    )


def _brokers(track: Track, *, ever: bool) -> Iterator[int]:
    yield from track.replicas
    if track.step is not None:
        yield from track.step.begun.before
        yield from track.step.begun.replicas
    if not track.state.ended:
        yield from _wanted(track)
    if ever:
        yield from (*track.original, *track.planned.target, *track.target, *track.intermediate)


def _wanted(track: Track) -> Iterator[int]:
    """Yield the brokers of the replicas that a partition is heading for, in any step."""
    if track.cancel is None:
        yield from (*track.planned.target, *track.target)
    elif track.cancel is CancelKind.ROLLBACK:
        yield from track.original
