"""Requests whose answers never came: each may still take effect for a while, or once more."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import Generic, TypeVar

import msgspec

from ktui.cluster.errors import ClusterError, KafkaError, NotAuthorized
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict, WriteResult, unread_answer
from ktui.execution.run.run import Run
from ktui.execution.run.track import Track
from ktui.progress.timeline import Phase, Progress, Timeline

Whose = TypeVar("Whose")

MAY_COME_S = 60.0
"""How long a broker keeps a change while it finds no controller, in seconds.

It sends the change again if its connection to the controller breaks (BrokerServer's forwarding to
the controllers)."""

SILENT_S = 30.0  # a partition keeps its place while the broker with its request is silent

GIVEN_UP_S = 600.0  # seconds until a run ends although a broker is silent; it names the request

UNANSWERED = WriteResult(Verdict.UNKNOWN, message="Kafka's answer left it out")

log = logging.getLogger(__name__)

LastHeard = Callable[[int], float]  # of a broker's last answered question, monotonic


def always_heard(_broker: int) -> float:
    """Return infinity: a broker counts as answering where nothing can ask it."""
    return math.inf


async def outcomes(
    of: Collection[Whose], sending: Awaitable[Mapping[Whose, WriteResult]]
) -> dict[Whose, WriteResult]:
    """Send a request, and return what came of it for each partition or setting of it.

    A request that could not be sent at all is REFUSED without a code. What its answer does not
    show is UNKNOWN.
    """
    try:
        results = await sending
    except NotAuthorized as error:
        denied = KafkaError.CLUSTER_AUTHORIZATION_FAILED
        result = WriteResult(Verdict.REFUSED, denied, str(error), needs=error.needs)
        return dict.fromkeys(of, result)
    except ClusterError as error:
        return dict.fromkeys(of, WriteResult(Verdict.REFUSED, message=str(error)))
    except Exception as error:
        log.exception("the answer to a request cannot be read")
        return dict.fromkeys(of, unread_answer(error))
    return {each: results.get(each, UNANSWERED) for each in of}


class _Open(msgspec.Struct):
    node: int | None  # that has the request, if known
    seen_s: float | None = None  # the first poll after the request
    counts_s: float | None = None  # when the wait of `MAY_COME_S` began


class Unanswered(Generic[Whose]):
    """The partitions or settings whose last change may still be on its way.

    These are alters and cancels of partitions, or changes of settings. Nothing that differs is sent
    for them meanwhile: Kafka has no fencing, so the late request would meet the new one. The
    original replicas would be forgotten, a step be cancelled by mistake, or a removed throttle be
    set again.

    A broker that is suspended, or cut off, may read the request at any later time. So the wait
    begins when that broker has answered a later question (`heard`). If the broker is not known, the
    wait begins with the first poll after the request: a poll goes by way of the controller, so none
    succeeds while there is no controller. Wall clocks may jump, so a process that resumes a run
    begins the wait again, for what the journal has `left_open`.

    Elections are not tracked. A late one elects the replica that is preferred then, as
    auto.leader.rebalance.enable does at any time.
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
        self._open.setdefault(whose, []).append(_Open(node))

    def note_poll(self, now_s: float) -> None:
        """Note a poll at `now_s`, and forget requests that can no longer take effect."""
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
        return {node for request in self._requests() if (node := _silent(request)) is not None}

    def node(self, whose: Whose) -> int | None:
        silent = map(_silent, self._open.get(whose, ()))
        return next((node for node in silent if node is not None), None)

    def silent_for(self, whose: Whose, now_s: float) -> float:
        since_s = (
            request.seen_s
            for request in self._open.get(whose, ())
            if _silent(request) is not None and request.seen_s is not None
        )
        return max((now_s - each for each in since_s), default=0.0)

    def _requests(self) -> Iterator[_Open]:
        return (request for requests in self._open.values() for request in requests)

    def __iter__(self) -> Iterator[Whose]:
        return iter(self._open)

    def __contains__(self, whose: Whose) -> bool:
        return whose in self._open


def _silent(request: _Open) -> int | None:
    return request.node if request.counts_s is None else None


def _past(request: _Open, now_s: float) -> bool:
    return request.counts_s is not None and now_s - request.counts_s >= MAY_COME_S


def left_open(run: Run) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the partitions with an unanswered alter or cancel by the journal, with the brokers."""
    return {tp: track.open_nodes for tp, track in run.tracks.items() if _open(track)}


def open_request_text(node: int | None) -> str:
    """Return why a partition with an open request waits, as text."""
    if node is None:
        return "its last request was not answered: it waits until that can no longer take effect"
    return (
        f"its last request went to broker {node}, which has answered nothing since; the request "
        "may still take effect. If that broker is gone, stop the partition: ktui cancel RUN --stop"
    )


def _open(track: Track) -> bool:
    return track.open_alter or track.open_cancel


def with_requested_replicas(progress: Progress, run: Run) -> Progress:
    """Return the progress completed with what only the run knows.

    A partition that settles on the replicas of a later step of ours gets that step's target.
    Otherwise the change would count as somebody else's. A partition whose steps are not over is
    marked as going on after this one, and so is one that its run could still roll back.
    """
    changed = {
        tp: updated
        for tp, timeline in progress.timelines.items()
        if (track := run.tracks.get(tp)) is not None
        and (updated := _inform(timeline, track, ended=run.ended)) is not timeline
    }
    if not changed:
        return progress
    return msgspec.structs.replace(progress, timelines={**progress.timelines, **changed})


def _inform(timeline: Timeline, track: Track, *, ended: bool) -> Timeline:
    settling = timeline.phase is Phase.SETTLING and track.sent is not None
    if settling and timeline.state.replicas == track.sent != timeline.target:
        timeline = msgspec.structs.replace(timeline, target=track.sent)
    # while the run lives, a rollback may follow in the poll that brings its request
    goes_on = track.begun and not (ended and _over(timeline, track))
    if goes_on is not timeline.goes_on:
        timeline = msgspec.structs.replace(timeline, goes_on=goes_on)
    return timeline


def _over(timeline: Timeline, track: Track) -> bool:
    seen = timeline.phase.ended and timeline.state.replicas == track.replicas
    return track.state.ended and seen
