"""The requests of a turn, sent through the writing port."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ktui.cluster.errors import ClusterError, NotAuthorized, unreadable
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterWriter, Verdict, WriteResult
from ktui.execution.events import Request
from ktui.execution.refusals import NOT_ALLOWED
from ktui.execution.turn import Sending

log = logging.getLogger(__name__)


async def send(
    writer: ClusterWriter, sending: Sending, *, leaves_within_s: float
) -> Mapping[TopicPartition, WriteResult]:
    """Send one request, and return what became of each partition of it.

    What could not be sent at all is REFUSED without a code. The factor changes on a partition's
    way also where its target keeps it, so Kafka's own guard is not asked for: the plan was held
    to it before the run began.
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
        words = unreadable(error, "its answer")
        return dict.fromkeys(partitions, WriteResult(Verdict.UNKNOWN, message=words))
    unanswered = WriteResult(Verdict.UNKNOWN, message="Kafka's answer left it out")
    return {tp: results.get(tp, unanswered) for tp in partitions}


def not_sent(sending: Sending, reason: str) -> Mapping[TopicPartition, WriteResult]:
    """Return the outcome of a request that did not leave."""
    return dict.fromkeys(sending.partitions, WriteResult(Verdict.REFUSED, message=reason))
