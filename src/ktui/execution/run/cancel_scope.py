"""The partitions of a run that a cancel concerns, and its effect on each."""

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
    """The effect of a cancel on a partition."""

    CANCEL = "cancel"
    """Its step in flight is cancelled; the next action depends on the kind."""
    DEQUEUE = "dequeue"
    """The partition leaves the queue; no request is ever sent for it."""
    GO_BACK = "go back"
    """The partition goes back to its original replicas, step by step."""
    TRIM = "trim"
    """The replicas beyond its original number are dropped."""
    ALREADY = "already"
    """The same cancel was asked for before, and has not ended."""
    NOTHING = "nothing"
    """The partition has ended."""

    @property
    def idle(self) -> bool:
        """Whether the cancel would change nothing."""
        return self in {CancelEffect.ALREADY, CancelEffect.NOTHING}


_OUT_OF_HAND = frozenset({State.CHANGED_ELSEWHERE, State.TOPIC_GONE, State.ROLLED_BACK})


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


def effects_text(acts: Iterable[CancelEffect]) -> str:
    """Count partitions by effect, as text: "3 in flight are cancelled, 12 go no further"."""
    counts = Counter(acts)
    texts = (_text(template, counts[act]) for act, template in _TEXTS.items() if counts[act])
    return ", ".join(texts) or "nothing"


def _text(template: str, count: int) -> str:
    is_, go = ("is", "goes") if count == 1 else ("are", "go")
    return template.format(f"{count:,}", is_=is_, go=go)


_TEXTS = {
    CancelEffect.CANCEL: "{} in flight {is_} cancelled",
    CancelEffect.GO_BACK: "{} {go} back",
    CancelEffect.TRIM: "{} {is_} trimmed",
    CancelEffect.DEQUEUE: "{} {go} no further",
    CancelEffect.ALREADY: "{} {is_} cancelled already",
    CancelEffect.NOTHING: "{} {is_} over already",
}
