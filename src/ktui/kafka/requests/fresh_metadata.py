"""Brokers whose metadata is known to be no older than a moment.

DescribeQuorum tells how far the leading controller has written its log. A broker's ApiVersions
tells how far it has read it: in KRaft its finalized features' epoch is the offset of the last
record in the very metadata that it answers from (seen from 3.9 to 4.3).

Changes are answered once they are committed. The list of reassignments is ahead of that: it leaves
a partition out as soon as the controller has decided that its move is over, while the record of
that waits to be written. So it is the end of the log that counts, a moment later.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

from kafka.protocol.admin.cluster import DescribeQuorumRequest
from kafka.protocol.metadata import ApiVersionsRequest

from ktui.cluster.errors import NotAuthorized, TimedOut, Unreachable, Unsupported
from ktui.kafka.transport import error_codes
from ktui.kafka.transport.client import Build, Wire
from ktui.kafka.transport.retry import FIRST_S
from ktui.kafka.transport.translate_errors import Purpose

_QUORUM = Purpose("asking how far the controllers' log is", needs="Describe on the cluster")
_READ = Purpose("asking how far a broker has read the controllers' log")

WITHIN_S = 5.0
"""How long is waited, at most, for a controller to tell and for a broker to have caught up."""
_LINGER_S = 0.05
"""More than a controller keeps a record back (controller.quorum.append.linger.ms, 25)."""
_ONE_WITHIN_S = 2.0
"""How long is waited for one certain broker."""
_PAUSE_S = 0.02
_VERSION_S = 1.0
"""What a broker gets to tell how far it is: another may be as far."""


class UpToDateBrokers:
    """The brokers that know all that was answered before a moment.

    Args:
        wire: the way to them.
        offset: of the last record of what was decided by that moment.
    """

    def __init__(self, wire: Wire, offset: int) -> None:
        self._wire = wire
        self._offset = offset
        self._broker: int | None = None
        """One that has caught up; a broker's metadata never goes back."""

    @classmethod
    async def as_of_now(cls, wire: Wire) -> UpToDateBrokers:
        """Take this moment.

        Raises:
            Unsupported: the cluster does not tell, or not to this principal.
            TimedOut: no controller tells.
        """
        try:
            await asyncio.sleep(_LINGER_S)
            return cls(wire, await _last_record(wire))
        except NotAuthorized as denied:
            raise Unsupported(
                _QUORUM.attempted, where=denied.where, answer=denied.answer, fix=denied.fix
            ) from denied

    async def ask(self, purpose: Purpose, build: Build) -> Any:
        """Ask one of them something that changes nothing, and another if that one fails.

        Raises:
            Unsupported: brokers do not tell how far they are.
            TimedOut: none has caught up, or answered, in time.
        """
        most_s = self._wire.timeout_s
        until_s = time.monotonic() + most_s
        limit_s = min(FIRST_S, most_s)
        while True:
            if self._broker is None:
                self._broker = await self._find()
            try:
                return await self._wire.ask(purpose, build, broker=self._broker, limit_s=limit_s)
            except (Unreachable, TimedOut):
                if time.monotonic() >= until_s:
                    raise
            self._broker = None
            limit_s = min(2 * limit_s, most_s)

    async def wait_for(self, broker: int) -> None:
        """Wait until this very broker has caught up.

        Raises:
            Unsupported: it does not tell how far it is.
            Unreachable: it is down.
            TimedOut: it has not, in time.
        """
        until_s = time.monotonic() + _ONE_WITHIN_S
        while await self._epoch(broker) < self._offset:
            if time.monotonic() >= until_s:
                answer = f"it has not read up to record {self._offset} within {_ONE_WITHIN_S:g} s"
                raise TimedOut(_READ.attempted, where=f"broker {broker}", answer=answer)
            await asyncio.sleep(_PAUSE_S)

    async def _find(self) -> int:
        limit_s = min(WITHIN_S, self._wire.timeout_s)
        until_s = time.monotonic() + limit_s
        while time.monotonic() < until_s:
            for best in (await self._wire.broker_ids())[:1]:
                if await self._knows(best):
                    return best
            await asyncio.sleep(_PAUSE_S)
        answer = f"no broker has read up to record {self._offset} within {limit_s:g} s"
        raise TimedOut("waiting for fresh metadata", answer=answer)

    async def _knows(self, broker: int) -> bool:
        try:
            return await self._epoch(broker) >= self._offset
        except (Unreachable, TimedOut):
            return False

    async def _epoch(self, broker: int) -> int:
        answer = await self._wire.ask(_READ, _versions, broker=broker, limit_s=_VERSION_S)
        epoch = answer.finalized_features_epoch
        if epoch is None or epoch < 0:
            raise Unsupported(_READ.attempted, where=f"broker {broker}", fix="Upgrade the brokers")
        return int(epoch)


async def _last_record(wire: Wire) -> int:
    """Give the offset of the last record in the leading controller's log."""
    until_s = time.monotonic() + min(WITHIN_S, wire.timeout_s)
    while True:
        told = (await wire.ask(_QUORUM, _quorum)).topics[0].partitions[0]
        end = max((one.log_end_offset for one in told.current_voters), default=-1)
        if not told.error_code and end > 0:
            return int(end) - 1
        if time.monotonic() >= until_s:
            code = told.error_code
            answer = error_codes.words(code, None) if code else "no controller leads yet"
            raise TimedOut(_QUORUM.attempted, answer=answer)
        await asyncio.sleep(_PAUSE_S)  # one controller hands over to another


def _quorum() -> Any:
    topic = DescribeQuorumRequest.TopicData
    partition = topic.PartitionData(partition_index=0)
    return DescribeQuorumRequest(
        topics=[topic(topic_name="__cluster_metadata", partitions=[partition])]
    )


_versions = partial(
    ApiVersionsRequest,
    client_software_name="ktui",
    client_software_version="0",
    min_version=3,
)
