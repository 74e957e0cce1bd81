"""Requests about groups with one static member, in the classic protocol: every broker has it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any, NamedTuple

from kafka.protocol.admin.groups import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.admin.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest, MetadataRequest

from ktui.cluster.broker import (
    SHARE,
    CoordinatedId,
    coordinating_partition,
    java_hash,
    share_state_key,
)
from ktui.cluster.errors import Means, means
from ktui.cluster.ownership import (
    EMPTY_ASSIGNMENT,
    INSTANCE,
    KIND,
    STORE,
    GroupDescription,
    Member,
    MemberDescription,
)
from ktui.cluster.partition import TopicPartition
from ktui.cluster.text import clean
from ktui.kafka.requests.metadata import format_topic_id

_PROTOCOL = "owner"
_SETTLED = frozenset({"Stable", "Empty", "Dead"})
_READ = 3  # Kafka's number for the ACL operation Read


def store_request() -> Any:
    """Build a metadata request for the topic that stores groups; it must not create the topic."""
    topic = MetadataRequest.MetadataRequestTopic(name=STORE)
    return MetadataRequest(topics=[topic], allow_auto_topic_creation=False, max_version=9)


def stores_groups(answer: Any) -> bool | None:
    """Whether the topic that stores groups exists; None if this principal may not know."""
    code = answer.topics[0].error_code
    if means(code, Means.DENIED):
        return None
    return not means(code, Means.ABSENT)


class OfflineStore(NamedTuple):
    """A partition of the topic that stores groups, without a leader."""

    tp: TopicPartition
    down: tuple[int, ...]


def offline_store(answer: Any, group: str) -> OfflineStore | None:
    """Return the partition that stores a group, from the answer to `store_request`, if offline."""
    partitions = {found.partition_index: found for found in answer.topics[0].partitions}
    if not partitions:
        return None
    number = coordinating_partition(CoordinatedId(group, java_hash(group)), len(partitions))
    found = partitions[number]
    if found.leader_id >= 0:
        return None
    return OfflineStore(TopicPartition(STORE, number), tuple(found.offline_replicas))


def coordinator_request(group: str) -> Any:
    """Build a coordinator lookup. Brokers create the topic that stores groups to answer it."""
    return FindCoordinatorRequest(
        coordinator_keys=[group], key_type=CoordinatorType.GROUP, min_version=4
    )


def describe_request(group: str) -> Any:
    """Build a group description; up to version 5 a group that does not exist is no error."""
    return DescribeGroupsRequest(
        groups=[group], include_authorized_operations=True, min_version=4, max_version=5
    )


def read_group(answer: Any) -> GroupDescription:
    """Read the only group of an answer."""
    group = answer.groups[0]
    permitted = group.authorized_operations
    return GroupDescription(
        kind=group.protocol_type,
        settled=group.group_state in _SETTLED,
        members=tuple(
            MemberDescription(
                m.member_id,
                m.group_instance_id,
                bytes(m.member_metadata),
                bytes(m.member_assignment),
            )
            for m in group.members
        ),
        permitted=_READ in permitted if permitted else None,
    )


def join_request(group: str, metadata: bytes, session_s: float, member_id: str) -> Any:
    """Build a join as the group's only member; replaces a member with the same instance id."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name=_PROTOCOL, metadata=metadata)
    session_ms = int(session_s * 1000)
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=session_ms,
        member_id=member_id,
        group_instance_id=INSTANCE,
        protocol_type=KIND,
        protocols=[protocol],
        min_version=5,
    )


def sync_request(group: str, member: Member) -> Any:
    """Build the sync that completes a join; without it brokers do not show the whole member."""
    assignment = SyncGroupRequest.SyncGroupRequestAssignment
    return SyncGroupRequest(
        group_id=group,
        generation_id=member.generation,
        member_id=member.id,
        group_instance_id=INSTANCE,
        protocol_type=KIND,
        protocol_name=_PROTOCOL,
        assignments=[assignment(member_id=member.id, assignment=EMPTY_ASSIGNMENT)],
        min_version=3,
    )


def heartbeat_request(group: str, member: Member) -> Any:
    """Build a heartbeat; the answer shows whether the member still is one."""
    return HeartbeatRequest(
        group_id=group,
        generation_id=member.generation,
        member_id=member.id,
        group_instance_id=INSTANCE,
        min_version=3,
    )


def leave_request(group: str, member: Member) -> Any:
    """Build a leave. The member id keeps a replaced member from removing its successor."""
    identity = LeaveGroupRequest.MemberIdentity
    return LeaveGroupRequest(
        group_id=group,
        members=[identity(member_id=member.id, group_instance_id=INSTANCE)],
        min_version=3,
    )


_ANY_ID = "ktui.any.transactional.id"  # an id that only a permission for all ids covers


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg,misc]  # kafka-python is untyped
    """DescribeShareGroupOffsets, API key 90, to the coordinator of the groups (KIP-932)."""


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg,misc]  # kafka-python is untyped
    """Each group's partitions; an error code for each group. An unknown group has no error."""


all_groups = ListGroupsRequest  # whatever their state and type
all_transactions = ListTransactionsRequest
any_transaction = partial(DescribeTransactionsRequest, transactional_ids=[_ANY_ID])
"""Builds the request that tells whether every transactional id may be described."""


def read_groups(answer: Any) -> tuple[CoordinatedId, ...]:
    """Return the groups of an answer, by name."""
    return tuple(
        CoordinatedId(clean(name), java_hash(name), group_type.lower())
        for name, group_type in sorted((one.group_id, one.group_type) for one in answer.groups)
    )


def share_groups(answer: Any) -> tuple[str, ...]:
    """Return the share groups of an answer to `all_groups`, as Kafka has their names."""
    return tuple(one.group_id for one in answer.groups if one.group_type.lower() == SHARE)


def share_state_request(groups: Collection[str]) -> Any:
    """Build a request for every partition of which some share groups have state."""
    group = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    return DescribeShareGroupOffsetsRequest(
        groups=[group(group_id=name, topics=None) for name in groups]
    )


def read_share_state(answer: Any) -> Iterator[CoordinatedId]:
    """Yield the groups of an answer, each once for every partition of which it has state."""
    for group in answer.groups:
        for topic in group.topics:
            topic_id = format_topic_id(topic.topic_id) or ""
            for found in topic.partitions:
                key = share_state_key(group.group_id, topic_id, found.partition_index)
                yield CoordinatedId(clean(group.group_id), java_hash(key), SHARE)


def read_transactions(answer: Any) -> tuple[CoordinatedId, ...]:
    """Return the transactional ids of an answer, by name."""
    names = sorted(state.transactional_id for state in answer.transaction_states)
    return tuple(CoordinatedId(clean(name), java_hash(name)) for name in names)


def may_describe_all(answer: Any) -> bool:
    """Whether the answer to `any_transaction` shows that permission."""
    return not means(answer.transaction_states[0].error_code, Means.DENIED)
