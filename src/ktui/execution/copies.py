"""What a run copies: the bytes of every replica that it adds, as of its start."""

from __future__ import annotations

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.events import Brokers, Planned
from ktui.execution.states import State


class Copies(msgspec.Struct):
    """Adds up what is to be copied and what has been: finished steps count, no others."""

    whole: int = 0
    """Bytes. Of a partition that is given up, what the run has copied of it."""
    done: int = 0
    of: dict[TopicPartition, tuple[int, int]] = {}
    """Done and whole of each partition."""

    def count(self, planned: Planned, original: Brokers, now: Brokers, state: State) -> None:
        """Take in where a partition stands.

        Args:
            planned: what is to become of it.
            original: its replicas before its first step.
            now: those that its finished steps have left it with.
            state: where it stands.
        """
        done, whole = self.of.get(planned.tp, (0, 0))
        self.done, self.whole = self.done - done, self.whole - whole
        if state is State.DONE or not state.ended:
            added = [broker for broker in planned.target if broker not in original]
            there = [broker for broker in added if state is State.DONE or broker in now]
            done, whole = len(there) * planned.size, len(added) * planned.size
        else:
            whole = done
        self.of[planned.tp] = done, whole
        self.done, self.whole = self.done + done, self.whole + whole
