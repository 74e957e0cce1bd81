"""Requests about consumer groups with one static member, and how their answers are read.

The classic group protocol: every broker speaks it, and none can be kept from it.
"""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin.groups import DescribeGroupsRequest
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest, MetadataRequest

from ktui.cluster.membership import (
    INSTANCE,
    KIND,
    STORE,
    GroupDescription,
    Member,
    MemberDescription,
)
from ktui.kafka.transport import error_codes

_PROTOCOL = "owner"
_SETTLED = frozenset({"Stable", "Empty", "Dead"})
_READ = 3
"""Kafka's number for the ACL operation Read."""


def store_request() -> Any:
    """Ask for the topic of the groups, which must not be created by that."""
    topic = MetadataRequest.MetadataRequestTopic(name=STORE)
    return MetadataRequest(topics=[topic], allow_auto_topic_creation=False, max_version=9)


def stores_groups(answer: Any) -> bool | None:
    """Whether the topic of the groups exists; None where that is not told."""
    code = answer.topics[0].error_code
    if code in error_codes.DENIED:
        return None
    return code not in error_codes.ABSENT


def coordinator_request(group: str) -> Any:
    """Ask which broker coordinates a group. Brokers create the topic of the groups for that."""
    return FindCoordinatorRequest(
        coordinator_keys=[group], key_type=CoordinatorType.GROUP, min_version=4
    )


def describe_request(group: str) -> Any:
    """Ask for a group; up to version 5 one that does not exist is no error."""
    return DescribeGroupsRequest(
        groups=[group], include_authorized_operations=True, min_version=4, max_version=5
    )


def seen(answer: Any) -> GroupDescription:
    """Read the one group of an answer."""
    told = answer.groups[0]
    may = told.authorized_operations
    return GroupDescription(
        kind=told.protocol_type,
        settled=told.group_state in _SETTLED,
        members=tuple(
            MemberDescription(m.member_id, m.group_instance_id, bytes(m.member_metadata))
            for m in told.members
        ),
        permitted=_READ in may if may else None,
    )


def join_request(group: str, note: bytes, session_s: float, member_id: str) -> Any:
    """Join as the group's one member; what is there under its instance id is replaced."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name=_PROTOCOL, metadata=note)
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
    """End the joining. The assignment means nothing, but is not shown unless there is one."""
    assignment = SyncGroupRequest.SyncGroupRequestAssignment
    return SyncGroupRequest(
        group_id=group,
        generation_id=member.generation,
        member_id=member.id,
        group_instance_id=INSTANCE,
        protocol_type=KIND,
        protocol_name=_PROTOCOL,
        assignments=[assignment(member_id=member.id, assignment=b"")],
        min_version=3,
    )


def heartbeat_request(group: str, member: Member) -> Any:
    """Show that a member lives, and ask whether it still is one."""
    return HeartbeatRequest(
        group_id=group,
        generation_id=member.generation,
        member_id=member.id,
        group_instance_id=INSTANCE,
        min_version=3,
    )


def leave_request(group: str, member: Member) -> Any:
    """Leave; the member id keeps one that was replaced from removing its successor."""
    identity = LeaveGroupRequest.MemberIdentity
    return LeaveGroupRequest(
        group_id=group,
        members=[identity(member_id=member.id, group_instance_id=INSTANCE)],
        min_version=3,
    )
