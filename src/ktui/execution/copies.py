"""What a run copies: the bytes of every replica that it adds, as of its start, and where to."""

from __future__ import annotations

from collections import Counter

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.events import Brokers, Planned
from ktui.execution.states import State


class _Copy(msgspec.Struct, frozen=True, gc=False):
    done: int = 0
    whole: int = 0
    missing: Brokers = ()


_NOTHING = _Copy()


class Copies(msgspec.Struct):
    """Adds up what is to be copied and what has been: finished steps count, no others."""

    whole: int = 0
    """Bytes. Of a partition that is given up, what the run has copied of it."""
    done: int = 0
    onto: Counter[int] = msgspec.field(default_factory=Counter)
    """How many replicas each broker is still to get, or is getting."""
    topics: Counter[str] = msgspec.field(default_factory=Counter)
    """How many partitions of each topic still get replicas."""
    of: dict[TopicPartition, _Copy] = {}

    def count(self, planned: Planned, original: Brokers, now: Brokers, state: State) -> None:
        """Take in where a partition stands.

        Args:
            planned: what is to become of it.
            original: its replicas before its first step.
            now: those that its finished steps have left it with.
            state: where it stands.
        """
        before = self.of.get(planned.tp, _NOTHING)
        if state is State.DONE or not state.ended:
            added = [broker for broker in planned.target if broker not in original]
            missing = tuple(b for b in added if state is not State.DONE and b not in now)
            done = (len(added) - len(missing)) * planned.size
            copy = _Copy(done, len(added) * planned.size, missing)
        else:
            copy = _Copy(before.done, before.done)
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
