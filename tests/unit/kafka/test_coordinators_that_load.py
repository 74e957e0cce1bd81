"""What coordinators are asked, and asked again while they load."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin.groups import ListGroupsResponse

from ktui.cluster.coordination import CoordinatorKind
from ktui.cluster.errors import NotAuthorized, Refused
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.requests.groups import DescribeShareGroupOffsetsResponse

LOADING = "COORDINATOR_LOAD_IN_PROGRESS"


class Loading:
    """A coordinator that answers only once it has been asked some times."""

    timeout_s = 5.0

    def __init__(self, times: int) -> None:
        self.left = times

    async def ask(self, _purpose: Any, _build: Any, *, broker: int, limit_s: float) -> Any:
        del broker, limit_s
        if self.left:
            self.left -= 1
            raise Refused("listing groups", code=LOADING)
        group = ListGroupsResponse.ListedGroup(version=5, group_id="audit", protocol_type="")
        return ListGroupsResponse(version=5, error_code=0, groups=[group])


def reader(coordinator: object) -> KafkaReader:
    return KafkaReader(Connection.to("127.0.0.1:1"), wire=coordinator)  # type: ignore[arg-type] # a fake


async def test_groups_are_listed_as_soon_as_their_coordinator_has_loaded_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ktui.kafka.reader._PAUSE_S", 0.0)

    found = await reader(Loading(5)).coordinated_ids(1, CoordinatorKind.GROUP)

    assert [each.name for each in found.ids] == ["audit"]


async def test_a_coordinator_that_loads_for_longer_than_a_call_takes_is_named_as_loading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ktui.kafka.reader._PAUSE_S", 0.0)
    monkeypatch.setattr(Loading, "timeout_s", 0.01)

    with pytest.raises(Refused) as refused:
        await reader(Loading(1_000_000)).coordinated_ids(1, CoordinatorKind.GROUP)

    assert refused.value.code == LOADING


class Sharing:
    """A coordinator of one share group, which the principal may list and not describe."""

    timeout_s = 5.0

    async def ask(self, purpose: Any, build: Any, *, broker: int, limit_s: float = 0.0) -> Any:
        del broker, limit_s
        if purpose.attempted == "listing groups":
            group = ListGroupsResponse.ListedGroup(version=5, group_id="jobs", group_type="Share")
            return ListGroupsResponse(version=5, error_code=0, groups=[group])
        (asked,) = build().groups
        response = DescribeShareGroupOffsetsResponse
        group = response.DescribeShareGroupOffsetsResponseGroup(
            group_id=asked.group_id, topics=[], error_code=30, error_message=None
        )
        return response(throttle_time_ms=0, groups=[group])


async def test_a_share_group_that_may_not_be_described_is_named_with_the_missing_permission() -> (
    None
):
    with pytest.raises(NotAuthorized) as denied:
        await reader(Sharing()).coordinated_ids(1, CoordinatorKind.SHARE_GROUP)

    assert denied.value.where == "jobs"
    assert "Describe on the groups" in str(denied.value)
