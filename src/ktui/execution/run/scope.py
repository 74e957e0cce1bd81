"""The partitions of a run that a cancel or a broker concerns."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeVar

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.track import Track

T = TypeVar("T")

_OUT_OF_HAND = frozenset({State.CHANGED_ELSEWHERE, State.TOPIC_GONE, State.ROLLED_BACK})


class CancelEffect(enum.StrEnum):
    """The effect of a cancel on a partition."""

    CANCEL = "cancel"  # its step in flight; the next action depends on the kind
    DEQUEUE = "dequeue"  # it leaves the queue; no request is ever sent for it
    GO_BACK = "go back"  # the partition goes back to its original replicas, step by step
    TRIM = "trim"  # the replicas beyond its original number are dropped
    ALREADY = "already"  # asked for before, and not ended
    NOTHING = "nothing"  # the partition has ended

    @property
    def idle(self) -> bool:
        return self in {CancelEffect.ALREADY, CancelEffect.NOTHING}

    @property
    def needs_read(self) -> bool:
        return self not in {CancelEffect.DEQUEUE, CancelEffect.NOTHING}


_UNDONE = (CancelEffect.CANCEL, CancelEffect.GO_BACK)
_HALTED = "halted"  # begun, between two steps, leaves the queue: it keeps the steps that are done
_TEXTS: Mapping[str, str] = {
    CancelEffect.CANCEL: "{} in flight {is_} cancelled",
    CancelEffect.GO_BACK: "{} {is_} rolled back",
    CancelEffect.TRIM: "{} {is_} trimmed",
    CancelEffect.DEQUEUE: "{} will not start",
    _HALTED: "{} will not continue",
    CancelEffect.ALREADY: "{} already cancelled",
    CancelEffect.NOTHING: "{} already ended",
}


class CancelScope:
    """The partitions that a cancel covers (with no name, the whole run), and its effect on each."""

    def __init__(
        self,
        run: Run,
        kind: CancelKind,
        topics: Iterable[str] = (),
        partitions: Iterable[TopicPartition] = (),
    ) -> None:
        self.run, self.kind = run, kind
        self.effects = {
            track.tp: effect_of_cancel(track, kind)
            for track in tracks_in_scope(run, topics, partitions)
        }

    @property
    def over(self) -> bool:
        return all(effect is CancelEffect.NOTHING for effect in self.effects.values())

    @property
    def idle(self) -> bool:
        return all(effect.idle for effect in self.effects.values())

    @property
    def words(self) -> str:
        """The number of partitions by effect: "3 in flight are cancelled, 12 will not start"."""
        effects = (
            _HALTED if effect is CancelEffect.DEQUEUE and self.run.tracks[tp].begun else effect
            for tp, effect in self.effects.items()
        )
        return count_text(effects, _TEXTS) or "nothing"

    @property
    def to_copy(self) -> int:
        """Bytes that a rollback copies again, by the sizes of the plan; 0 for the other kinds."""
        if self.kind is not CancelKind.ROLLBACK:
            return 0
        return sum(
            track.planned.size * len(set(track.original) - set(track.replicas))
            for tp, effect in self.effects.items()
            if effect in _UNDONE and (track := self.run.tracks[tp]).begun
        )

    @property
    def undone(self) -> int:
        effects = self.effects.values() if self.kind is CancelKind.ROLLBACK else ()
        return sum(effect in _UNDONE for effect in effects)

    def update(self, touched: Collection[TopicPartition]) -> None:
        for tp in self.effects.keys() & set(touched):
            self.effects[tp] = effect_of_cancel(self.run.tracks[tp], self.kind)


def tracks_in_scope(
    run: Run, topics: Iterable[str] = (), partitions: Iterable[TopicPartition] = ()
) -> list[Track]:
    """Return the named partitions and those of the named topics; with no name, the whole run."""
    topic_names, tps = frozenset(topics), frozenset(partitions)
    tracks = run.tracks.values()
    if not topic_names and not tps:
        return list(tracks)
    return [track for track in tracks if track.tp in tps or track.tp.topic in topic_names]


def effect_of_cancel(track: Track, kind: CancelKind) -> CancelEffect:
    """Return the effect of a cancel on a partition in its present state."""
    if track.state in _OUT_OF_HAND:
        return CancelEffect.NOTHING
    if track.cancel is kind and not track.state.ended and track.then is None:
        return CancelEffect.ALREADY
    if track.step is not None:
        return CancelEffect.CANCEL
    if track.begun and kind is CancelKind.ROLLBACK:
        return CancelEffect.GO_BACK
    has_more = track.begun and len(track.replicas) > len(track.original)
    if has_more and kind is CancelKind.TRIM and track.state is not State.DONE:
        return CancelEffect.TRIM
    return CancelEffect.NOTHING if track.state.ended else CancelEffect.DEQUEUE


def count_text(items: Iterable[T], templates: Mapping[T, str]) -> str:
    """Count items by kind; `{}`, `{is_}`, `{go}` and `{s}` in templates agree with the count."""
    counts = Counter(items)
    return ", ".join(
        _agreeing(template, counts[kind]) for kind, template in templates.items() if counts[kind]
    )


def _agreeing(template: str, count: int) -> str:
    is_, go, s = ("is", "goes", "s") if count == 1 else ("are", "go", "")
    return template.format(f"{count:,}", is_=is_, go=go, s=s)


def partitions_on(
    run: Run, brokers: Collection[int], *, ever: bool = False
) -> tuple[TopicPartition, ...]:
    """Return what has, gains or loses a replica there; `ever`: also before, or in a plan."""
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
    if track.cancel is None:
        yield from (*track.planned.target, *track.target)
    elif track.cancel is CancelKind.ROLLBACK:
        yield from track.original
