"""Consumer groups on brokers whose coordinator moves, or that keep no groups yet."""

from collections.abc import Callable
from typing import Any

import pytest
from kafka.protocol.admin.groups import DescribeGroupsResponse
from kafka.protocol.consumer.group import HeartbeatResponse, LeaveGroupResponse
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse

from ktui.cluster.errors import ClusterError, NotAuthorized, Refused, Unreachable
from ktui.cluster.ownership import GroupDescription, HeartbeatAnswer, Member, MemberDescription
from ktui.kafka.claim import KafkaGroups
from ktui.kafka.connection.connection import Connection

LOADING, NOT_THERE, MOVED, DENIED, FENCED, UNKNOWN_MEMBER = 14, 15, 16, 30, 82, 25
WRONG_GENERATION = 22
REBALANCING, UNKNOWN_TOPIC, NO_TOPIC_PERMISSION, UNEXPECTED = 27, 3, 29, 42
MEMBER = Member("owner-1", 3)


class Brokers:
    """Brokers that answer from a list, and then repeat its last answer."""

    timeout_s = 5.0

    def __init__(self) -> None:
        self.coordinators: list[tuple[int, int]] = [(0, 1)]  # error code and broker of each lookup
        self.heartbeats: list[int | ClusterError] = [0]
        self.store = 0
        self.offline: dict[int, list[int]] = {}
        """Partitions of the topic that stores groups, each with the brokers of all replicas."""
        self.left = 0
        self.described = 0
        self.asked: list[tuple[str, int | None]] = []

    async def ask(
        self,
        purpose: Any,
        build: Callable[[], Any],
        *,
        broker: int | None = None,
        limit_s: float | None = None,
    ) -> Any:
        assert limit_s is not None
        kind = type(build()).__name__.removesuffix("Request")
        self.asked.append((kind, broker))
        answer = getattr(self, f"_{kind}")()
        if getattr(answer, "error_code", 0):
            raise purpose.refusal(answer.error_code, None)
        return answer

    def _Metadata(self) -> Any:  # noqa: N802 - named as the request
        topic = MetadataResponse.MetadataResponseTopic(
            version=9,
            error_code=self.store,
            name="__consumer_offsets",
            partitions=[self._partition(number) for number in range(50)],
        )
        return MetadataResponse(version=9, brokers=[], controller_id=1, topics=[topic])

    def _partition(self, number: int) -> Any:
        down = self.offline.get(number, [])
        return MetadataResponse.MetadataResponseTopic.MetadataResponsePartition(
            version=9,
            partition_index=number,
            leader_id=-1 if down else 1,
            replica_nodes=down or [1],
            isr_nodes=[1],
            offline_replicas=down,
        )

    def _FindCoordinator(self) -> Any:  # noqa: N802
        code, broker = _next(self.coordinators)
        reply = FindCoordinatorResponse.Coordinator(
            version=4, key="g", node_id=broker, host="h", port=1, error_code=code
        )
        return FindCoordinatorResponse(version=4, coordinators=[reply])

    def _DescribeGroups(self) -> Any:  # noqa: N802
        reply = DescribeGroupsResponse.DescribedGroup(
            version=5,
            error_code=self.described,
            group_id="g",
            group_state="Dead",
            protocol_type="",
            protocol_data="",
            members=[],
        )
        return DescribeGroupsResponse(version=5, groups=[reply])

    def _Heartbeat(self) -> Any:  # noqa: N802
        reply = _next(self.heartbeats)
        if isinstance(reply, ClusterError):
            raise reply
        return HeartbeatResponse(version=4, error_code=reply)

    def _LeaveGroup(self) -> Any:  # noqa: N802
        reply = LeaveGroupResponse.MemberResponse(
            version=4, member_id="owner-1", group_instance_id="owner", error_code=self.left
        )
        return LeaveGroupResponse(version=4, error_code=0, members=[reply])

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.asked]


def _next(answers: list[Any]) -> Any:
    return answers.pop(0) if len(answers) > 1 else answers[0]


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def groups(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> KafkaGroups:
    monkeypatch.setattr("ktui.kafka.claim._PAUSE_S", 0.0)
    return KafkaGroups(Connection.to("127.0.0.1:1"), wire=brokers)  # type: ignore[arg-type]


async def test_describing_a_group_looks_up_no_coordinator_before_the_offsets_topic_exists(
    brokers: Brokers, groups: KafkaGroups
) -> None:
    brokers.store = UNKNOWN_TOPIC

    seen = await groups.describe("g")

    assert seen.members == ()
    assert await groups.stores_groups() is False
    assert brokers.kinds() == ["Metadata", "Metadata"]


async def test_a_group_can_be_described_without_permission_on_the_offsets_topic(
    brokers: Brokers, groups: KafkaGroups
) -> None:
    brokers.store = NO_TOPIC_PERMISSION

    assert (await groups.describe("g")).members == ()
    assert await groups.stores_groups() is None


@pytest.mark.parametrize("code", [LOADING, NOT_THERE, MOVED])
async def test_a_coordinator_that_moves_is_looked_up_again(
    brokers: Brokers, groups: KafkaGroups, code: int
) -> None:
    brokers.coordinators = [(0, 1), (NOT_THERE, -1), (0, 2)]
    brokers.heartbeats = [code, 0]

    assert await groups.heartbeat("g", MEMBER) is HeartbeatAnswer.STAYS

    assert brokers.asked == [
        ("FindCoordinator", None),
        ("Heartbeat", 1),
        ("FindCoordinator", None),
        ("FindCoordinator", None),
        ("Heartbeat", 2),
    ]


async def test_a_coordinator_that_cannot_be_reached_is_looked_up_again(
    brokers: Brokers, groups: KafkaGroups
) -> None:
    brokers.coordinators = [(0, 1), (0, 2)]
    brokers.heartbeats = [Unreachable("asking"), 0]

    assert await groups.heartbeat("g", MEMBER) is HeartbeatAnswer.STAYS

    assert brokers.asked[-1] == ("Heartbeat", 2)


async def test_a_known_coordinator_is_not_looked_up_for_each_heartbeat(
    brokers: Brokers, groups: KafkaGroups
) -> None:
    for _ in range(3):
        await groups.heartbeat("g", MEMBER)

    assert brokers.kinds() == ["FindCoordinator", *["Heartbeat"] * 3]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (FENCED, HeartbeatAnswer.GONE),
        (UNKNOWN_MEMBER, HeartbeatAnswer.GONE),
        (WRONG_GENERATION, HeartbeatAnswer.GONE),
        (REBALANCING, HeartbeatAnswer.REJOIN),
    ],
)
async def test_a_heartbeat_reports_that_the_member_is_gone_or_must_rejoin(
    brokers: Brokers, groups: KafkaGroups, code: int, expected: HeartbeatAnswer
) -> None:
    brokers.heartbeats = [code]

    assert await groups.heartbeat("g", MEMBER) is expected


