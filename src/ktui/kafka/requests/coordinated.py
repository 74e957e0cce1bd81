"""Requests for the groups and transactional ids that a broker coordinates, and their answers.

kafka-python knows the API key of DescribeShareGroupOffsets and has no class for it. The two JSON
files beside this module are Kafka's definitions of the request and the response.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from kafka.protocol.admin.groups import ListGroupsRequest
from kafka.protocol.admin.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.api_message import ApiMessage

from ktui.cluster.coordination import SHARE, CoordinatedId, java_hash, share_state_key
from ktui.cluster.kafka_error import Means, means
from ktui.cluster.text import clean
from ktui.kafka.requests.metadata import format_topic_id

_ANY_ID = "ktui.any.transactional.id"
"""An id that only a permission for all ids covers."""


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg,misc]  # kafka-python is untyped
    """DescribeShareGroupOffsets, API key 90, to the coordinator of the groups (KIP-932)."""


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg,misc]  # kafka-python is untyped
    """Each group's partitions; an error code for each group. An unknown group has no error."""


def groups_request() -> Any:
    """Build a request for all groups, whatever their state and type."""
    return ListGroupsRequest()


def read_groups(answer: Any) -> tuple[CoordinatedId, ...]:
    """Return the groups of an answer, by name."""
    return tuple(
        CoordinatedId(clean(name), java_hash(name), group_type.lower())
        for name, group_type in sorted((one.group_id, one.group_type) for one in answer.groups)
    )


def share_groups(answer: Any) -> tuple[str, ...]:
    """Return the share groups of an answer to `groups_request`, as Kafka has their names."""
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


def transactions_request() -> Any:
    """Build a request for all transactional ids, whatever their state."""
    return ListTransactionsRequest()


def read_transactions(answer: Any) -> tuple[CoordinatedId, ...]:
    """Return the transactional ids of an answer, by name."""
    names = sorted(state.transactional_id for state in answer.transaction_states)
    return tuple(CoordinatedId(clean(name), java_hash(name)) for name in names)


def permission_request() -> Any:
    """Build a request that shows whether the principal may describe every transactional id.

    Brokers leave those out of a list that it may not describe, without an error. They check the
    permission before they look the id up, and create nothing.
    """
    return DescribeTransactionsRequest(transactional_ids=[_ANY_ID])


def may_describe_all(answer: Any) -> bool:
    """Whether the answer to `permission_request` shows that permission."""
    return not means(answer.transaction_states[0].error_code, Means.DENIED)
