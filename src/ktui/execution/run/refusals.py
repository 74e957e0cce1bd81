"""Which of Kafka's refusals count: so many in a row, and a partition has failed."""

from __future__ import annotations

from collections.abc import Iterable

from ktui.cluster.ports import Verdict, WriteResult
from ktui.execution.run.events import Answered
from ktui.planning.names import join_some

_NOT_IN_SYNC = frozenset({"PREFERRED_LEADER_NOT_AVAILABLE", "ELIGIBLE_LEADERS_NOT_AVAILABLE"})
"""What Kafka answers to an election whose winner is not in sync; it may be a moment later."""


_BROKEN = "UNKNOWN_SERVER_ERROR"
"""What a controller answers that failed over a request: it may have taken effect, or not."""

NOT_ALLOWED = "CLUSTER_AUTHORIZATION_FAILED"
"""What Kafka answers to whoever lacks a permission on the cluster: no partition's own fault."""

NOTHING_TO_CANCEL = "NO_REASSIGNMENT_IN_PROGRESS"
"""What Kafka answers to a cancel of what is over, or has not come yet."""

DENIALS = frozenset({NOT_ALLOWED, "TOPIC_AUTHORIZATION_FAILED"})

MOST_TRIES = 5
"""A step that Kafka refuses so often in a row ends its partition: `failed`."""


def counts_against(result: Answered | WriteResult) -> bool:
    """Whether Kafka has refused something for good, rather than that it could not be sent yet."""
    if result.verdict is Verdict.UNKNOWN:
        return result.code == _BROKEN
    refused = result.verdict is Verdict.REFUSED and result.code is not None
    return refused and result.code not in _NOT_IN_SYNC | {NOT_ALLOWED}


def denied(results: Iterable[WriteResult]) -> str | None:
    """Name the permission for want of which all of a request was refused; None where it was not."""
    results = list(results)
    codes = {result.code for result in results}
    if not codes or not codes <= DENIALS:
        return None
    named = ", ".join(sorted(filter(None, codes)))
    missing = join_some(sorted({result.needs for result in results} - {""}))
    if not missing:
        return f"a permission is missing ({named}): grant what `ktui doctor` names, then resume"
    return f"the permission {missing} is missing ({named}): grant it, then resume"


def refused_too_often(tries: int, result: Answered | WriteResult) -> str:
    """Say so, in the broker's words."""
    return f"refused {tries} times: {refusal_in_words(result)}"


def refusal_in_words(result: Answered | WriteResult) -> str:
    """Give the broker's words, and Kafka's name of the error."""
    return f"{result.message} ({result.code})" if result.code else result.message
