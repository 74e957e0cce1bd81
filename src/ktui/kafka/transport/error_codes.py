"""Kafka's error codes in answers: their names, and the errors and words made of them."""

from __future__ import annotations

from kafka.errors import UnknownError, for_code

from ktui.cluster.errors import ClusterError, NotAuthorized, Refused, TimedOut, Unsupported
from ktui.cluster.kafka_error import KafkaError, Means, error_of, means
from ktui.cluster.text import clean

NONE = 0
_DUMP = "Request Request("  # a broker's message that is the request's Java object, no sentence


def name_of(code: int) -> str:
    """Return Kafka's name for an error code; `ERROR_<code>` for one newer than the client."""
    if (known := error_of(code)) is not None:
        return known
    error = for_code(code)
    return f"ERROR_{code}" if issubclass(error, UnknownError) else str(error.message)


def describe_error(code: int, message: str | None) -> str:
    """Return a broker's answer in one line: Kafka's name for the error and the broker's message."""
    if not message or message.startswith(_DUMP):
        return name_of(code)
    return f"{name_of(code)}: {clean(message)}"


def describe_refusal(code: int, message: str | None, needs: str) -> str:
    """Return a broker's answer in one line, with the missing permission if it is a denial."""
    answer, denied = describe_error(code, message), means(code, Means.DENIED)
    return f"{answer.rstrip('.')}. {permission_fix(needs)}" if denied and needs else answer


def error_for_refusal(
    code: int, message: str | None, *, attempted: str, where: str, needs: str
) -> ClusterError:
    """Return the error for an answer that failed as a whole, with the fix."""
    answer, error = describe_error(code, message), error_of(code)
    if means(code, Means.DENIED):
        return NotAuthorized(
            attempted, where=where, answer=answer, fix=permission_fix(needs), needs=needs
        )
    if error is KafkaError.UNSUPPORTED_VERSION:
        return Unsupported(attempted, where=where, answer=answer, fix="Upgrade the brokers")
    if error is KafkaError.REQUEST_TIMED_OUT:
        return TimedOut(attempted, where=where, answer=answer)
    return Refused(attempted, code=name_of(code), where=where, answer=answer)


def permission_fix(needs: str) -> str:
    """Return the fix for a missing permission, as a sentence."""
    return f"Grant {needs} to this principal; `ktui doctor` shows all that is missing"
