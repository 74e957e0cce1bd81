"""No broker holds up the others: slow ones, dead ones, and what they told last."""

from __future__ import annotations

import pytest

from ktui.cluster.errors import Operation
from ktui.cluster.partition import Replica
from ktui.simulated import events
from support.simulated.polled_cluster import MESSAGES, ORDERS, PATIENCE_S, looking_at_a_move


async def test_a_slow_broker_costs_its_own_figures_only_and_is_named() -> None:
    async with looking_at_a_move() as look:
        before = await look.poll()
        await look.do(events.Hang(4), events.Append(ORDERS, 100), then_wait_s=1.0)

        observation = await look.poll()

        assert observation.ends[Replica(ORDERS, 2)].value == MESSAGES + 100
        assert observation.ends[Replica(ORDERS, 4)].value == 500
        assert observation.ends[Replica(ORDERS, 4)].at_s == before.monotonic_s
        assert observation.took_s == PATIENCE_S
        (failure,) = observation.failures
        assert (failure.operation, failure.broker) == (Operation.LOG_ENDS, 4)


async def test_a_slow_broker_is_not_asked_again_until_it_has_answered() -> None:
    async with looking_at_a_move() as look:
        await look.do(events.Hang(4))
        for _ in range(3):
            await look.poll()

        assert look.reader.asked(4) == 1

        await look.do(events.Resume(4), then_wait_s=1.0)
        observation = await look.poll()

        assert observation.failures == ()
        assert look.reader.asked(4) == 2


async def test_a_poll_does_not_wait_for_a_broker_that_hung_in_an_earlier_one() -> None:
    async with looking_at_a_move(patience_s=1.0) as look:
        await look.do(events.Hang(4))
        first, second = await look.poll(), await look.poll()

        assert (first.took_s, second.took_s) == (1.0, 0.0)
        assert (Operation.LOG_ENDS, 4) in [(f.operation, f.broker) for f in second.failures]
        assert {f.broker for f in second.failures} == {4}


async def test_an_answer_that_comes_between_two_polls_carries_the_second_it_came() -> None:
    async with looking_at_a_move() as look:
        await look.do(events.Hang(4))
        await look.poll()
        await look.do(events.Resume(4), then_wait_s=2.0)
        await look.do(events.Hang(4))

        came_at_s = (await look.poll()).ends[Replica(ORDERS, 4)].at_s

        assert 6.0 < came_at_s < 8.0


@pytest.mark.parametrize("version", ["4.0", "4.3"])
async def test_a_dead_broker_is_not_asked(version: str) -> None:
    async with looking_at_a_move(version=version) as look:
        await look.do(events.Kill(4), then_wait_s=10.0)

        observation = await look.poll()

        assert [broker for broker, _ in look.reader.asked_offsets] == [2]
        assert not observation.alive(4)
        assert observation.failures == ()
