"""A call turns to another broker in good time, and gives up in the end."""

from __future__ import annotations

import pytest

from ktui.cluster.errors import TimedOut
from ktui.kafka.transport.translate_errors import FIRST_S, Attempts

HUNG = TimedOut("listing reassignments")


def limits(attempts: Attempts, nodes: list[int]) -> list[tuple[int, float]]:
    """Return the brokers that a call asks if none answers, each with its time limit."""
    asked = []
    while choice := attempts.choose(nodes):
        node, call = choice
        asked.append((int(node), call.left_s()))
        attempts.failed(node, HUNG, for_good=True)
    return asked


def test_a_read_turns_from_a_hung_broker_to_the_next_soon() -> None:
    asked = limits(Attempts(10.0, hasty=True), [1, 2, 3])

    assert [node for node, _ in asked] == [1, 2, 3]
    assert [limit for _, limit in asked] == pytest.approx([FIRST_S, 2 * FIRST_S, 10.0], rel=0.01)


def test_a_change_waits_longer_for_its_answer_than_a_read() -> None:
    (node, limit), *_ = limits(Attempts(10.0), [1, 2])

    assert node == 1
    assert limit == pytest.approx(5.0, rel=0.01)


def test_the_only_broker_that_can_answer_gets_all_the_time() -> None:
    ((node, limit),) = limits(Attempts(10.0, hasty=True), [3])

    assert node == 3
    assert limit == pytest.approx(10.0, rel=0.01)


def test_the_attempts_keep_their_last_failure() -> None:
    attempts = Attempts(10.0)
    assert attempts.failure is None
    limits(attempts, [1, 2])
    assert attempts.failure is HUNG
