"""The pauses of a run: their scope and their origin."""

from __future__ import annotations

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.events import CancelAsked, Continued, Paused, PauseOrigin


class Pauses(msgspec.Struct):
    """The pauses in force: of the whole run with origin and reason, of topics and partitions."""

    whole: dict[PauseOrigin, str] = {}
    topics: set[str] = set()
    partitions: set[TopicPartition] = set()
    freed: set[TopicPartition] = set()
    """Partitions cancelled since the last pause: an operator who rolls back means now."""

    @property
    def reason(self) -> str | None:
        """Why the whole run is paused; None if it is not."""
        return "; ".join(why or _unexplained(by) for by, why in self.whole.items()) or None

    def holds(self, tp: TopicPartition) -> bool:
        """Whether a partition is paused by itself or with its topic."""
        return tp not in self.freed and self._paused(tp)

    def stops(self, tp: TopicPartition) -> bool:
        """Whether any pause, also one of the whole run, stops requests for a partition."""
        return self.holds(tp) or (bool(self.whole) and tp not in self.freed)

    def apply(self, event: Paused | Continued | CancelAsked) -> None:
        """Apply a pause, the end of one, or a cancel that frees partitions from all pauses.

        A continue without topics and partitions ends the pause of its origin. That of an operator
        ends every pause.
        """
        if isinstance(event, Paused):
            self._pause(event)
        elif isinstance(event, CancelAsked):
            self.freed.update(event.partitions)
        elif event.topics or event.partitions:
            self.topics -= set(event.topics)
            lifted = (tp for tp in self.partitions if tp.topic in event.topics)
            self.partitions -= {*event.partitions, *lifted}
        elif event.by is PauseOrigin.OPERATOR:
            self.whole.clear()
            self.topics.clear()
            self.partitions.clear()
        else:
            self.whole.pop(event.by, None)

    def _pause(self, event: Paused) -> None:
        if event.topics or event.partitions:
            self.topics |= set(event.topics)
            self.partitions |= set(event.partitions)
            self.freed = {tp for tp in self.freed if not self._paused(tp)}
        else:
            self.whole[event.by] = event.reason
            self.freed.clear()

    def _paused(self, tp: TopicPartition) -> bool:
        return tp in self.partitions or tp.topic in self.topics


def _unexplained(by: PauseOrigin) -> str:
    return "by the operator" if by is PauseOrigin.OPERATOR else f"by {by.words}"
