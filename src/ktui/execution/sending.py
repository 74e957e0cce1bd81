"""The requests of a turn, sent through the writing port."""

from __future__ import annotations

from collections.abc import Mapping

from ktui.cluster.errors import ClusterError, NotAuthorized
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterWriter, Verdict, WriteResult
from ktui.execution.events import Request
from ktui.execution.refusals import NOT_ALLOWED
from ktui.execution.turn import Sending


async def send(writer: ClusterWriter, sending: Sending) -> Mapping[TopicPartition, WriteResult]:
    """Send one request, and give what became of each partition of it.

    What could not be sent at all is REFUSED without a code. The factor changes on a partition's
    way also where its target keeps it, so Kafka's own guard is not asked for: the plan was held
    to it before the run began.
    """
    partitions = sending.partitions
    try:
        if sending.request is Request.ELECT:
            results = await writer.elect_preferred_leaders(partitions)
        else:
            targets = dict(partitions)
            results = await writer.alter_reassignments(
                targets, allow_replication_factor_change=True
            )
    except NotAuthorized as error:
        return not_sent(sending, str(error), NOT_ALLOWED)
    except ClusterError as error:
        return not_sent(sending, str(error))
    unanswered = WriteResult(Verdict.UNKNOWN, message="Kafka's answer left it out")
    return {tp: results.get(tp, unanswered) for tp in partitions}


def not_sent(
    sending: Sending, reason: str, code: str | None = None
) -> Mapping[TopicPartition, WriteResult]:
    """Give the outcome of a request that did not leave."""
    return dict.fromkeys(sending.partitions, WriteResult(Verdict.REFUSED, code, reason))
