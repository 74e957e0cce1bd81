"""Requests whose answers never came: each may take effect for a while yet, or once more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from ktui.cluster.partition import TopicPartition
from ktui.execution.run import Run
from ktui.execution.track import Track

Whose = TypeVar("Whose")

MAY_COME_S = 60.0
"""A broker keeps a change for so long while it finds no controller, and sends it anew where its
connection to the controller breaks (BrokerServer's forwarding to the controllers)."""


class Unanswered(Generic[Whose]):
    """Whose last change may be on its way still: partitions' alters and cancels, or settings.

    Nothing that differs is sent for them meanwhile: what is late would meet it, for Kafka
    has no fencing: the replicas from before would be forgotten, or a step be cancelled that was
    not meant, or a throttle be set anew that was taken off. What is on its way counts from the
    first look after it was sent, not from when it was sent: a look goes by way of the controller,
    so that none succeeds while there is none; and wall clocks, which would tell the second after a
    resume, may jump. A process that resumes a run counts anew.

    Elections are not kept in mind. One that comes late elects whoever is preferred then, as
    auto.leader.rebalance.enable does at any time.

    Args:
        left_open: those that the journal leaves open; a process before has sent them.
    """

    def __init__(self, left_open: Iterable[Whose]) -> None:
        self._since: dict[Whose, float | None] = dict.fromkeys(left_open)
        """The monotonic second of the first look; None until there is one."""

    def add(self, whose: Whose) -> None:
        """Take note that a request was sent, and not answered."""
        self._since[whose] = None

    def look(self, now_s: float) -> None:
        """Take note of a look, and forget what cannot come any more."""
        counted = {who: now_s if at is None else at for who, at in self._since.items()}
        self._since = {who: at for who, at in counted.items() if now_s - at < MAY_COME_S}

    def __iter__(self) -> Iterator[Whose]:
        """Give all those of which something may come yet."""
        return iter(self._since)

    def __contains__(self, whose: Whose) -> bool:
        """Whether something that was sent may come yet."""
        return whose in self._since


def left_open(run: Run) -> Iterable[TopicPartition]:
    """Give the partitions whose alter or cancel may not have been answered, by the journal."""
    tracks = {**run.flying, **run.called_off}
    return [tp for tp, track in tracks.items() if _open(track)]


def _open(track: Track) -> bool:
    cancelling = track.step is not None and track.step.open_cancels > 0
    return track.open_alter or cancelling
