"""The rules by which a cluster reassigns, as its metadata.version and its brokers tell them."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.metadata import ApiVersionsResponse

from ktui.cluster.errors import TimedOut
from ktui.kafka.requests.reassignments import ReassignmentRules, RulesInForce


class Brokers:
    """Brokers of a cluster with a finalized metadata.version, each with the newest that it knows.

    A level of None: no broker answers. A broker that knows None does not answer.
    """

    def __init__(self, level: int | None, *known: int | None) -> None:
        self.level = level
        self.known = dict(enumerate(known, 1))
        self.asked: list[int | None] = []

    async def ask(
        self,
        purpose: Any,
        build: Any,
        *,
        broker: int | None = None,
        limit_s: float | None = None,  # noqa: ARG002 - as `Wire.ask` has it
    ) -> Any:
        build()
        self.asked.append(broker)
        newest = self.level if broker is None else self.known[broker]
        if self.level is None or newest is None:
            raise TimedOut(purpose.attempted)
        feature, name = ApiVersionsResponse, "metadata.version"
        finalized = feature.FinalizedFeatureKey(
            version=3, name=name, max_version_level=self.level, min_version_level=1
        )
        supported = feature.SupportedFeatureKey(
            version=3, name=name, min_version=1, max_version=newest
        )
        return ApiVersionsResponse(
            version=3,
            error_code=0,
            finalized_features=[finalized],
            supported_features=[supported],
        )

    async def rules(self) -> ReassignmentRules:
        return await RulesInForce(self).now(self.known)  # type: ignore[arg-type]


@pytest.mark.parametrize(("level", "waits"), [(21, True), (29, True), (30, False), (None, True)])
async def test_kafka_waits_for_kept_replicas_before_4_3_and_where_the_version_is_unknown(
    level: int | None,
    waits: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert (await Brokers(level, 30).rules()).waits_for_kept is waits


@pytest.mark.parametrize(
    ("level", "known", "refuses"),
    [
        (29, (33, 33), False),  # no cordon is recorded before 4.3
        (30, (30, 30), False),
        (30, (33, 33), True),  # upgraded, and the version not yet raised
        (30, (30, 33), True),
        (30, (None, 33), True),
        (30, (30, None), None),
        (31, (33, 33), True),
        (33, (None, None), True),
        (None, (33, 33), None),
    ],
)
async def test_targets_on_cordoned_brokers_are_refused_where_any_broker_has_kafka_4_4(
    level: int | None,
    known: tuple[int | None, ...],
    refuses: bool | None,  # noqa: FBT001 - a column of the table
) -> None:
    assert (await Brokers(level, *known).rules()).refuses_cordoned is refuses


async def test_the_rules_are_asked_for_only_once_and_each_broker_only_on_4_3() -> None:
    newer, on_4_3 = Brokers(33, 33, 33), Brokers(30, 30, 30)
    for brokers in (newer, on_4_3):
        rules = RulesInForce(brokers)  # type: ignore[arg-type]
        for _ in range(5):
            await rules.now(brokers.known)

    assert newer.asked == [None]
    assert on_4_3.asked == [None, 1, 2]
