"""Cancelled requests to many brokers."""

from __future__ import annotations

import inspect

from ktui.cluster.asking import RequestsByKey
from ktui.cluster.errors import Operation
from ktui.simulated.clock import VirtualClock


async def test_a_request_cancelled_before_it_was_sent_leaves_nothing_behind() -> None:
    async def question() -> int:
        return 1

    call = question()
    asking: RequestsByKey[int, int] = RequestsByKey(Operation.LOG_ENDS, VirtualClock())

    asking.ask(1, call)
    await asking.aclose()

    assert inspect.getcoroutinestate(call) == inspect.CORO_CLOSED
