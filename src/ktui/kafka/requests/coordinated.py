"""Requests for the groups and transactional ids that a broker coordinates, and their answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka.protocol.admin.groups import ListGroupsRequest
from kafka.protocol.admin.transactions import DescribeTransactionsRequest, ListTransactionsRequest

from ktui.cluster.coordination import CoordinatedId, java_hash
from ktui.cluster.text import clean
from ktui.kafka.transport import error_codes

_ANY_ID = "ktui.any.transactional.id"
"""An id that only a permission for all ids covers."""


def groups_request() -> Any:
    """Build a request for all groups, whatever their state and type."""
    return ListGroupsRequest()


def read_groups(answer: Any) -> tuple[CoordinatedId, ...]:
    """Return the groups of an answer, by name."""
    return _ids(group.group_id for group in answer.groups)


def transactions_request() -> Any:
    """Build a request for all transactional ids, whatever their state."""
    return ListTransactionsRequest()


def read_transactions(answer: Any) -> tuple[CoordinatedId, ...]:
    """Return the transactional ids of an answer, by name."""
    return _ids(state.transactional_id for state in answer.transaction_states)


def permission_request() -> Any:
    """Build a request that shows whether the principal may describe every transactional id.

    Brokers leave those out of a list that it may not describe, without an error. They check the
    permission before they look the id up, and create nothing.
    """
    return DescribeTransactionsRequest(transactional_ids=[_ANY_ID])


def may_describe_all(answer: Any) -> bool:
    """Whether the answer to `permission_request` shows that permission."""
    return answer.transaction_states[0].error_code not in error_codes.DENIED


def _ids(names: Iterable[str]) -> tuple[CoordinatedId, ...]:
    return tuple(CoordinatedId(clean(name), java_hash(name)) for name in sorted(names))
