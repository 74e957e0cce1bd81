"""Kafka's error codes: their names, and their meaning for a whole call."""

from __future__ import annotations

from kafka.errors import UnknownError, for_code

from ktui.cluster.errors import ClusterError, NotAuthorized, Refused, TimedOut, Unsupported
from ktui.cluster.text import clean

NONE = 0
UNKNOWN_TOPIC_OR_PARTITION = 3
REQUEST_TIMED_OUT = 7
ELECTION_NOT_NEEDED = 84
NOT_CONTROLLER = 41
UNSUPPORTED_VERSION = 35
QUOTA_EXCEEDED = 89

TOPIC_DENIED = 29
DENIED = frozenset({TOPIC_DENIED, 30, 31, 53})
"""The *_AUTHORIZATION_FAILED codes."""

ABSENT = frozenset({UNKNOWN_TOPIC_OR_PARTITION, 100})
"""UNKNOWN_TOPIC_OR_PARTITION and UNKNOWN_TOPIC_ID."""

ELSEWHERE = frozenset({5, 6, REQUEST_TIMED_OUT, 8, 13, NOT_CONTROLLER, 74, 75})
"""Codes of a read that may succeed on another broker, or on the same one a moment later."""

UNCHANGED = frozenset({NOT_CONTROLLER})
"""Codes of a change that certainly had no effect, so that it may be sent again."""

UNDECIDED = frozenset({-1, REQUEST_TIMED_OUT, 13})
"""Codes of a change that may or may not have taken effect: a forwarding broker gave up."""


_KAFKAS_OWN = {
    -1: "UNKNOWN_SERVER_ERROR",
    6: "NOT_LEADER_OR_FOLLOWER",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    39: "INVALID_REPLICA_ASSIGNMENT",
}
"""Errors whose name in kafka-python differs from Kafka's (clients' Errors.java)."""
_DUMP = "Request Request("
"""The start of a broker's message that is the request's Java object instead of a sentence."""


def name_of(code: int) -> str:
    """Return Kafka's name for an error code; `ERROR_<code>` for one newer than the client."""
    if code in _KAFKAS_OWN:
        return _KAFKAS_OWN[code]
    error = for_code(code)
    return f"ERROR_{code}" if issubclass(error, UnknownError) else str(error.message)


def describe_error(code: int, message: str | None) -> str:
    """Return a broker's answer in one line: Kafka's name for the error and the broker's message."""
    if not message or message.startswith(_DUMP):
        return name_of(code)
    return f"{name_of(code)}: {clean(message)}"


def describe_refusal(code: int, message: str | None, needs: str) -> str:
    """Return a broker's answer in one line, with the missing permission if it is a denial."""
    answer = describe_error(code, message)
    return f"{answer.rstrip('.')}. {permission_fix(needs)}" if code in DENIED and needs else answer


def error_for_refusal(
    code: int, message: str | None, *, attempted: str, where: str, needs: str
) -> ClusterError:
    """Return the error for an answer that failed as a whole, with the fix."""
    answer = describe_error(code, message)
    if code in DENIED:
        return NotAuthorized(
            attempted, where=where, answer=answer, fix=permission_fix(needs), needs=needs
        )
    if code == UNSUPPORTED_VERSION:
        return Unsupported(attempted, where=where, answer=answer, fix="Upgrade the brokers")
    if code == REQUEST_TIMED_OUT:
        return TimedOut(attempted, where=where, answer=answer)
    return Refused(attempted, code=name_of(code), where=where, answer=answer)


def permission_fix(needs: str) -> str:
    """Return the fix for a missing permission, as a sentence."""
    return f"Grant {needs} to this principal; `ktui doctor` shows all that is missing"
