"""Requests whose answers never came: each may take effect for a while yet, or once more."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Generic, TypeVar

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.run import Run
from ktui.execution.run.track import Track

Whose = TypeVar("Whose")

MAY_COME_S = 60.0
"""A broker keeps a change for so long while it finds no controller, and sends it anew where its
connection to the controller breaks (BrokerServer's forwarding to the controllers)."""

SILENT_S = 30.0
"""A partition keeps its place for so long while the broker is silent that has its request."""

GIVEN_UP_S = 600.0
"""A run does not wait longer than this for a silent broker before it ends; it names the request."""

LastHeard = Callable[[int], float]
"""When a broker was asked the last question that it has answered, in monotonic seconds."""


def always_heard(_broker: int) -> float:
    """Take every broker for one that answers: where nobody can ask it."""
    return math.inf


class _Open(msgspec.Struct):
    node: int | None
    """The broker that has the request; None where that is not known."""
    seen_s: float | None = None
    """When the first look after it was."""
    counts_s: float | None = None
    """From when on it can be waited out."""


class Unanswered(Generic[Whose]):
    """Whose last change may be on its way still: partitions' alters and cancels, or settings.

    Nothing that differs is sent for them meanwhile: what is late would meet it, for Kafka
    has no fencing: the replicas from before would be forgotten, or a step be cancelled that was
    not meant, or a throttle be set anew that was taken off. A broker that is suspended, or cut
    off, may read the request however late. So the wait begins when that broker has answered a
    later question, and where the broker is not known, with the first look after the request: a
    look goes by way of the controller, so that none succeeds while there is none. Wall clocks may
    jump, so a process that resumes a run counts anew.

    Elections are not kept in mind. One that comes late elects whoever is preferred then, as
    auto.leader.rebalance.enable does at any time.

    Args:
        left_open: those that the journal leaves open, each with the brokers that are known to
            have a request; a process before has sent them.
        heard: tells which brokers answer.
    """

    def __init__(
        self, left_open: Mapping[Whose, Collection[int]], heard: LastHeard = always_heard
    ) -> None:
        self._open = {
            whose: [_Open(node) for node in (*nodes,) or (None,)]
            for whose, nodes in left_open.items()
        }
        self._heard = heard

    def add(self, whose: Whose, node: int | None = None) -> None:
        """Take note that a request was sent to a broker, and not answered."""
        self._open.setdefault(whose, []).append(_Open(node))

    def look(self, now_s: float) -> None:
        """Take note of a look, and forget what cannot come any more."""
        for request in self._requests():
            if request.seen_s is None:
                request.seen_s = now_s
            silent = request.node is not None and self._heard(request.node) < request.seen_s
            if request.counts_s is None and not silent:
                request.counts_s = now_s
        coming = {
            whose: [request for request in requests if not _past(request, now_s)]
            for whose, requests in self._open.items()
        }
        self._open = {whose: requests for whose, requests in coming.items() if requests}

    @property
    def silent(self) -> set[int]:
        """The brokers that have answered nothing since they got a request."""
        return {node for request in self._requests() if (node := _silent(request)) is not None}

    def node(self, whose: Whose) -> int | None:
        """Return a silent broker that has a request of this one; None where none is known."""
        silent = map(_silent, self._open.get(whose, ()))
        return next((node for node in silent if node is not None), None)

    def silent_for(self, whose: Whose, now_s: float) -> float:
        """Return for how many seconds a broker that has a request has been silent; 0 for none."""
        since_s = (
            request.seen_s
            for request in self._open.get(whose, ())
            if _silent(request) is not None and request.seen_s is not None
        )
        return max((now_s - each for each in since_s), default=0.0)

    def _requests(self) -> Iterator[_Open]:
        return (request for requests in self._open.values() for request in requests)

    def __iter__(self) -> Iterator[Whose]:
        """Give all those of which something may come yet."""
        return iter(self._open)

    def __contains__(self, whose: Whose) -> bool:
        """Whether something that was sent may come yet."""
        return whose in self._open


def _silent(request: _Open) -> int | None:
    return request.node if request.counts_s is None else None


def _past(request: _Open, now_s: float) -> bool:
    return request.counts_s is not None and now_s - request.counts_s >= MAY_COME_S


def left_open(run: Run) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the partitions whose alter or cancel may not have been answered, by the journal."""
    return {tp: track.open_nodes for tp, track in run.tracks.items() if _open(track)}


def waits_in_words(node: int | None) -> str:
    """Return why a partition waits that has an open request, in words."""
    if node is None:
        return "its last request was not answered: it waits until that cannot take effect any more"
    return (
        f"its last request went to broker {node}, which has answered nothing since; the request "
        "may still take effect. If that broker is gone, stop the partition: ktui cancel RUN --stop"
    )


def _open(track: Track) -> bool:
    return track.open_alter or track.open_cancel
