"""Whether Kafka completes a move before its kept replicas are in sync, by metadata.version."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.metadata import ApiVersionsResponse

from ktui.cluster.errors import TimedOut
from ktui.kafka.requests.reassignments import CompletionRule


class Brokers:
    """Brokers whose cluster has finalized a metadata.version; None where none answers."""

    def __init__(self, level: int | None) -> None:
        self.level = level
        self.asked = 0

    async def ask(self, purpose: Any, build: Any) -> Any:
        build()
        self.asked += 1
        if self.level is None:
            raise TimedOut(purpose.attempted)
        feature = ApiVersionsResponse.FinalizedFeatureKey(
            version=3, name="metadata.version", max_version_level=self.level, min_version_level=1
        )
        return ApiVersionsResponse(version=3, error_code=0, finalized_features=[feature])


@pytest.mark.parametrize(("level", "waits"), [(21, True), (29, True), (30, False), (None, True)])
async def test_kafka_waits_for_kept_replicas_before_4_3_and_where_the_version_is_unknown(
    level: int | None,
    waits: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert await CompletionRule(Brokers(level)).waits_for_kept() is waits  # type: ignore[arg-type]


async def test_the_completion_rule_is_asked_for_only_once() -> None:
    brokers = Brokers(30)
    completion = CompletionRule(brokers)  # type: ignore[arg-type]

    for _ in range(5):
        assert not await completion.waits_for_kept()

    assert brokers.asked == 1
