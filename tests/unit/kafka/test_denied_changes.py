"""A denied change names the permission that it needs, and on which resource."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from ktui.cluster.errors import NotAuthorized
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict
from ktui.kafka.transport import error_codes
from ktui.kafka.transport.batches import BatchedRequest, Sender
from ktui.kafka.transport.client import Wire
from ktui.kafka.transport.translate_errors import Purpose

ORDERS = TopicPartition("orders", 0)
ALTER = Purpose("altering reassignments", needs="Alter on the cluster")


class Answering:
    """A fake wire that gives every request the same answer."""

    timeout_s = 1.0

    def __init__(self, answer: Callable[[], Any]) -> None:
        self._answer = answer

    async def send(self, *_: object, **__: object) -> Any:
        return self._answer()


def sender(answer: Callable[[], Any]) -> Sender[TopicPartition]:
    def codes(code: int) -> Iterator[tuple[TopicPartition, int, str | None]]:
        yield ORDERS, code, None

    return Sender(cast("Wire", Answering(answer)), ALTER, codes)


@pytest.mark.parametrize(
    ("code", "needs"), [(31, "Alter on the cluster"), (29, "Alter on topic orders"), (42, "")]
)
async def test_a_change_denied_for_a_partition_names_the_permission_it_needs(
    code: int, needs: str
) -> None:
    results = await sender(lambda: code).in_turn([BatchedRequest([ORDERS], lambda: None)])
    assert results[ORDERS].verdict is Verdict.REFUSED
    assert results[ORDERS].needs == needs
    assert ("Grant " in results[ORDERS].message) is bool(needs)


async def test_a_change_denied_as_a_whole_names_the_permission_it_needs() -> None:
    def denied() -> NotAuthorized:
        error = error_codes.error_for_refusal(
            31, None, attempted="x", where="broker 1", needs=ALTER.needs
        )
        assert isinstance(error, NotAuthorized)
        raise error

    results = await sender(denied).in_turn([BatchedRequest([ORDERS], lambda: None)])
    assert results[ORDERS].needs == "Alter on the cluster"
    assert results[ORDERS].code == "CLUSTER_AUTHORIZATION_FAILED"
