"""Which of Kafka's refusals count: so many in a row, and a partition has failed."""

from __future__ import annotations

from ktui.cluster.ports import Verdict, WriteResult
from ktui.execution.events import Answered

_NOT_IN_SYNC = frozenset({"PREFERRED_LEADER_NOT_AVAILABLE", "ELIGIBLE_LEADERS_NOT_AVAILABLE"})
"""What Kafka answers to an election whose winner is not in sync; it may be a moment later."""


def counts_against(result: Answered | WriteResult) -> bool:
    """Whether Kafka has refused something for good, rather than that it could not be sent yet."""
    refused = result.verdict is Verdict.REFUSED and result.code is not None
    return refused and result.code not in _NOT_IN_SYNC
