"""Requests that are repeated, refused, or answered at length."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from kafka.protocol.admin import ListPartitionReassignmentsResponse
from kafka.protocol.admin.groups import ListGroupsResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

from ktui.cluster.broker import CoordinatorKind
from ktui.cluster.errors import NotAuthorized, Refused, TimedOut
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.requests.groups import DescribeShareGroupOffsetsResponse
from ktui.kafka.requests.reassignments import ReassignmentRules, RulesInForce
from ktui.kafka.transport.batches import BatchedRequest, Sender
from ktui.kafka.transport.client import Wire
from ktui.kafka.transport.translate_errors import FIRST_S, Attempts, Purpose
from support.kafka.certificates import Authority

HUNG = TimedOut("listing reassignments")


def limits(attempts: Attempts, nodes: list[int]) -> list[tuple[int, float]]:
    """Return the brokers that a call asks if none answers, each with its time limit."""
    asked = []
    while choice := attempts.choose(nodes):
        node, call = choice
        asked.append((int(node), call.left_s()))
        attempts.failed(node, HUNG, for_good=True)
    return asked


def test_a_read_turns_from_a_hung_broker_to_the_next_soon() -> None:
    asked = limits(Attempts(10.0, hasty=True), [1, 2, 3])

    assert [node for node, _ in asked] == [1, 2, 3]
    assert [limit for _, limit in asked] == pytest.approx([FIRST_S, 2 * FIRST_S, 10.0], rel=0.01)


def test_a_change_waits_longer_for_its_answer_than_a_read() -> None:
    (node, limit), *_ = limits(Attempts(10.0), [1, 2])

    assert node == 1
    assert limit == pytest.approx(5.0, rel=0.01)


def test_the_only_broker_that_can_answer_gets_all_the_time() -> None:
    ((node, limit),) = limits(Attempts(10.0, hasty=True), [3])

    assert node == 3
    assert limit == pytest.approx(10.0, rel=0.01)


def test_the_attempts_keep_their_last_failure() -> None:
    attempts = Attempts(10.0)
    assert attempts.failure is None
    limits(attempts, [1, 2])
    assert attempts.failure is HUNG


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
        error = ALTER.refusal(31, None, "broker 1")
        assert isinstance(error, NotAuthorized)
        raise error

    results = await sender(denied).in_turn([BatchedRequest([ORDERS], lambda: None)])
    assert results[ORDERS].needs == "Alter on the cluster"
    assert results[ORDERS].code == "CLUSTER_AUTHORIZATION_FAILED"


async def test_a_change_whose_answer_cannot_be_read_is_unknown_not_a_defect() -> None:
    def unreadable(answer: Any) -> Iterator[tuple[TopicPartition, int, str | None]]:
        yield ORDERS, answer["error_code"], None

    wire = cast("Wire", Answering(dict))
    change = BatchedRequest([ORDERS], lambda: None)
    results = await Sender(wire, ALTER, unreadable).in_turn([change])
    assert results[ORDERS].verdict is Verdict.UNKNOWN
    assert results[ORDERS].message.startswith("its answer cannot be read: ")


_COUNT = 50_000
_API_VERSIONS, _METADATA, _LIST = 18, 3, 46
_FLEXIBLE = {_API_VERSIONS: 0, _METADATA: 0, _LIST: 1}
"""Bytes of tagged fields after the header of an answer."""


def _answer(api: int, version: int, port: int) -> bytes:
    if api == _API_VERSIONS:
        known = ((_API_VERSIONS, 2), (_METADATA, 4), (_LIST, 0))
        keys = [
            ApiVersionsResponse.ApiVersion(version=2, api_key=key, min_version=0, max_version=high)
            for key, high in known
        ]
        response = ApiVersionsResponse(version=version, error_code=0, api_keys=keys)
    elif api == _METADATA:
        broker = MetadataResponse.MetadataResponseBroker(
            1, "127.0.0.1", port, None, version=version
        )
        response = MetadataResponse(version=version, brokers=[broker], controller_id=1, topics=[])
    else:
        return _moving(version)
    return bytes(response.encode())


@cache
def _moving(version: int) -> bytes:
    topic = ListPartitionReassignmentsResponse.OngoingTopicReassignment
    moving = [
        topic.OngoingPartitionReassignment(
            version=0,
            partition_index=each,
            replicas=[1, 2, 3],
            adding_replicas=[3],
            removing_replicas=[1],
        )
        for each in range(_COUNT)
    ]
    response = ListPartitionReassignmentsResponse(
        version=version, error_code=0, topics=[topic(version=0, name="orders", partitions=moving)]
    )
    return bytes(response.encode())


@contextlib.asynccontextmanager
async def kafka(tls: ssl.SSLContext | None) -> AsyncIterator[str]:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                asked = await reader.readexactly(size)
                api, version = (int.from_bytes(asked[at : at + 2], "big") for at in (0, 2))
                frame = asked[4:8] + bytes(_FLEXIBLE[api]) + _answer(api, version, port)
                writer.write(len(frame).to_bytes(4, "big") + frame)
                await writer.drain()
        writer.transport.abort()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield f"127.0.0.1:{port}"


@pytest.mark.parametrize("tls", [False, True])
async def test_a_large_answer_is_read_to_its_end(tmp_path: Path, *, tls: bool) -> None:
    authority = Authority(tmp_path)
    async with kafka(authority.context("IP:127.0.0.1") if tls else None) as address:
        reader = KafkaReader(
            Connection.of(
                {
                    "bootstrap.servers": address,
                    "security.protocol": "SSL" if tls else "PLAINTEXT",
                    "ssl.ca.location": str(authority.pem),
                }
            )
        )
        moving = await reader.list_reassignments()
        await reader.aclose()

    assert moving.keys() == {TopicPartition("orders", each) for each in range(_COUNT)}


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
            version=3, error_code=0, finalized_features=[finalized], supported_features=[supported]
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
