"""How a run judges a refusal: try again, wait for a broker, or give the partition up."""

from types import MappingProxyType

import pytest

from ktui.cluster.errors import KafkaError, Means
from ktui.cluster.ports import Verdict, WriteResult
from ktui.execution.run.events import Request
from ktui.execution.run.parts import MOST_TRIES, Outcome, failure_reason, judge_refusal

REFUSED = WriteResult(Verdict.REFUSED, KafkaError.INVALID_REQUEST, "no")
CORDONED = WriteResult(
    Verdict.REFUSED,
    KafkaError.INVALID_REPLICA_ASSIGNMENT,
    "it names broker 7, but all its log directories are cordoned",
)
NOT_SENT = WriteResult(Verdict.REFUSED, None, "no connection")


@pytest.mark.parametrize(
    ("result", "before", "once", "outcome"),
    [
        (REFUSED, 0, False, Outcome.AGAIN),
        (REFUSED, MOST_TRIES - 1, False, Outcome.FAILED),
        (REFUSED, 0, True, Outcome.FAILED),
        (CORDONED, 0, False, Outcome.BLOCKED),
        (CORDONED, 0, True, Outcome.FAILED),
        (NOT_SENT, 0, True, Outcome.AGAIN),
    ],
)
def test_a_refusal_counts_unless_it_was_never_sent_or_a_cordon_may_end(
    result: WriteResult,
    before: int,
    once: bool,  # noqa: FBT001 - by pytest's name
    outcome: Outcome,
) -> None:
    assert judge_refusal(result, before, once=once).outcome is outcome


def test_a_final_error_fails_at_once_unless_a_permission_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(KafkaError.INVALID_REQUEST, "means", Means.FINAL)
    assert judge_refusal(REFUSED).outcome is Outcome.FAILED
    assert judge_refusal(REFUSED, may_fail=False).outcome is Outcome.AGAIN


def test_a_failed_partition_says_what_helps_for_the_kind_of_its_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    helps = MappingProxyType({"alter": "Ask for fewer"})
    monkeypatch.setattr(KafkaError.INVALID_REQUEST, "helps", helps)
    assert (
        failure_reason(1, REFUSED, Request.ALTER) == "refused: no (INVALID_REQUEST). Ask for fewer"
    )
    assert failure_reason(2, REFUSED, Request.ELECT) == "refused 2 times: no (INVALID_REQUEST)"
