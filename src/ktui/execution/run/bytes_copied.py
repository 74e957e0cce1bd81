"""The bytes that a run copies, by sizes as of its start, and the brokers that receive them."""

from __future__ import annotations

from collections import Counter

import msgspec

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.states import State
from ktui.execution.run.track import Track


class _Copy(msgspec.Struct, frozen=True, gc=False):
    done: int = 0
    whole: int = 0
    missing: Brokers = ()
    turned: Brokers = ()
    """The goal in place of the first target; empty while the first target holds."""

    def towards(self, goal: Brokers, now: Brokers, size: int) -> _Copy:
        """Return the copy after a change of goal.

        The bytes that the new goal needs come on top of those copied so far.
        """
        missing = tuple(broker for broker in goal if broker not in now)
        left = len(missing) * size
        whole = self.whole if self.turned == goal else self.done + left
        return _Copy(whole - left, whole, missing, goal)


_NOTHING = _Copy()


class CopyTotals(msgspec.Struct):
    """Bytes to copy and bytes copied, in total; only finished steps count as copied."""

    whole: int = 0
    """Bytes to copy. A partition that is given up counts with what the run has copied of it."""
    done: int = 0
    """Bytes copied."""
    onto: Counter[int] = msgspec.field(default_factory=Counter)
    """How many replicas each broker has yet to receive in full."""
    topics: Counter[str] = msgspec.field(default_factory=Counter)
    """How many partitions of each topic still receive replicas."""
    of: dict[TopicPartition, _Copy] = {}

    def count(self, track: Track) -> None:
        """Recount a partition after a change of its state.

        A cancelled partition counts with the bytes copied so far. The bytes that it needs to go
        back to its original replicas, or on to an extra plan's target, come on top.
        """
        planned, now = track.planned, track.replicas
        before = self.of.get(planned.tp, _NOTHING)
        if track.cancel is CancelKind.ROLLBACK and not track.state.ended:
            copy = before.towards(track.original, now, planned.size)
        elif track.cancel is not None or (track.state.ended and track.state is not State.DONE):
            copy = _Copy(before.done, before.done)
        elif track.turned:
            copy = before.towards(planned.target, now, planned.size)
        else:
            added = [broker for broker in planned.target if broker not in track.original]
            missing = tuple(b for b in added if track.state is not State.DONE and b not in now)
            done = (len(added) - len(missing)) * planned.size
            copy = _Copy(done, len(added) * planned.size, missing)
        self.of[planned.tp] = copy
        self._tally(before, -1, planned.topic)
        self._tally(copy, 1, planned.topic)

    def _tally(self, copy: _Copy, sign: int, topic: str) -> None:
        self.done += sign * copy.done
        self.whole += sign * copy.whole
        for broker in copy.missing:
            self.onto[broker] += sign
        if copy.missing:
            self.topics[topic] += sign
