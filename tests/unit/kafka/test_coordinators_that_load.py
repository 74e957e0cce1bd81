"""What a coordinator that loads its groups is asked again."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin.groups import ListGroupsResponse

from ktui.cluster.coordination import CoordinatorKind
from ktui.cluster.errors import Refused
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader

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


def reader(coordinator: Loading) -> KafkaReader:
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
