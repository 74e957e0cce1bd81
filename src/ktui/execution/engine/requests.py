"""Requests of a run: each rests on a read made for it, and leaves soon after."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.errors import ClusterError, NotAuthorized, describe_unreadable
from ktui.cluster.fresh_read import LEAVES_WITHIN_S, FreshRead
from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterPorts, ClusterWriter, Verdict, WriteResult
from ktui.execution.engine.turn import PendingRequest
from ktui.execution.run.events import Request
from ktui.execution.run.refusals import NOT_ALLOWED

log = logging.getLogger(__name__)

READ_STALE_S = LEAVES_WITHIN_S
"""Seconds in which a request has to leave, from when its read was asked for; else it is not sent.
"""


async def send(
    writer: ClusterWriter, sending: PendingRequest, *, leaves_within_s: float
) -> Mapping[TopicPartition, WriteResult]:
    """Send one request, and return the outcome of each partition of it.

    A request that could not be sent at all is REFUSED without a code. Kafka's own guard against
    changes of the replication factor is switched off. The factor changes on a partition's way even
    if its target keeps it. The plan was checked for that before the run began.
    """
    partitions = sending.partitions
    try:
        if sending.request is Request.ELECT:
            results = await writer.elect_preferred_leaders(
                partitions, leaves_within_s=leaves_within_s
            )
        else:
            results = await writer.alter_reassignments(
                dict(partitions),
                allow_replication_factor_change=True,
                leaves_within_s=leaves_within_s,
            )
    except NotAuthorized as error:
        denied = WriteResult(Verdict.REFUSED, NOT_ALLOWED, str(error), needs=error.needs)
        return dict.fromkeys(partitions, denied)
    except ClusterError as error:
        return not_sent(sending, str(error))
    except Exception as error:
        log.exception("the answer to a request cannot be read")
        words = describe_unreadable(error, "its answer")
        return dict.fromkeys(partitions, WriteResult(Verdict.UNKNOWN, message=words))
    unanswered = WriteResult(Verdict.UNKNOWN, message="Kafka's answer left it out")
    return {tp: results.get(tp, unanswered) for tp in partitions}


def not_sent(sending: PendingRequest, reason: str) -> Mapping[TopicPartition, WriteResult]:
    """Return the outcome of a request that did not leave."""
    return dict.fromkeys(sending.partitions, WriteResult(Verdict.REFUSED, message=reason))


class RequestRead(msgspec.Struct, frozen=True):
    """The result of a read for a request, or the reason why there is none."""

    seen: Observation | None
    problem: str = ""


class Requests:
    """Reads for requests, and sends them while the read is recent.

    Args:
        ways: the ports that read and change the cluster.
        clock: time.
        cluster_id: the id of the run's cluster, because addresses may lead to another one later.
    """

    def __init__(self, cluster: ClusterPorts, clock: Clock, cluster_id: str | None) -> None:
        self._read = FreshRead(cluster.reader, clock)
        self._writer = cluster.writer
        self._clock = clock
        self._cluster_id = cluster_id

    async def read(
        self,
        partitions: Collection[TopicPartition],
        *,
        settings: bool = False,
        to_cancel: bool = False,
    ) -> RequestRead:
        """Read the partitions of a request that is about to be sent."""
        try:
            seen = await self._read.read(partitions, settings=settings, to_cancel=to_cancel)
        except ClusterError as error:
            return RequestRead(None, str(error))
        except Exception as error:
            log.exception("the cluster's answer cannot be read")
            return RequestRead(None, describe_unreadable(error))
        if self._cluster_id is not None and seen.cluster_id != self._cluster_id:
            return RequestRead(None, f"the brokers belong to another cluster, {seen.cluster_id}")
        return RequestRead(seen)

    def left_s(self, seen: Observation) -> float:
        """Return for how many seconds a read still counts."""
        return READ_STALE_S - (self._clock.monotonic() - seen.asked_s)

    async def send(
        self, sending: PendingRequest, seen: Observation, *, within_s: float = math.inf
    ) -> Mapping[TopicPartition, WriteResult]:
        """Send a request if its read is recent. Nothing is awaited before it leaves.

        Args:
            sending: the request.
            seen: the read made for it.
            within_s: seconds for which the other grounds of the request still count.
        """
        left_s = self.left_s(seen)
        if left_s <= 0:
            return not_sent(sending, stale_read_reason(seen, READ_STALE_S - left_s))
        return await send(self._writer, sending, leaves_within_s=min(left_s, within_s))


def stale_read_reason(seen: Observation, age_s: float) -> str:
    """Return why a request is not sent whose read is not recent any more."""
    return (
        f"the read made for it was {age_s:.1f} s old: the cluster took {seen.took_s:.1f} s to "
        f"answer. At most {READ_STALE_S:.0f} s is allowed"
    )
