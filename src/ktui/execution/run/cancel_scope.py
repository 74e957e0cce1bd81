"""Which partitions of a run an operator's cancel concerns, and what it means for each."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.track import Track


class CancelEffect(enum.StrEnum):
    """What a cancel does to a partition."""

    CANCEL = "cancel"
    """Its step in flight is cancelled; what comes then depends on the kind."""
    DEQUEUE = "dequeue"
    """Nothing is sent, and nothing will be."""
    GO_BACK = "go back"
    """It goes back to its original replicas, step by step."""
    TRIM = "trim"
    """What is beyond its original number of replicas is dropped."""
    ALREADY = "already"
    """It has been asked to do this, and is not at its end."""
    NOTHING = "nothing"
    """It has ended."""

    @property
    def idle(self) -> bool:
        """Whether asking changes nothing."""
        return self in {CancelEffect.ALREADY, CancelEffect.NOTHING}


_OUT_OF_HAND = frozenset({State.CHANGED_ELSEWHERE, State.TOPIC_GONE, State.ROLLED_BACK})


def in_scope(
    run: Run, topics: Iterable[str] = (), partitions: Iterable[TopicPartition] = ()
) -> list[Track]:
    """Give the partitions of some topics, and some others; with none named all of the run."""
    named, some = frozenset(topics), frozenset(partitions)
    tracks = run.tracks.values()
    if not named and not some:
        return list(tracks)
    return [track for track in tracks if track.tp in some or track.tp.topic in named]


def act_on(track: Track, kind: CancelKind) -> CancelEffect:
    """Tell what a cancel of a kind does to a partition as it stands."""
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


def acts_in_words(acts: Iterable[CancelEffect]) -> str:
    """Say of how many partitions each is done: "3 in flight are cancelled, 12 go no further"."""
    counts = Counter(acts)
    told = (_words(words, counts[act]) for act, words in _WORDS.items() if counts[act])
    return ", ".join(told) or "nothing"


def _words(words: str, count: int) -> str:
    is_, go = ("is", "goes") if count == 1 else ("are", "go")
    return words.format(f"{count:,}", is_=is_, go=go)


_WORDS = {
    CancelEffect.CANCEL: "{} in flight {is_} cancelled",
    CancelEffect.GO_BACK: "{} {go} back",
    CancelEffect.TRIM: "{} {is_} trimmed",
    CancelEffect.DEQUEUE: "{} {go} no further",
    CancelEffect.ALREADY: "{} {is_} called off already",
    CancelEffect.NOTHING: "{} {is_} over already",
}
