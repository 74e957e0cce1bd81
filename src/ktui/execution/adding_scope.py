"""What an extra plan means for each of its partitions, by how the run stands with it."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable

from ktui.execution.add_events import OnConflict
from ktui.execution.events import Brokers
from ktui.execution.states import State
from ktui.execution.track import Track


class Joining(enum.StrEnum):
    """What becomes of a partition of an extra plan."""

    NEW = "new"
    """The run does not have it: it joins the queue."""
    AGAIN = "again"
    """It has ended in the run: it is queued again, with the new target."""
    INSTEAD = "instead"
    """It waits to begin: for the new target from now on."""
    ROLL_BACK = "roll back"
    """It is rolled back, then queued with the new target."""
    RETARGET = "retarget"
    """What is in flight is cancelled, then it goes on to the new target from where it is."""
    KEEP = "keep"
    """It goes on to the run's own target."""
    SAME = "same"
    """The run has it at that target, or on its way there."""

    @property
    def joins(self) -> bool:
        """Whether the run takes the new target on."""
        return self not in (Joining.KEEP, Joining.SAME)


def joining(track: Track | None, target: Brokers, on_conflict: OnConflict) -> Joining:
    """Tell what becomes of a partition.

    Args:
        track: the partition as the run has it; None where it does not have it.
        target: what the extra plan wants.
        on_conflict: what is to become of one that is on its way elsewhere.
    """
    if track is None:
        return Joining.NEW
    if _wanted(track) == target:
        return Joining.SAME
    if track.state.ended and track.then is None:
        return Joining.AGAIN
    if on_conflict is OnConflict.KEEP:
        return Joining.KEEP
    if not track.begun:
        return Joining.INSTEAD
    return Joining.ROLL_BACK if on_conflict is OnConflict.ROLLBACK else Joining.RETARGET


def _wanted(track: Track) -> Brokers | None:
    """Give where the run has a partition, or carries it in the end; None for nowhere."""
    given_up = track.cancel is not None or (track.state.ended and track.state is not State.DONE)
    return None if given_up and track.then is None else track.target


def joinings_in_words(joinings: Iterable[Joining]) -> str:
    """Say of how many partitions each is true: "3 join the queue, 2 are rolled back first"."""
    counts = Counter(joinings)
    told = (_words(words, counts[each]) for each, words in _WORDS.items() if counts[each])
    return ", ".join(told)


def _words(words: str, count: int) -> str:
    is_, go, s = ("is", "goes", "s") if count == 1 else ("are", "go", "")
    return words.format(f"{count:,}", is_=is_, go=go, s=s)


_WORDS = {
    Joining.NEW: "{} join{s} the queue",
    Joining.AGAIN: "{} that had ended {is_} queued again",
    Joining.INSTEAD: "{} that waited {go} to the new target instead",
    Joining.ROLL_BACK: "{} {is_} rolled back first, then queued",
    Joining.RETARGET: "{} {is_} cancelled, then {go} on to the new target from there",
    Joining.KEEP: "{} keep{s} the run's own target",
    Joining.SAME: "{} {is_} at that target or on the way there already",
}