async def test_an_unexpected_heartbeat_answer_is_an_error_with_its_name(
    brokers: Brokers, groups: KafkaGroups
) -> None:
    brokers.heartbeats = [UNEXPECTED]

    with pytest.raises(Refused) as refused:
        await groups.heartbeat("g", MEMBER)

    assert refused.value.code == "INVALID_REQUEST"


NOBODY_SHOWN = GroupDescription("", settled=True, members=())
OWNER_SHOWN = GroupDescription(
    "ktui", settled=True, members=(MemberDescription("owner-1", "owner", b""),)
)


@pytest.mark.parametrize(
    ("description", "code", "expected"),
    [
        (NOBODY_SHOWN, UNKNOWN_MEMBER, True),
        (NOBODY_SHOWN, FENCED, False),
        (NOBODY_SHOWN, 0, False),  # the coordinator is loading
        (OWNER_SHOWN, WRONG_GENERATION, True),
        (OWNER_SHOWN, FENCED, False),
        (OWNER_SHOWN, UNKNOWN_MEMBER, False),
        (OWNER_SHOWN, 0, False),
    ],
)
async def test_a_description_is_current_where_a_heartbeat_of_no_generation_agrees(
    brokers: Brokers,
    groups: KafkaGroups,
    description: GroupDescription,
    code: int,
    expected: bool,  # noqa: FBT001 - what is expected, from the table above
) -> None:
    brokers.heartbeats = [code]

    assert await groups.is_current("g", description) is expected


async def test_groups_that_are_not_stored_are_empty_without_asking_a_coordinator(
    brokers: Brokers, groups: KafkaGroups
) -> None:
    brokers.store = UNKNOWN_TOPIC

    assert await groups.is_current("g", NOBODY_SHOWN)

    assert brokers.kinds() == ["Metadata"]


@pytest.mark.parametrize("part", ["look-up", "answer"])
async def test_a_missing_group_permission_is_named_at_either_request(
    brokers: Brokers, groups: KafkaGroups, part: str
) -> None:
    if part == "look-up":
        brokers.coordinators = [(DENIED, -1)]
    else:
        brokers.described = DENIED

    with pytest.raises(NotAuthorized, match=r"Grant Describe on the groups"):
        await groups.describe("g")


@pytest.mark.parametrize("code", [0, FENCED, UNKNOWN_MEMBER])
async def test_leaving_a_group_succeeds_for_a_member_that_is_already_gone(
    brokers: Brokers, groups: KafkaGroups, code: int
) -> None:
    brokers.left = code

    await groups.leave("g", MEMBER)


async def test_leaving_a_group_fails_on_any_other_refusal(
    brokers: Brokers, groups: KafkaGroups
) -> None:
    brokers.left = UNEXPECTED

    with pytest.raises(Refused):
        await groups.leave("g", MEMBER)


@pytest.mark.parametrize(
    ("down", "fix"),
    [
        ([3], "Start broker 3, which has its replicas"),
        ([2, 3], "Start brokers 2, 3, which have its replicas"),
    ],
)
async def test_an_offline_partition_that_keeps_the_group_is_named_with_its_brokers(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, down: list[int], fix: str
) -> None:
    monkeypatch.setattr(brokers, "timeout_s", 0.01)
    groups = KafkaGroups(Connection.to("127.0.0.1:1"), wire=brokers)  # type: ignore[arg-type]
    brokers.coordinators = [(NOT_THERE, -1)]
    brokers.offline = {3: down}  # "g" is 103 to Java, which is 3 of 50

    for asked in (groups.describe("g"), groups.heartbeat("g", MEMBER), groups.join("g", b"", 60.0)):
        with pytest.raises(Refused) as refused:
            await asked
        assert "__consumer_offsets-3, which keeps the consumer group g, is offline" in str(
            refused.value
        )
        assert str(refused.value).endswith(fix)


async def test_brokers_that_cannot_create_the_offsets_topic_differ_from_busy_ones(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers, "timeout_s", 0.01)
    groups = KafkaGroups(Connection.to("127.0.0.1:1"), wire=brokers)  # type: ignore[arg-type]
    brokers.coordinators = [(NOT_THERE, -1)]

    with pytest.raises(Refused) as busy:
        await groups.join("g", b"", 60.0)
    brokers.store = UNKNOWN_TOPIC
    with pytest.raises(Refused, match=r"offsets\.topic\.replication\.factor"):
        await groups.join("g", b"", 60.0)

    assert "offsets.topic.replication.factor" not in str(busy.value)
