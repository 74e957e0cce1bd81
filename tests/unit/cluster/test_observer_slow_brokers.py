"""No slow or dead broker holds up the others, and its last figures stay."""

from __future__ import annotations

import pytest

from ktui.cluster.errors import Operation
from ktui.cluster.partition import Replica
from ktui.simulated import layout
from support.simulated.polled_cluster import MESSAGES, ORDERS, PATIENCE_S, looking_at_a_move


async def test_a_slow_broker_affects_only_its_own_figures_and_is_named() -> None:
    async with looking_at_a_move() as watcher:
        before = await watcher.poll()
        await watcher.do(layout.Hang(4), layout.Append(ORDERS, 100), then_wait_s=1.0)

        observation = await watcher.poll()

        assert observation.ends[Replica(ORDERS, 2)].value == MESSAGES + 100
        assert observation.ends[Replica(ORDERS, 4)].value == 500
        assert observation.ends[Replica(ORDERS, 4)].at_s == before.monotonic_s
        assert observation.took_s == PATIENCE_S
        (failure,) = observation.failures
        assert (failure.operation, failure.broker) == (Operation.LOG_ENDS, 4)


async def test_a_slow_broker_is_not_asked_again_until_it_has_answered() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.do(layout.Hang(4))
        for _ in range(3):
            await watcher.poll()

        assert watcher.reader.asked(4) == 1

        await watcher.do(layout.Resume(4), then_wait_s=1.0)
        observation = await watcher.poll()

        assert observation.failures == ()
        assert watcher.reader.asked(4) == 2


async def test_a_poll_does_not_wait_for_a_broker_that_hung_in_an_earlier_one() -> None:
    async with looking_at_a_move(patience_s=1.0) as watcher:
        await watcher.do(layout.Hang(4))
        first, second = await watcher.poll(), await watcher.poll()

        assert (first.took_s, second.took_s) == (1.0, 0.0)
        assert (Operation.LOG_ENDS, 4) in [(f.operation, f.broker) for f in second.failures]
        assert {f.broker for f in second.failures} == {4}


async def test_an_answer_between_two_polls_carries_its_time_of_arrival() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.do(layout.Hang(4))
        await watcher.poll()
        await watcher.do(layout.Resume(4), then_wait_s=2.0)
        await watcher.do(layout.Hang(4))

        came_at_s = (await watcher.poll()).ends[Replica(ORDERS, 4)].at_s

        assert 6.0 < came_at_s < 8.0


@pytest.mark.parametrize("version", ["3.9", "4.3"])
async def test_a_dead_broker_is_not_asked(version: str) -> None:
    async with looking_at_a_move(version=version) as watcher:
        await watcher.do(layout.Kill(4), then_wait_s=10.0)

        observation = await watcher.poll()

        assert [broker for broker, _ in watcher.reader.asked_offsets] == [2]
        assert not observation.alive(4)
        assert observation.failures == ()
