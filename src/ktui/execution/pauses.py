"""Who has paused what of a run."""

from __future__ import annotations

from ktui.cluster.partition import TopicPartition
from ktui.execution.events import By, Continued, Paused

_WHO = {
    By.OPERATOR: "the operator",
    By.SIGNAL: "an interrupt (Ctrl-C)",
    By.UNTIL: "the time given with --until",
    By.FAILURE: "a failure",
    By.RECOVERY: "the recovery of a damaged journal",
}


class Pauses:
    """The pauses in force: of the whole run, by whom and why, and of topics and partitions."""

    def __init__(self) -> None:
        self.whole: dict[By, str] = {}
        self.topics: set[str] = set()
        self.partitions: set[TopicPartition] = set()

    @property
    def reason(self) -> str | None:
        """Say why nothing of the run is submitted; None where it goes on."""
        return "; ".join(why or f"by {_WHO[by]}" for by, why in self.whole.items()) or None

    def holds(self, tp: TopicPartition) -> bool:
        """Whether a partition is paused by itself or with its topic."""
        return tp in self.partitions or tp.topic in self.topics

    def apply(self, event: Paused | Continued) -> None:
        """Take in a pause, or the end of one.

        A continue without topics and partitions ends the pauses of its kind; an operator's ends
        all there are.
        """
        if isinstance(event, Paused):
            self._pause(event)
        elif event.topics or event.partitions:
            self.topics -= set(event.topics)
            lifted = (tp for tp in self.partitions if tp.topic in event.topics)
            self.partitions -= {*event.partitions, *lifted}
        elif event.by is By.OPERATOR:
            self.whole.clear()
            self.topics.clear()
            self.partitions.clear()
        else:
            self.whole.pop(event.by, None)

    def _pause(self, event: Paused) -> None:
        if event.topics or event.partitions:
            self.topics |= set(event.topics)
            self.partitions |= set(event.partitions)
        else:
            self.whole[event.by] = event.reason
