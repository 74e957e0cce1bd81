"""Whether reassignments complete without the replicas that they keep: from Kafka 4.3 on.

That is the active controller's to decide, whose version no broker tells. But the cluster's
finalized metadata.version (KIP-778) is never above what every controller knows.
"""

from __future__ import annotations

import time
from functools import partial

from kafka.protocol.metadata import ApiVersionsRequest

from ktui.cluster.errors import ClusterError
from ktui.kafka.errors import Purpose
from ktui.kafka.wire import Wire

FIRST_WITHOUT_KEPT = 30
"""The lowest metadata.version of Kafka 4.3."""
_EVERY_S = 60.0
_PURPOSE = Purpose("asking for the metadata version")

_versions = partial(
    ApiVersionsRequest,
    client_software_name="ktui",
    client_software_version="0",
    min_version=3,
)


class Completion:
    """Knows it of one cluster, and asks again now and then: clusters are upgraded."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._waits = True
        self._asked_s: float | None = None

    async def waits_for_kept(self) -> bool:
        """Whether a kept replica that is out of sync holds a step up, or nobody tells."""
        now_s = time.monotonic()
        if self._asked_s is None or now_s - self._asked_s >= _EVERY_S:
            self._asked_s = now_s
            self._waits = await self._asked()
        return self._waits

    async def _asked(self) -> bool:
        try:
            answer = await self._wire.ask(_PURPOSE, _versions)
        except ClusterError:
            return True
        levels = {f.name: f.max_version_level for f in answer.finalized_features or ()}
        return bool(levels.get("metadata.version", 0) < FIRST_WITHOUT_KEPT)
