"""The refusals by Kafka that count: after `MOST_TRIES` in a row a partition has failed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ktui.cluster.ports import Verdict, WriteResult
from ktui.execution.run.events import Answered
from ktui.planning.names import join_some

_NOT_IN_SYNC = frozenset({"PREFERRED_LEADER_NOT_AVAILABLE", "ELIGIBLE_LEADERS_NOT_AVAILABLE"})
"""Kafka's errors for an election whose winner is not in sync; a moment later it may be."""


_BROKEN = "UNKNOWN_SERVER_ERROR"
"""A controller's error when it failed over a request, which may or may not have taken effect."""

NOT_ALLOWED = "CLUSTER_AUTHORIZATION_FAILED"
"""Kafka's error for a missing permission on the cluster: no partition's own fault."""

NOTHING_TO_CANCEL = "NO_REASSIGNMENT_IN_PROGRESS"
"""Kafka's error for a cancel of a reassignment that is over, or has not arrived yet."""

_CORDONED = re.compile(r"broker (\d+), but all its log directories are cordoned")
"""Kafka's words, from 4.4, for a target that names a broker whose log dirs are all cordoned."""

DENIALS = frozenset({NOT_ALLOWED, "TOPIC_AUTHORIZATION_FAILED"})
"""Kafka's errors for missing permissions."""

MOST_TRIES = 5
"""After so many refusals of its step in a row, a partition is `failed`."""


def counts_against(result: Answered | WriteResult) -> bool:
    """Whether a result counts as a refusal by Kafka, and not as a request that was not sent."""
    if result.verdict is Verdict.UNKNOWN:
        return result.code == _BROKEN
    refused = result.verdict is Verdict.REFUSED and result.code is not None
    waits = result.code in _NOT_IN_SYNC | {NOT_ALLOWED} or cordoned_broker(result) is not None
    return refused and not waits


def cordoned_broker(result: Answered | WriteResult) -> int | None:
    """Return the broker whose cordon made Kafka refuse a target; None if that was not the reason.

    Kafka names the first such broker of the target.
    """
    if result.verdict is not Verdict.REFUSED or result.code != "INVALID_REPLICA_ASSIGNMENT":
        return None
    named = _CORDONED.search(result.message)
    return None if named is None else int(named[1])


def missing_permission(results: Iterable[WriteResult]) -> str | None:
    """Name the permission whose lack made Kafka refuse all of a request; None if it did not."""
    results = list(results)
    codes = {result.code for result in results}
    if not codes or not codes <= DENIALS:
        return None
    named = ", ".join(sorted(filter(None, codes)))
    missing = join_some(sorted({result.needs for result in results} - {""}))
    if not missing:
        return f"a permission is missing ({named}): grant what `ktui doctor` names, then resume"
    return f"the permission {missing} is missing ({named}): grant it, then resume"


def failure_reason(tries: int, result: Answered | WriteResult) -> str:
    """Return the reason of a partition that failed: the number of tries and the last refusal."""
    times = "" if tries == 1 else f" {tries} times"
    return f"refused{times}: {refusal_text(result)}"


def refusal_text(result: Answered | WriteResult) -> str:
    """Return the broker's message, with Kafka's name of the error if the message lacks it."""
    named = not result.code or result.code in result.message
    return result.message if named else f"{result.message} ({result.code})"
